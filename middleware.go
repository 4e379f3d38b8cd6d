package observer

import (
	"net/http"

	"github.com/gym-observer/observer/internal/inflight"
	"github.com/gym-observer/observer/internal/response"
	"github.com/gym-observer/observer/internal/route"
)

// MiddlewareOption changes what [Middleware] does; a nil one changes nothing.
type MiddlewareOption func(*middleware)

// WithRoute sets how the route of a request is found, for a router that does
// not set [http.Request.Pattern]. The function gets the request that the
// middleware received, after it was served, and only when its client went away.
// A diagnosis that lists a request calls it, too, from another goroutine while
// the handler runs: with a made-up request that has the method, host and path,
// and neither headers nor values in its context. It returns a registered template such as
// "/rollouts/{id}", never text of the request; a method and a host before the
// path are cut off. Where it returns nothing or panics, the route is
// [UnmatchedRoute].
//
// A ServeMux behind a handler that copies the request, such as
// [http.MaxBytesHandler], can be asked again:
//
//	observer.WithRoute(func(r *http.Request) string {
//		_, pattern := mux.Handler(r)
//		return pattern
//	})
func WithRoute(route func(*http.Request) string) MiddlewareOption {
	return func(m *middleware) {
		if route != nil {
			m.route = route
		}
	}
}

// Middleware counts the requests that next serves: those in flight, responses
// by status, panics that no handler recovered, and clients that went away. A
// nil next means [http.DefaultServeMux]. It may be called before [Start], and
// while nothing observes it passes requests on at the cost of one atomic load.
// It belongs around the whole server and only once: two count twice.
//
// The handler gets the request itself and a writer with the same optional
// interfaces (http.Flusher and the like) as without the middleware. A panic
// goes on with the same value.
//
// A client has gone away when the context that the middleware received is
// cancelled, without a deadline or a cause of the application's own, before the
// response is complete. A cause that wraps net.ErrClosed is the connection's. It is complete when its declared Content-Length has been
// written, or when it has no body. What looks the same to net/http counts the
// same: [http.Server.Close], a cancel function of an outer handler, a client
// that closes only its sending side, and a connection whose read or write
// deadline has passed. Conversely net/http does not notice that a client
// leaves which has sent more on the connection, an HTTP/1 request in a pipeline
// or a single byte.
//
// The route of such a request is the path of the pattern that its
// [http.ServeMux] matched, if that received the very same request; else see
// [WithRoute].
//
// Where an h2c handler (golang.org/x/net/http2/h2c) serves HTTP/2 without TLS, the
// middleware belongs inside of it: h2c.NewHandler(observer.Middleware(next), …).
// That handler takes the connection over; around it the middleware sees one hijacked
// request for as long as the connection lives, and none of those that come over it.
// A server with [http.Server.Protocols] needs no such handler.
//
// Code that walks along Unwrap finds the writers of outer handlers as without the
// middleware. What it does with the very last one, past others that have the method,
// goes unnoticed: a connection that is hijacked so counts as a response.
//
// A handler that is called by hand with a nil request or writer is not counted.
//
// As behind every wrapped writer, [http.MaxBytesReader] cannot ask net/http to
// close the connection, and net/http blames this package when it logs that a
// handler called WriteHeader twice.
func Middleware(next http.Handler, opts ...MiddlewareOption) http.Handler {
	m := &middleware{next: next}
	for _, opt := range opts {
		if opt != nil {
			opt(m)
		}
	}
	return m
}

// WithExpectedWait tells which requests wait for events by design: a long poll, a
// subscription, a WebSocket. They count as any other, but a diagnosis does not take
// their waiting for a load, and its sentence does not name them as the oldest work
// where it finds no cause. The function gets the request that the middleware
// received, once, before the handler does, and only while something observes. It
// belongs to the request: the handler waits until it returns. Where it panics or
// calls runtime.Goexit, the request is none of them. A nil function changes nothing.
func WithExpectedWait(expected func(*http.Request) bool) MiddlewareOption {
	return func(m *middleware) {
		if expected != nil {
			m.expected = expected
		}
	}
}

type middleware struct {
	next     http.Handler
	route    func(*http.Request) string // of WithRoute; nil without it
	expected func(*http.Request) bool   // of WithExpectedWait; nil without it
}

