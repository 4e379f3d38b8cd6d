package evidence

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// abandonedAfter is the age from which on nobody writes in an incomplete folder
// any more. Writing takes seconds; an hour is for a disk that hangs.
const abandonedAfter = time.Hour

// Prune removes what a crash left incomplete, and the oldest folders until the
// rest has at most so many bytes. The newest stays in any case. Several processes
// may share the directory; what [ParseName] refuses is left alone.
func Prune(directory string, budget int64) error {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	type folder struct {
		name Name
		size int64
	}
	var folders []folder
	var total int64
	var failed []error
	for _, entry := range entries {
		if !entry.IsDir() {
			continue // a link is none
		}
		path := filepath.Join(directory, entry.Name())
		if _, ours := parsePartial(entry.Name()); ours {
			if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > abandonedAfter {
				failed = append(failed, os.RemoveAll(path))
			}
		}
		if name, ours := ParseName(entry.Name()); ours {
			size, err := folderSize(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue // another process has just removed it
			}
			failed = append(failed, err)
			folders = append(folders, folder{name, size})
			total += size
		}
	}
	slices.SortFunc(folders, func(a, b folder) int { return cmp.Compare(a.name.String(), b.name.String()) })
	for len(folders) > 1 && total > budget {
		failed = append(failed, remove(directory, folders[0].name))
		total -= folders[0].size
		folders = folders[1:]
	}
	return errors.Join(failed...)
}

// remove removes a folder. It gets the name of an incomplete one first, so that a
// process which is killed in the middle leaves none that looks complete.
func remove(directory string, name Name) error {
	partial := filepath.Join(directory, name.partial())
	err := os.Rename(filepath.Join(directory, name.String()), partial)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process has just removed it
	}
	return errors.Join(err, os.RemoveAll(partial))
}

func folderSize(path string) (size int64, err error) {
	err = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}
