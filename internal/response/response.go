// Package response has the writer that a handler gets in the place of the
// server's: it passes everything on, and notes when the response starts.
package response

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
)

// writer is what the middleware knows of one request: a writer that passes
// everything on to base and notes when the response starts. It is never reused,
// so that a handler's goroutine that outlives the request writes into nothing
// that matters. What changes is atomic, since some writers may be used by several
// goroutines at once, such as that of http.TimeoutHandler.
type writer struct {
	base http.ResponseWriter
	ctx  context.Context // as the middleware received it

	// Each request allocates one of these, so that they are packed: 48 bytes in all.
	owed  atomic.Int64  // the Content-Length in the head, if it declares one, and hasLength; less the bytes written
	head  atomic.Int32  // 0 until the response starts, then its final status; negative if ctx had ended before
	flags atomic.Uint32 // those below
}

const (
	headerUsed uint32 = 1 << iota // the handler has asked for the header
	hijacked
	streams // counted in streaming
	settled // never to be counted there from now on

	// hasLength in owed tells a response that declares a length: it is more than
	// anybody declares or writes.
	hasLength = 1 << 62
)

// streaming counts the requests in flight that stream, and streamed those that have
// ended. They belong to the process because a pointer to a counter would not fit into
// 48 bytes, and the next size that Go allocates is 64.
var streaming, streamed atomic.Int64

// Streaming returns how many requests in flight stream: their handler has
// flushed, or taken the connection over. It is never negative.
func Streaming() int64 {
	return max(0, streaming.Load()) // a stream may end before the addition of its beginning
}

// Streamed returns how many requests have ended that [Streaming] had counted.
func Streamed() int64 { return streamed.Load() }

// Wrap returns a writer for the handler, with the same optional interfaces as
// base, and what it will know of the response. A writer with the methods of one
// of net/http's own, whatever its type, or with none costs one small allocation;
// one of the other combinations, two more.
func Wrap(base http.ResponseWriter, r *http.Request) (http.ResponseWriter, Observed) {
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
	has := optionalOf(base)
	if has == 0 {
		w := new(plainResponse)
		return w, w.noted.init(base, r)
	}
	w := new(writer)
	return combine(&link{base, w}, has), w.init(base, r)
}

func (w *writer) init(base http.ResponseWriter, r *http.Request) Observed {
	w.base, w.ctx = base, r.Context()
	return Observed{w}
}

// start notes that the head of the response goes out with a final status. The
// first one counts, and none once the connection is hijacked.
func (w *writer) start(status int) {
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

// started does what start does, for a head of which it is known whether the
// context had ended before. The two lines that they share cost start, which every
// request pays, a call.
func (w *writer) started(status int, late bool) {
	if late {
		status = -status
	}
	if w.head.CompareAndSwap(0, int32(status)) && w.has(headerUsed) {
		w.declare()
	}
}

// declare notes the Content-Length that the header has, if it is valid. It looks when
// the response starts, which is a fifth of what a request pays here. To look at the
// end, and only for a client that has left, would save that, and could end the process:
// a goroutine that the handler left behind may write to the header's map then, and Go
// does not survive a map that is read and written at once.
func (w *writer) declare() {
	values := w.base.Header()["Content-Length"]
	if len(values) == 0 {
		return
	}
	if length, err := strconv.ParseUint(values[0], 10, 61); err == nil {
		w.owed.Add(hasLength + int64(length))
	}
}

func (w *writer) has(flag uint32) bool { return w.flags.Load()&flag != 0 }

// stream notes that the request streams from now on, and counts it once. Not so
// when its context has ended, as a server ends it when the handler returns: a
// goroutine that the handler left behind may still flush, and nothing would take
// that off again. (What is flushed between the end of the handler and that of its
// context, or under a context that never ends, stays counted: see [Observed.End].)
func (w *writer) stream() {
	if w.has(streams|settled) || w.ctx.Err() != nil {
		return
	}
	if w.flags.Or(streams)&(streams|settled) == 0 {
		streaming.Add(1)
	}
}

// wrote notes bytes of the body.
func (w *writer) wrote(n int64) {
	if n > 0 {
		w.owed.Add(-n)
	}
}

// Observed is what the middleware asks about the response of one request. Its
// methods are not the writer's, since a handler may look for some of such a name
// in the writer that it gets.
type Observed struct{ w *writer }

// Status returns the final status, 0 if the response has not started, and
// whether the request's context had ended before that.
func (o Observed) Status() (status int, late bool) {
	head := int(o.w.head.Load())
	if head < 0 {
		return -head, true
	}
	return head, false
}

// Hijacked reports whether the handler has taken the connection over.
func (o Observed) Hijacked() bool { return o.w.has(hijacked) }

// ClientLeft reports whether the client has gone away, as far as net/http can
// tell. It must be asked before the handler's caller cancels the context itself.
//
// A server may say why it cancels a request: HTTP/3's and later ones of net/http
// give what happened to the connection as the cause, which wraps net.ErrClosed.
// Any other cause is the application's.
func (o Observed) ClientLeft() bool {
	if o.w.ctx.Err() != context.Canceled || o.Hijacked() {
		return false
	}
	cause := context.Cause(o.w.ctx)
	return cause == context.Canceled || errors.Is(cause, net.ErrClosed)
}

// Complete reports whether a response to a request of some method, which has
// started, owes the client nothing.
func (o Observed) Complete(method string) bool {
	status, _ := o.Status()
	if method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified {
		return true
	}
	if !o.w.has(headerUsed) {
		// An outer handler may have declared it. Not asked at the start, since
		// net/http copies the header of every response once it has been.
		o.w.declare()
	}
	// Without a declared length nothing is complete, and owed is not above 0.
	owed := o.w.owed.Load()
	return owed > hasLength/2 && owed <= hasLength
}

// CountNoStream leaves the request out of [Streaming], however it goes on. It is
// for before the handler has the writer.
func (o Observed) CountNoStream() { o.w.flags.Or(settled) }

// End takes the request off [Streaming], for good. It may be called again; what
// else was noted is to be asked before.
func (o Observed) End() {
	// To settle what does not stream, too, would cost every request an atomic write,
	// 10 ns of 250.
	if o.w.has(streams) && o.w.flags.Swap(settled)&(streams|settled) == streams {
		streamed.Add(1)
		streaming.Add(-1)
	}
}