func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	next := m.next
	if next == nil {
		next = http.DefaultServeMux
	}
	counts := Requests()
	if counts == nil || r == nil || w == nil { // a handler that is called by hand may make do with nil
		next.ServeHTTP(w, r)
		return
	}
	if !m.serve(next, w, r, counts) {
		// The handler neither returned nor panicked with a value, and this goroutine
		// is still here, so that it was no Goexit: it panicked with nil, which under
		// GODEBUG=panicnil=1 a recover takes for no panic, and ends.
		counts.CountUnhandledException()
		panic(nil)
	}
}

// serve serves one request that is counted, and reports whether the handler
// returned.
func (m *middleware) serve(next http.Handler, w http.ResponseWriter, r *http.Request, counts *RequestMetrics) (returned bool) {
	writer, observed := response.Wrap(w, r)
	number := counts.served.Begin()
	listed := counts.listed.New()
	m.describe(r, &listed.Request)
	counts.listed.List(listed, number)
	if listed.Expected {
		counts.expectedServed.Begin()
		observed.CountNoStream() // it is left out of what waits once, not twice
	}
	ended := false
	defer func() {
		if !ended { // the application's context or writer panicked in the step below
			observed.End()
			counts.endServed(listed, 0, false)
		}
	}()
	defer func() {
		left := observed.ClientLeft()
		var panicked any
		if !returned {
			panicked = recover() // nil in runtime.Goexit, which nothing stops
		}
		if panicked != nil && panicked != http.ErrAbortHandler {
			counts.CountUnhandledException()
		}
		status, late := observed.Status()
		if status == 0 && returned && !observed.Hijacked() {
			status, late = http.StatusOK, true // net/http is about to write it
		}
		started := status != 0 && !(left && late) // nobody receives a head that was written afterwards
		cancelled := left && !(started && observed.Complete(listed.Method))
		ended = true
		observed.End()
		if cancelled {
			counts.endCancelled(m, listed, r, status, started)
		} else {
			counts.endServed(listed, status, started)
		}
		if panicked != nil {
			// Only a recover tells what was thrown. Within the deferred function
			// that recovered, the handler's frames are still on the stack for
			// net/http to log; a panic from the function below would lose them.
			panic(panicked)
		}
	}()
	if listed.Expected {
		m.serveExpected(next, writer, r)
	} else {
		next.ServeHTTP(writer, r)
	}
	return true
}

// serveExpected is in the stack of a request that waits by design: snapshots of the
// goroutines leave it out by that.
//
//go:noinline
func (m *middleware) serveExpected(next http.Handler, w http.ResponseWriter, r *http.Request) {
	next.ServeHTTP(w, r)
}

// describe notes what will be asked of r. A handler may change what it was given,
// also while somebody asks for the route of a request in flight: hence the copies.
func (m *middleware) describe(r *http.Request, as *inflight.Request) {
	as.Router, as.Method, as.Host = m, r.Method, r.Host
	if r.URL != nil {
		as.Path, as.RawPath = r.URL.Path, r.URL.RawPath
	}
	as.Expected = m.expected != nil && answered(m.expected, r)
}

// endServed ends a request, with a response of a status or without one.
func (m *RequestMetrics) endServed(listed *inflight.Work, status int, responded bool) {
	m.endListed(listed)
	if !responded || !m.responses.CountEnding(status) {
		m.served.End()
	}
}

func (m *RequestMetrics) endListed(listed *inflight.Work) {
	if listed.Expected {
		m.expectedServed.End()
	}
	m.listed.End(listed)
}

// endCancelled ends a request whose client left before its response was complete.
// The application's function for the route comes when all else is counted: it may
// hang, and call Goexit.
func (m *RequestMetrics) endCancelled(by *middleware, listed *inflight.Work, r *http.Request, status int, responded bool) {
	asked := listed.Request
	m.endListed(listed)
	defer m.served.End() // the last of all: it is in flight until then
	if responded {
		m.CountResponse(status)
	}
	name := UnmatchedRoute
	defer func() { m.CountCancellation(name, responded) }() // also past a Goexit
	name = route.Of(&asked, func() string {
		if by.route != nil {
			return by.route(r)
		}
		return r.Pattern
	})
}

// NameOf returns the route of a request in flight, or nothing.
func (m *middleware) NameOf(asked *inflight.Request) string {
	return route.NameOf(asked, m.next, m.route)
}
