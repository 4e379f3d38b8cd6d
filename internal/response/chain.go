package response

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// link stands for one writer of the chain that begins with the one that the
// middleware received and goes on behind Unwrap. It has the methods of all, and
// combine leaves those that base has.
//
// http.ResponseController, and whoever walks along Unwrap as it does, finds each
// method where it is found without the middleware: in the first writer that has
// it. So the handler's writer is followed by a link for each of the others, and
// only then by the first writer itself and what is behind that, for code that
// looks for a type of the application's. The tempting way is to let the handler's
// writer unwrap to base: then what base lacks is found behind it, and a hijack or
// a flush goes past without being noted.
//
// What still goes past is a walk to the very last writer, however many before it
// have the method.
type link struct {
	base http.ResponseWriter
	of   *writer
}

func (l *link) Header() http.Header               { return l.of.header(l.base) }
func (l *link) WriteHeader(status int)            { l.of.writeHeader(l.base, status) }
func (l *link) Write(p []byte) (int, error)       { return l.of.write(l.base, p) }
func (l *link) WriteString(s string) (int, error) { return l.of.writeString(l.base, s) }
func (l *link) Flush()                            { l.of.flush(l.base) }
func (l *link) FlushError() error                 { return l.of.flushError(l.base) }
func (l *link) CloseNotify() <-chan bool          { return l.base.(closeNotifier).CloseNotify() }
func (l *link) SetReadDeadline(t time.Time) error { return l.base.(readDeadliner).SetReadDeadline(t) }
func (l *link) EnableFullDuplex() error           { return l.base.(fullDuplexer).EnableFullDuplex() }
func (l *link) Unwrap() http.ResponseWriter       { return l.of.after(l.base) }

func (l *link) SetWriteDeadline(t time.Time) error {
	return l.base.(writeDeadliner).SetWriteDeadline(t)
}

func (l *link) Hijack() (net.Conn, *bufio.ReadWriter, error) { return l.of.hijack(l.base) }

func (l *link) ReadFrom(source io.Reader) (int64, error) {
	return l.of.readFrom(l.base.(io.ReaderFrom), source)
}

func (l *link) Push(target string, options *http.PushOptions) error {
	return l.base.(http.Pusher).Push(target, options)
}

//go:generate go run generate.go

// optional is a set of the optional methods, a bit each, in the order that
// generate.go has them in.
type optional uint16

const (
	hasFlush optional = 1 << iota
	hasFlushError
	hasCloseNotify
	hasHijack
	hasReadFrom
	hasDeadlines
	hasFullDuplex
	hasPush
	hasWriteString
	combinations
)

func optionalOf(w http.ResponseWriter) (has optional) {
	if _, ok := w.(http.Flusher); ok {
		has |= hasFlush
	}
	if _, ok := w.(flushErrorer); ok {
		has |= hasFlushError
	}
	if _, ok := w.(closeNotifier); ok {
		has |= hasCloseNotify
	}
	if _, ok := w.(http.Hijacker); ok {
		has |= hasHijack
	}
	if _, ok := w.(io.ReaderFrom); ok {
		has |= hasReadFrom
	}
	if _, ok := w.(deadliner); ok {
		has |= hasDeadlines
	}
	if _, ok := w.(fullDuplexer); ok {
		has |= hasFullDuplex
	}
	if _, ok := w.(http.Pusher); ok {
		has |= hasPush
	}
	if _, ok := w.(io.StringWriter); ok {
		has |= hasWriteString
	}
	return has
}

// after returns what stands behind a writer of the chain: one for a single
// deadline that combine does not know, a link for the next writer, or after the
// last of them the first writer itself.
func (w *writer) after(to http.ResponseWriter) http.ResponseWriter {
	_, read := to.(readDeadliner)
	_, write := to.(writeDeadliner)
	switch {
	case read && !write:
		return &readDeadline{rest{link{to, w}}}
	case write && !read:
		return &writeDeadline{rest{link{to, w}}}
	}
	return w.behind(to)
}

func (w *writer) behind(to http.ResponseWriter) http.ResponseWriter {
	if next, ok := to.(unwrapper); ok {
		if inner := next.Unwrap(); inner != nil {
			return combine(&link{inner, w}, optionalOf(inner))
		}
	}
	return w.base
}

// readDeadline and writeDeadline have the one deadline that a writer has.
type (
	readDeadline  struct{ rest }
	writeDeadline struct{ rest }
	rest          struct{ link link }
)

func (r *rest) Header() http.Header                         { return r.link.Header() }
func (r *rest) WriteHeader(status int)                      { r.link.WriteHeader(status) }
func (r *rest) Write(p []byte) (int, error)                 { return r.link.Write(p) }
func (r *rest) Unwrap() http.ResponseWriter                 { return r.link.of.behind(r.link.base) }
func (r *readDeadline) SetReadDeadline(t time.Time) error   { return r.link.SetReadDeadline(t) }
func (r *writeDeadline) SetWriteDeadline(t time.Time) error { return r.link.SetWriteDeadline(t) }
