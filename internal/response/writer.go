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

// plainResponse stands for a writer without optional methods: at most it has
// Unwrap, as the usual hand-made one does.
type plainResponse struct{ noted writer }

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
		readDeadliner
		writeDeadliner
	}
	readDeadliner  interface{ SetReadDeadline(time.Time) error }
	writeDeadliner interface{ SetWriteDeadline(time.Time) error }
	unwrapper      interface{ Unwrap() http.ResponseWriter }
)

func (w *writer) Header() http.Header    { return w.header(w.base) }
func (w *writer) WriteHeader(status int) { w.writeHeader(w.base, status) }
func (w *writer) Write(p []byte) (int, error) {
	w.start(http.StatusOK)
	n, err := w.base.Write(p)
	w.wrote(int64(n))
	return n, err
}
func (w *writer) WriteString(s string) (int, error)  { return w.writeString(w.base, s) }
func (w *writer) Flush()                             { w.flush(w.base) }
func (w *writer) FlushError() error                  { return w.flushError(w.base) }
func (w *writer) CloseNotify() <-chan bool           { return w.base.(closeNotifier).CloseNotify() }
func (w *writer) SetReadDeadline(t time.Time) error  { return w.base.(deadliner).SetReadDeadline(t) }
func (w *writer) SetWriteDeadline(t time.Time) error { return w.base.(deadliner).SetWriteDeadline(t) }
func (w *writer) EnableFullDuplex() error            { return w.base.(fullDuplexer).EnableFullDuplex() }
func (w *writer) Unwrap() http.ResponseWriter        { return w.after(w.base) }
func (w *plainResponse) Header() http.Header         { return w.noted.Header() }
func (w *plainResponse) WriteHeader(status int)      { w.noted.WriteHeader(status) }
func (w *plainResponse) Write(p []byte) (int, error) { return w.noted.Write(p) }
func (w *plainResponse) Unwrap() http.ResponseWriter { return w.noted.Unwrap() }
func (w *http1Response) ReadFrom(source io.Reader) (int64, error) {
	return w.readFrom(w.base.(io.ReaderFrom), source)
}
func (w *http1Response) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.hijack(w.base) }

func (w *http2Response) Push(target string, options *http.PushOptions) error {
	return w.base.(http.Pusher).Push(target, options)
}

// What follows notes what happens to any writer of the chain behind Unwrap, of
// which base is the first.

func (w *writer) header(to http.ResponseWriter) http.Header {
	if !w.has(headerUsed) && w.flags.Or(headerUsed)&headerUsed == 0 && w.head.Load() != 0 {
		w.declare() // an outer handler has: nobody has changed it since the head went out
	}
	return to.Header()
}

func (w *writer) writeHeader(to http.ResponseWriter, status int) {
	to.WriteHeader(status) // first: it panics on an impossible status, and then nothing starts
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.start(status)
	}
}

func (w *writer) write(to io.Writer, p []byte) (int, error) {
	w.start(http.StatusOK)
	n, err := to.Write(p)
	w.wrote(int64(n))
	return n, err
}

func (w *writer) writeString(to io.Writer, s string) (int, error) {
	w.start(http.StatusOK)
	n, err := io.WriteString(to, s)
	w.wrote(int64(n))
	return n, err
}

func (w *writer) flush(to http.ResponseWriter) {
	w.start(http.StatusOK)
	w.stream()
	to.(http.Flusher).Flush()
}

func (w *writer) flushError(to http.ResponseWriter) error {
	w.start(http.StatusOK)
	w.stream()
	return to.(flushErrorer).FlushError()
}

func (w *writer) hijack(to http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := to.(http.Hijacker).Hijack()
	if err == nil {
		w.flags.Or(hijacked)
		w.stream()
	}
	return conn, buffered, err
}
