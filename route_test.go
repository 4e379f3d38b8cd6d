package observer_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

func TestH15RouteIsThePathTemplate(t *testing.T) {
	o, entered, mux := observe(t), make(untilLeft), http.NewServeMux()
	for _, pattern := range []string{"GET /a/{id}", "example.com/h/", "/b/{rest...}", "POST /p/{$}"} {
		mux.Handle(pattern, entered)
	}
	s := serve(t, http1Protocol, observer.Middleware(mux))
	for _, request := range []struct{ method, host, path string }{
		{"GET", "", "/a/17"},
		{"GET", "example.com", "/h/17"},
		{"GET", "", "/b/1/7"},
		{"POST", "", "/p/"},
		{"HEAD", "", "/a/17"},
	} {
		r := s.request(t, request.method, request.path)
		r.Host = request.host
		leave := s.begin(t, r)
		receive(t, entered)
		leave()
		receive(t, s.ended)
	}
	assert.Equal(t, counts{Cancellations: cancellations{
		{Route: "/a/{id}"}: 2, {Route: "/h/"}: 1, {Route: "/b/{rest...}"}: 1, {Route: "/p/{$}"}: 1,
	}}, o.counted())
}

func TestH16PatternHiddenByAnInnerCopy(t *testing.T) {
	copies := map[string]func(http.Handler) http.Handler{
		"MaxBytesHandler": func(h http.Handler) http.Handler { return http.MaxBytesHandler(h, 1<<20) },
		"TimeoutHandler":  func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Minute, "") },
		"WithContext": func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r.WithContext(r.Context()))
			})
		},
	}
	for name, copied := range copies {
		t.Run(name, func(t *testing.T) {
			entered, mux := make(untilLeft), http.NewServeMux()
			mux.Handle("GET /a/{id}", entered)
			askAgain := observer.WithRoute(func(r *http.Request) string {
				_, pattern := mux.Handler(r)
				return pattern
			})
			for route, middleware := range map[string]http.Handler{
				observer.UnmatchedRoute: observer.Middleware(copied(mux)),
				"/a/{id}":               observer.Middleware(copied(mux), askAgain),
			} {
				o, s := observe(t), serve(t, http1Protocol, middleware)
				leave := s.begin(t, s.request(t, http.MethodGet, "/a/17"))
				receive(t, entered)
				leave()
				receive(t, s.ended)
				assert.Equal(t, counts{Cancellations: leftBefore(route)}, o.counted())
			}
		})
	}
}

func TestH17NestedMuxes(t *testing.T) {
	o, entered := observe(t), make(untilLeft)
	outer, inner := http.NewServeMux(), http.NewServeMux()
	inner.Handle("GET /x/{id}", entered)
	outer.Handle("/sub/", http.StripPrefix("/sub", inner))
	s := serve(t, http1Protocol, observer.Middleware(outer))

	leave := s.begin(t, s.request(t, http.MethodGet, "/sub/x/1"))
	receive(t, entered)
	leave()

	receive(t, s.ended)
	assert.Equal(t, counts{Cancellations: leftBefore("/sub/")}, o.counted())
}

func TestOuterHandlerSeesThePattern(t *testing.T) {
	observe(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /a/{id}", func(http.ResponseWriter, *http.Request) {})
	r := httptest.NewRequest(http.MethodGet, "/a/17", nil)
	observer.Middleware(mux).ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, "GET /a/{id}", r.Pattern)
}

// A function for the route that hangs holds up its own request, which is counted
// by then, but for the departure.
func TestRequestIsCountedBeforeItsRouteIsAskedFor(t *testing.T) {
	observe(t)
	before, listed := steady(), observer.WorkListed()
	asked, release := make(chan struct{}), make(chan struct{})
	request, leave := endable(http.MethodGet, cancelled)
	handler := observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write(okBody)
		leave()
	}), observer.WithRoute(func(*http.Request) string {
		close(asked)
		<-release
		return "/found"
	}))
	served := make(chan struct{})
	go func() {
		defer close(served)
		handler.ServeHTTP(httptest.NewRecorder(), request)
	}()
	<-asked
	during := observer.Requests().Counts()
	assert.Equal(t, before.Responses[http.StatusOK]+1, during.Responses[http.StatusOK])
	assert.Equal(t, listed, observer.WorkListed())
	assert.Equal(t, before.InFlight+1, during.InFlight)
	close(release)
	<-served
	after := observer.Requests().Counts()
	assert.Equal(t, before.InFlight, after.InFlight)
	found := observer.Cancellation{Route: "/found", ResponseStarted: true}
	assert.Equal(t, before.Cancellations[found]+1, after.Cancellations[found])
}

func TestWithRoute(t *testing.T) {
	for _, test := range []struct {
		name, want string
		route      func(*http.Request) string
	}{
		{"template", "/a/{id}", func(*http.Request) string { return "/a/{id}" }},
		{"pattern", "/a/{id}", func(*http.Request) string { return "GET example.com/a/{id}" }},
		{"nothing", observer.UnmatchedRoute, func(*http.Request) string { return "" }},
		{"no path", observer.UnmatchedRoute, func(*http.Request) string { return "hello" }},
		{"panic", observer.UnmatchedRoute, func(*http.Request) string { panic("no route") }},
		{"no function", "/pattern", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := observe(t)
			mux, leave := http.NewServeMux(), func() {}
			mux.HandleFunc("/pattern", func(http.ResponseWriter, *http.Request) { leave() })
			var asked []*http.Request
			option := observer.WithRoute(nil)
			if test.route != nil {
				option = observer.WithRoute(func(r *http.Request) string {
					asked = append(asked, r)
					return test.route(r)
				})
			}
			middleware := observer.Middleware(mux, nil, option)

			middleware.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/pattern", nil))
			assert.Empty(t, asked, "the client stayed")

			var r *http.Request
			r, leave = endable(http.MethodGet, cancelled)
			r.URL.Path = "/pattern"
			middleware.ServeHTTP(httptest.NewRecorder(), r)
			if test.route != nil {
				require.Len(t, asked, 1)
				assert.Same(t, r, asked[0])
			}
			assert.Equal(t, counts{Responses: statuses{200: 1}, Cancellations: leftBefore(test.want)}, o.counted())
		})
	}
}
