package evidence

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// What is captured holds stacks, routes, names of hosts and whatever text the
// application puts into its own trace. So it is the process's user's alone, also
// where a umask would let others read it: 0755 less the umask, the tempting
// choice, is open to everybody on most machines.
const (
	folderMode = 0o700
	fileMode   = 0o600
)

// File is one file of a folder.
type File struct {
	Name  string // "trace.out"
	Write func(io.Writer) error
}

// Bytes is a file with what is given.
func Bytes(name string, content []byte) File {
	return File{name, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	}}
}

// JSON is a file with any value.
func JSON(name string, value any) File {
	return File{name, func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	}}
}

// Write makes one folder of the files that can be written, in their order, and the
// directory for it where there is none. A file that fails is left out, and its
// error is among those returned. Where all fail, as on a full disk, there is no
// folder.
//
// It is made under another name and renamed, so that whoever finds it finds it
// complete.
func Write(directory string, name Name, files ...File) error {
	if !validReason(name.Reason) {
		return fmt.Errorf("a capture cannot have the reason %q", name.Reason)
	}
	if err := os.MkdirAll(directory, folderMode); err != nil {
		return err
	}
	name, partial, err := makePartial(directory, name)
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial) // what is complete has another name by then
	var failed []error
	written := 0
	for _, file := range files {
		if err := writeFile(filepath.Join(partial, file.Name), file.Write); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", file.Name, err))
			continue
		}
		written++
	}
	if written > 0 {
		failed = append(failed, os.Rename(partial, filepath.Join(directory, name.String())))
	}
	return errors.Join(failed...)
}

// makePartial makes the folder to write in. Another process of the same number may
// share the directory, and capture in the same microsecond: then this one is a
// little later.
func makePartial(directory string, name Name) (taken Name, path string, err error) {
	for range 100 {
		path = filepath.Join(directory, name.partial())
		err = os.Mkdir(path, folderMode)
		if err == nil {
			_, err = os.Lstat(filepath.Join(directory, name.String()))
			if errors.Is(err, fs.ErrNotExist) {
				return name, path, nil
			}
			os.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return name, "", err
		}
		name.At = name.At.Add(time.Microsecond)
	}
	return name, "", errors.Join(errors.New("every name for a capture is taken"), err)
}

// writeFile makes one file with what write gives, or none if that fails or panics.
func writeFile(name string, write func(io.Writer) error) (err error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(file)
	complete := false
	defer func() {
		err = errors.Join(err, file.Close())
		if err != nil || !complete {
			os.Remove(name)
		}
	}()
	err = errors.Join(write(buffered), buffered.Flush())
	complete = true
	return err
}
