package observer

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/felixge/httpsnoop"
)

// response is what the middleware knows of one request: a writer that passes
// everything on to base and notes when the response starts. It is never reused,
// so that a handler's goroutine that outlives the request writes into nothing
// that matters. What changes is atomic, since some writers may be used by several
// goroutines at once, such as that of http.TimeoutHandler.
type response struct {
	base http.ResponseWriter
	ctx  context.Context // as the middleware received it

	// Each request allocates one of these, so that they are packed: 48 bytes in all.
	owed  atomic.Int64  // the Content-Length in the head, if it declares one, and hasLength; less the bytes written
	head  atomic.Int32  // 0 until the response starts, then its final status; negative if ctx had ended before
	flags atomic.Uint32 // the two below
}

const (
	headerUsed uint32 = 1 << iota // the handler has asked for the header
	hijacked

	// hasLength in owed tells a response that declares a length: it is more than
	// anybody declares or writes.
	hasLength = 1 << 62
)

// http1Response and http2Response have the methods of net/http's two writers.
type (
	http1Response struct{ response }
	http2Response struct{ response }
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

// wrap returns a writer for the handler, with the same optional interfaces as
// base, and what it will know of the response. A writer with the methods of one
// of net/http's own, whatever its type, costs one small allocation; httpsnoop,
// which has the other combinations, costs over twenty.
func wrap(base http.ResponseWriter, r *http.Request) (http.ResponseWriter, *response) {
	if _, ok := base.(http1Writer); ok {
		if _, more := base.(http.Pusher); !more {
			w := new(http1Response)
			return w, w.init(base, r)
		}
	} else if _, ok := base.(http2Writer); ok {
		_, hijacker := base.(http.Hijacker)
		_, readerFrom := base.(io.ReaderFrom)
		if !hijacker && !readerFrom {
			w := new(http2Response)
			return w, w.init(base, r)
		}
	}
	if isUnwrapOnly(base) {
		w := new(unwrapResponse)
		return w, w.observed.init(base, r)
	}
	w := new(http1Response)
	observed := w.init(base, r)
	return w.snoop(), observed
}

// unwrapResponse stands for a writer that has Unwrap and nothing else, the usual
// hand-made one: http.ResponseController reaches past it.
type unwrapResponse struct{ observed response }

func (w *unwrapResponse) Header() http.Header         { return w.observed.Header() }
func (w *unwrapResponse) WriteHeader(status int)      { w.observed.WriteHeader(status) }
func (w *unwrapResponse) Write(p []byte) (int, error) { return w.observed.Write(p) }

func (w *unwrapResponse) Unwrap() http.ResponseWriter {
	return w.observed.behind(w.observed.base.(interface{ Unwrap() http.ResponseWriter }).Unwrap())
}

// behind returns a writer with the methods of inner that notes what reaches it past the one
// that the middleware received.
func (w *response) behind(inner http.ResponseWriter) http.ResponseWriter {
	if inner != nil && isUnwrapOnly(inner) {
		return w.behind(inner.(interface{ Unwrap() http.ResponseWriter }).Unwrap())
	}
	return httpsnoop.Wrap(inner, httpsnoop.Hooks{
		Flush: func(flush httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() { w.start(http.StatusOK); flush() }
		},
		FlushError: func(flush httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
			return func() error { w.start(http.StatusOK); return flush() }
		},
		Hijack: func(hijack httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, buffered, err := hijack()
				if err == nil {
					w.flags.Or(hijacked)
				}
				return conn, buffered, err
			}
		},
	})
}

// isUnwrapOnly reports whether a writer has no optional methods of its own.
func isUnwrapOnly(w http.ResponseWriter) bool {
	if _, ok := w.(interface{ Unwrap() http.ResponseWriter }); !ok {
		return false
	}
	switch w.(type) {
	case http.Flusher, flushErrorer, http.Hijacker, http.Pusher, io.ReaderFrom, io.StringWriter, closeNotifier, deadliner, fullDuplexer:
		return false
	}
	return true
}

func (w *response) init(base http.ResponseWriter, r *http.Request) *response {
	w.base, w.ctx = base, r.Context()
	return w
}

