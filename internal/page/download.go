package page

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/gym-observer/observer/internal/evidence"
)

const (
	// openPatience is how long whoever wants a file waits for the disk.
	openPatience = 500 * time.Millisecond

	// readPatience is the same in the middle of a file, where there is nothing left
	// to say but to hang up.
	readPatience = 10 * time.Second
)

// contentTypes has the types of what is captured. Anything else is not served.
var contentTypes = map[string]string{
	".json":  "application/json",
	".txt":   "text/plain; charset=utf-8",
	".out":   "application/octet-stream",
	".pprof": "application/octet-stream",
}

// captured is a file of a capture, or why there is none.
type captured struct {
	file interface {
		io.ReaderAt
		io.Closer
	}
	info fs.FileInfo
	err  error
}

// serveCapture serves one file of a capture, by the name of its folder and its own.
func (h *Handler) serveCapture(a *response, w http.ResponseWriter, r *http.Request, name string) {
	directory := h.snapshot().Captures
	closeLate := func(c captured) {
		if c.err == nil {
			c.file.Close()
		}
	}
	found, answered := ask(a.ctx, &h.disk, openPatience, func() captured { return h.open(directory, name) }, closeLate)
	if !answered {
		http.Error(w, "the directory of the captures does not answer", http.StatusServiceUnavailable)
		return
	}
	if found.err != nil {
		http.Error(w, "there is no such capture", http.StatusNotFound)
		return
	}
	defer found.file.Close()
	header := w.Header()
	header.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", strings.ReplaceAll(name, "/", "-")))
	header.Set("Content-Type", contentTypes[path.Ext(name)])
	content := io.NewSectionReader(&patientReader{answer: a, disk: &h.disk, file: found.file}, 0, found.info.Size())
	http.ServeContent(pacedWriter{w, a}, r, "", found.info.ModTime(), content)
}

// pacedWriter writes in pieces. It has no ReadFrom, which would do without.
type pacedWriter struct {
	http.ResponseWriter
	answer *response
}

func (p pacedWriter) Write(text []byte) (int, error) { return p.answer.Write(text) }

// patientReader reads a file of a disk that may hang, as long as its viewer is
// there. One goroutine uses it.
type patientReader struct {
	answer *response
	disk   *disk
	file   io.ReaderAt
	buffer []byte // the disk writes into it, also when nobody waits any more; nil then
}

func (r *patientReader) ReadAt(text []byte, offset int64) (int, error) {
	if len(r.buffer) < len(text) {
		r.buffer = make([]byte, len(text))
	}
	type outcome struct {
		n   int
		err error
	}
	buffer := r.buffer[:len(text)]
	read, answered := ask(r.answer.ctx, r.disk, readPatience, func() outcome {
		n, err := r.file.ReadAt(buffer, offset)
		return outcome{n, err}
	}, func(outcome) {})
	if !answered {
		r.buffer = nil
		return 0, errors.New("the disk does not answer, or the viewer is gone")
	}
	return copy(text, buffer[:read.n]), read.err
}

// openCapture opens a regular file of a complete capture. A link is not
// followed, and [os.Root] keeps everything inside the directory, also where it
// changes between the look and the opening.
func openCapture(directory, name string) captured {
	none := captured{err: fs.ErrNotExist}
	folder, base, _ := strings.Cut(name, "/")
	if _, complete := evidence.ParseName(folder); directory == "" || !complete || contentTypes[path.Ext(base)] == "" || strings.ContainsAny(base, `/\`) {
		return none
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return captured{err: err}
	}
	defer root.Close()
	if info, err := root.Lstat(folder); err != nil || !info.IsDir() {
		return none
	}
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return none
	}
	file, err := root.Open(name)
	if err != nil {
		return captured{err: err}
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		file.Close()
		return none
	}
	// A server that hangs may have told its names before: the first byte is asked for
	// as long as there is an answer to be given.
	if _, err := file.ReadAt(make([]byte, 1), 0); err != nil && !errors.Is(err, io.EOF) {
		file.Close()
		return captured{err: err}
	}
	return captured{file: file, info: info}
}
