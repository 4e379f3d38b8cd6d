package response

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// http1Response and http2Response have the methods of net/http's two writers.
type (
	http1Response struct{ writer }
	http2Response struct{ writer }
)

type (
	http1Writer interface {
		netHTTPWriter
		http.Hijacker
		io.ReaderFrom
	}
	http2Writer interface {
		netHTTPWriter
		http.Pusher
	}
	netHTTPWriter interface { // what both have
		http.ResponseWriter
		http.Flusher
		io.StringWriter
		flushErrorer
		closeNotifier
		deadliner
		fullDuplexer
	}

	// Those that net/http does not export, or deprecates.
	flushErrorer  interface{ FlushError() error }
	closeNotifier interface{ CloseNotify() <-chan bool }
	fullDuplexer  interface{ EnableFullDuplex() error }
	deadliner     interface {
		SetReadDeadline(time.Time) error
		SetWriteDeadline(time.Time) error
	}
)

func (w *writer) Header() http.Header {
	if !w.has(headerUsed) {
		w.flags.Or(headerUsed)
	}
	return w.base.Header()
}

func (w *writer) WriteHeader(status int) {
	w.base.WriteHeader(status) // first: it panics on an impossible status, and then nothing starts
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.start(status)
	}
}

func (w *writer) Write(p []byte) (int, error) {
	w.start(http.StatusOK)
	n, err := w.base.Write(p)
	w.wrote(int64(n))
	return n, err
}

func (w *writer) WriteString(s string) (int, error) {
	w.start(http.StatusOK)
	n, err := io.WriteString(w.base, s)
	w.wrote(int64(n))
	return n, err
}

func (w *writer) Flush() {
	w.start(http.StatusOK)
	w.base.(http.Flusher).Flush()
}

func (w *writer) FlushError() error {
	w.start(http.StatusOK)
	return w.base.(flushErrorer).FlushError()
}

func (w *writer) CloseNotify() <-chan bool {
	return w.base.(closeNotifier).CloseNotify()
}

func (w *writer) SetReadDeadline(t time.Time) error {
	return w.base.(deadliner).SetReadDeadline(t)
}

func (w *writer) SetWriteDeadline(t time.Time) error {
	return w.base.(deadliner).SetWriteDeadline(t)
}

func (w *writer) EnableFullDuplex() error {
	return w.base.(fullDuplexer).EnableFullDuplex()
}

// Unwrap is for http.ResponseController, should it learn of further methods.
func (w *writer) Unwrap() http.ResponseWriter {
	return w.base
}

func (w *http1Response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := w.base.(http.Hijacker).Hijack()
	if err == nil {
		w.flags.Or(hijacked)
	}
	return conn, buffered, err
}

// ReadFrom passes the source itself on, because sendfile and splice depend on
// its type. Only the first bytes of a response come through a reader that tells
// when there are any: an empty source starts no response, and a slow one may
// deliver when the client has left.
func (w *http1Response) ReadFrom(source io.Reader) (int64, error) {
	base := w.base.(io.ReaderFrom)
	var first int64
	if w.head.Load() == 0 {
		reader := &firstReader{source: source, left: firstBytes, w: &w.writer}
		n, err := base.ReadFrom(reader)
		w.wrote(n)
		if err != nil || reader.left > 0 {
			return n, err
		}
		first = n
	}
	n, err := base.ReadFrom(source)
	w.wrote(n)
	return first + n, err
}

// firstBytes is less than the 512 that net/http copies by hand to sniff them,
// so that they stay in its buffer and the source keeps its chance of sendfile.
const firstBytes = 511

// firstReader reads the first bytes of a source and starts the response with
// the first of them.
type firstReader struct {
	source io.Reader
	left   int
	w      *writer
}

func (r *firstReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.source.Read(p[:min(len(p), r.left)])
	r.left -= n
	if n > 0 {
		r.w.start(http.StatusOK)
	}
	return n, err
}

func (w *http2Response) Push(target string, options *http.PushOptions) error {
	return w.base.(http.Pusher).Push(target, options)
}