// snoop returns a writer with those of the methods that the base has too.
func (w *http1Response) snoop() http.ResponseWriter {
	return httpsnoop.Wrap(w.base, httpsnoop.Hooks{
		Header:      func(httpsnoop.HeaderFunc) httpsnoop.HeaderFunc { return w.Header },
		WriteHeader: func(httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc { return w.WriteHeader },
		Write:       func(httpsnoop.WriteFunc) httpsnoop.WriteFunc { return w.Write },
		WriteString: func(httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc { return w.WriteString },
		ReadFrom:    func(httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc { return w.ReadFrom },
		Flush:       func(httpsnoop.FlushFunc) httpsnoop.FlushFunc { return w.Flush },
		FlushError:  func(httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc { return w.FlushError },
		Hijack:      func(httpsnoop.HijackFunc) httpsnoop.HijackFunc { return w.Hijack },
	})
}

func (w *response) Header() http.Header {
	if !w.has(headerUsed) {
		w.flags.Or(headerUsed)
	}
	return w.base.Header()
}

func (w *response) WriteHeader(status int) {
	w.base.WriteHeader(status) // first: it panics on an impossible status, and then nothing starts
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.start(status)
	}
}

func (w *response) Write(p []byte) (int, error) {
	w.start(http.StatusOK)
	n, err := w.base.Write(p)
	w.wrote(int64(n))
	return n, err
}

func (w *response) WriteString(s string) (int, error) {
	w.start(http.StatusOK)
	n, err := io.WriteString(w.base, s)
	w.wrote(int64(n))
	return n, err
}

func (w *response) Flush() {
	w.start(http.StatusOK)
	w.base.(http.Flusher).Flush()
}

func (w *response) FlushError() error {
	w.start(http.StatusOK)
	return w.base.(flushErrorer).FlushError()
}

func (w *response) CloseNotify() <-chan bool {
	return w.base.(closeNotifier).CloseNotify()
}

func (w *response) SetReadDeadline(t time.Time) error {
	return w.base.(deadliner).SetReadDeadline(t)
}

func (w *response) SetWriteDeadline(t time.Time) error {
	return w.base.(deadliner).SetWriteDeadline(t)
}

func (w *response) EnableFullDuplex() error {
	return w.base.(fullDuplexer).EnableFullDuplex()
}

// Unwrap is for http.ResponseController, should it learn of further methods.
func (w *response) Unwrap() http.ResponseWriter {
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
		reader := &firstReader{source: source, left: firstBytes, w: &w.response}
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
	w      *response
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

// start notes that the head of the response goes out with a final status. The
// first one counts, and none once the connection is hijacked.
func (w *response) start(status int) {
	if w.head.Load() != 0 || w.has(hijacked) {
		return
	}
	if w.ctx.Err() != nil {
		status = -status
	}
	if w.head.CompareAndSwap(0, int32(status)) && w.has(headerUsed) {
		w.declare()
	}
}

// declare notes the Content-Length that the header has, if it is valid.
func (w *response) declare() {
	values := w.base.Header()["Content-Length"]
	if len(values) == 0 {
		return
	}
	if length, err := strconv.ParseUint(values[0], 10, 61); err == nil {
		w.owed.Add(hasLength + int64(length))
	}
}

func (w *response) has(flag uint32) bool { return w.flags.Load()&flag != 0 }

// wrote notes bytes of the body.
func (w *response) wrote(n int64) {
	if n > 0 {
		w.owed.Add(-n)
	}
}

// status returns the final status, 0 if the response has not started, and
// whether the request's context had ended before that.
func (w *response) status() (status int, late bool) {
	head := int(w.head.Load())
	if head < 0 {
		return -head, true
	}
	return head, false
}

// clientLeft reports whether the client has gone away, as far as net/http can
// tell. It must be asked before the handler's caller cancels the context itself.
func (w *response) clientLeft() bool {
	return w.ctx.Err() == context.Canceled &&
		context.Cause(w.ctx) == context.Canceled &&
		!w.has(hijacked)
}

// complete reports whether a response to a request of some method, which has
// started, owes the client nothing.
func (w *response) complete(method string) bool {
	status, _ := w.status()
	if method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified {
		return true
	}
	if !w.has(headerUsed) {
		// An outer handler may have declared it. Not asked at the start, since
		// net/http copies the header of every response once it has been.
		w.declare()
	}
	// Without a declared length nothing is complete, and owed is not above 0.
	owed := w.owed.Load()
	return owed > hasLength/2 && owed <= hasLength
}
