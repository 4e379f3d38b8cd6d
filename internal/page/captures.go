package page

import (
	"context"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/gym-observer/observer/internal/evidence"
)

// maxCaptures is how many captures the page lists, the newest first.
const maxCaptures = 10

// capture is a folder with evidence.
type capture struct {
	Name   string        `json:"name"`
	At     time.Time     `json:"at"`
	Reason string        `json:"reason"`
	Files  []captureFile `json:"files"`
}

type captureFile struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// listPatience is how long a page waits for the list of captures. A directory on
// a network may hang.
const listPatience = 100 * time.Millisecond

// listCooldown is the least time between two looks at a directory that changes:
// one with 100,000 entries takes half a second of CPU to read.
const listCooldown = 5 * time.Second

// captureList is what all who look are shown of a directory. Whoever does not want
// to wait for a look gets what was found before.
type captureList struct {
	mu        sync.Mutex // guards what follows
	directory string
	looked    time.Time // when the last look began
	found     []capture
}

// of returns the newest captures in a directory on a disk, as they were at most
// listCooldown ago, if that answers.
func (l *captureList) of(d *disk, directory string) []capture {
	if directory == "" {
		return []capture{}
	}
	l.mu.Lock()
	if l.directory != directory {
		l.directory, l.looked, l.found = directory, time.Time{}, []capture{}
	}
	due := time.Since(l.looked) >= listCooldown
	if due {
		l.looked = time.Now()
	}
	l.mu.Unlock()
	if due {
		keep := func(found []capture) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.directory == directory {
				l.found = found
			}
		}
		// Not the request's context: the list is for all.
		if found, answered := ask(context.Background(), d, listPatience, func() []capture { return listCaptures(directory) }, keep); answered {
			keep(found)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.found
}

// listCaptures returns the newest captures in a directory, as far as they can be
// read.
func listCaptures(directory string) []capture {
	captures := []capture{}
	if directory == "" {
		return captures
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return captures // it is made by the first capture
	}
	defer root.Close()
	entries, _ := fs.ReadDir(root.FS(), ".")
	for _, entry := range slices.Backward(entries) { // by name, which is by time
		name, ok := evidence.ParseName(entry.Name())
		if !ok || !entry.IsDir() {
			continue
		}
		captures = append(captures, capture{entry.Name(), name.At, name.Reason, filesOf(root, entry.Name())})
		if len(captures) == maxCaptures {
			break
		}
	}
	return captures
}

func filesOf(root *os.Root, folder string) []captureFile {
	files := []captureFile{}
	entries, _ := fs.ReadDir(root.FS(), folder)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && contentTypes[path.Ext(entry.Name())] != "" {
			files = append(files, captureFile{entry.Name(), info.Size()})
		}
	}
	return files
}
