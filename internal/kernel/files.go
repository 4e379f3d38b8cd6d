package kernel

import (
	"io/fs"
	"os"
)

// Files is the tree of files below a directory, "/" for the machine's own. It
// differs from [os.DirFS] in that a name need not be UTF-8: a control group's
// name is any bytes, and os.DirFS refuses such a path as invalid.
type Files string

// Open opens a file or directory.
func (f Files) Open(name string) (fs.File, error) {
	path, err := f.path("open", name)
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// ReadFile reads a whole file. It implements [fs.ReadFileFS], so that
// [fs.ReadFile] does not stat the file first.
func (f Files) ReadFile(name string) ([]byte, error) {
	path, err := f.path("read", name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// Stat implements [fs.StatFS].
func (f Files) Stat(name string) (fs.FileInfo, error) {
	path, err := f.path("stat", name)
	if err != nil {
		return nil, err
	}
	return os.Stat(path)
}

// path returns where a file is. Names are those of an [fs.FS]: relative, and not
// leading out of the directory.
func (f Files) path(operation, name string) (string, error) {
	if name == "." {
		return string(f), nil
	}
	if !validName(name) {
		return "", &fs.PathError{Op: operation, Path: name, Err: fs.ErrInvalid}
	}
	return string(f) + "/" + name, nil
}

// validName is [fs.ValidPath] without its demand for UTF-8.
func validName(name string) bool {
	start := 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			if name[i] == 0 {
				return false
			}
			continue
		}
		if element := name[start:i]; element == "" || element == "." || element == ".." {
			return false
		}
		start = i + 1
	}
	return true
}
