package observer

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/gym-observer/observer/internal/response"
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
// response is complete. It is complete when its declared Content-Length has been
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

type middleware struct {
	next  http.Handler
	route func(*http.Request) string // of WithRoute; nil without it
}

func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	next := m.next
	if next == nil {
		next = http.DefaultServeMux
	}
	counts := Requests()
	if counts == nil {
		next.ServeHTTP(w, r)
		return
	}

	writer, observed := response.Wrap(w, r)
	listed := inFlightWork.begin(coarseNow(), counts.served.begin(), m, r)
	returned, ended := false, false
	defer func() {
		if !ended { // the application's context or writer panicked in the step below
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
		cancelled := left && !(started && observed.Complete(listed.method))
		ended = true
		if cancelled {
			counts.endCancelled(listed, r, status, started)
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
	next.ServeHTTP(writer, r)
	returned = true
}

// request is one that is served, as the middleware received it. A handler may
// change what it was given, also while somebody asks for the route of a request
// in flight: hence the copies.
type request struct {
	router                      *middleware
	method, host, path, rawPath string
}

// received notes what will be asked of r.
func (q *request) received(router *middleware, r *http.Request) {
	q.router, q.method, q.host = router, r.Method, r.Host
	if r.URL != nil {
		q.path, q.rawPath = r.URL.Path, r.URL.RawPath
	}
}

// endServed ends a request, with a response of a status or without one.
func (m *RequestMetrics) endServed(listed *work, status int, responded bool) {
	inFlightWork.end(listed)
	if !responded || !m.countStatus(&m.answered, status) {
		m.served.end()
	}
}

// endCancelled ends a request whose client left before its response was complete.
// The application's function for the route comes when all else is counted: it may
// hang, and call Goexit.
func (m *RequestMetrics) endCancelled(listed *work, r *http.Request, status int, responded bool) {
	asked := listed.request
	inFlightWork.end(listed)
	defer m.served.end() // the last of all: it is in flight until then
	if responded {
		m.CountResponse(status)
	}
	m.CountCancellation(asked.route(func() string {
		if asked.router.route != nil {
			return asked.router.route(r)
		}
		return r.Pattern
	}), responded)
}

// name returns the route of a request in flight, or nothing. The pattern in the
// request is the handler's to write while it runs, so the router is asked with a
// made-up request.
func (q *request) name() string {
	route := q.route(func() string {
		r := &http.Request{Method: q.method, Host: q.host, URL: &url.URL{Path: q.path, RawPath: q.rawPath}, Header: make(http.Header)}
		if q.router.route != nil {
			return q.router.route(r)
		}
		next := q.router.next
		if next == nil {
			next = http.DefaultServeMux
		}
		if mux, ok := next.(*http.ServeMux); ok {
			_, pattern := mux.Handler(r)
			return pattern
		}
		return ""
	})
	if route == UnmatchedRoute {
		return ""
	}
	return route
}

// redirectOf is where a ServeMux redirects a CONNECT to.
func redirectOf(name string) string {
	clean := path.Clean("/" + name)
	if strings.HasSuffix(name, "/") && clean != "/" {
		clean += "/"
	}
	return clean + "/"
}

// route returns the path of the pattern that find gives, if it is one.
func (q *request) route(find func() string) (route string) {
	defer func() {
		if recover() != nil {
			route = UnmatchedRoute
		}
	}()
	pattern := find()
	if q.method == http.MethodConnect && pattern == redirectOf(q.path) {
		// To a CONNECT without the slash at its end a ServeMux answers with a
		// redirect, and calls the path that it redirects to the pattern.
		return UnmatchedRoute
	}
	return routeOf(pattern)
}
