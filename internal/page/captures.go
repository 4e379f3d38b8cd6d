package page

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxCaptures is how many captures the page lists, the newest first.
const maxCaptures = 10

// parseName reads the name of a folder that is complete: its time, its reason and
// the process. Whatever else lies in the directory is nobody's business here.
func parseName(name string) (at time.Time, reason string, ok bool) {
	stamp, rest, _ := strings.Cut(name, "-")
	reason, process, _ := strings.Cut(rest, "-")
	at, timeErr := time.Parse(captureTime, stamp)
	_, processErr := strconv.ParseUint(process, 10, 64)
	wordy := reason != "" && strings.Trim(reason, "abcdefghijklmnopqrstuvwxyz_") == ""
	return at, reason, timeErr == nil && processErr == nil && wordy
}

const captureTime = "20060102T150405.000000Z"

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

// captureList is what all who look are shown of a directory. One goroutine at a
// time looks into it, and whoever does not want to wait for it gets what was
// found before.
type captureList struct {
	mu        sync.Mutex // guards what follows
	directory string
	looked    time.Time     // when the last look began
	looking   chan struct{} // closed when the look under way ends; nil without one
	found     []capture
}

// of returns the newest captures in a directory, as they were at most listCooldown ago.
func (l *captureList) of(directory string) []capture {
	if directory == "" {
		return []capture{}
	}
	l.mu.Lock()
	if l.directory != directory {
		l.directory, l.looked, l.found = directory, time.Time{}, []capture{}
	}
	if l.looking == nil && time.Since(l.looked) >= listCooldown {
		l.looked, l.looking = time.Now(), make(chan struct{})
		go l.look(directory, l.looking)
	}
	looking := l.looking
	l.mu.Unlock()
	if looking != nil {
		timeout := time.NewTimer(listPatience)
		defer timeout.Stop()
		select {
		case <-looking:
		case <-timeout.C:
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.found
}

func (l *captureList) look(directory string, done chan struct{}) {
	defer close(done)
	found := listCaptures(directory)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looking = nil
	if l.directory == directory {
		l.found = found
	}
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
		at, reason, ok := parseName(entry.Name())
		if !ok || !entry.IsDir() {
			continue
		}
		captures = append(captures, capture{entry.Name(), at, reason, filesOf(root, entry.Name())})
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

// serveCapture serves one file, by the names of its folder and its own.
func (h *Handler) serveCapture(w http.ResponseWriter, r *http.Request, name string) {
	directory := h.snapshot().Captures
	file, info, err := openCapture(directory, name)
	if err != nil {
		http.Error(w, "there is no such capture", http.StatusNotFound)
		return
	}
	defer file.Close()
	header := w.Header()
	header.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", strings.ReplaceAll(name, "/", "-")))
	header.Set("Content-Type", contentTypes[path.Ext(name)])
	// A trace of 16 MiB takes longer than the WriteTimeout of many servers.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(downloadPatience)) // not every writer has one
	http.ServeContent(w, r, "", info.ModTime(), file)
}

// downloadPatience is how long a download may take.
const downloadPatience = 10 * time.Minute

// contentTypes has the types of what is captured. Anything else is not served.
var contentTypes = map[string]string{
	".json": "application/json",
	".txt":  "text/plain; charset=utf-8",
	".out":  "application/octet-stream",
}

// openCapture opens a regular file of a complete capture. A link is not
// followed, and [os.Root] keeps everything inside the directory, also where it
// changes between the look and the opening.
func openCapture(directory, name string) (*os.File, fs.FileInfo, error) {
	folder, base, _ := strings.Cut(name, "/")
	if _, _, complete := parseName(folder); directory == "" || !complete || contentTypes[path.Ext(base)] == "" || strings.ContainsAny(base, `/\`) {
		return nil, nil, fs.ErrNotExist
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	if info, err := root.Lstat(folder); err != nil || !info.IsDir() {
		return nil, nil, fs.ErrNotExist
	}
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return nil, nil, fs.ErrNotExist
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, nil, fs.ErrNotExist
	}
	return file, info, nil
}
