package observer_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

// held serves one request and keeps it in flight until the test ends.
func held(t *testing.T, request *http.Request, routes func(handler http.Handler) http.Handler) {
	t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	handler := routes(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-leave
	}))
	var serving sync.WaitGroup
	serving.Go(func() { handler.ServeHTTP(httptest.NewRecorder(), request) })
	t.Cleanup(func() { close(leave); serving.Wait() })
	<-entered
}

// diagnosed waits for the first window and returns what is in flight.
func diagnosed(t *testing.T) []observer.Work {
	t.Helper()
	require.Eventually(t, func() bool { return !observer.Diagnose().At.IsZero() }, 20*time.Second, 20*time.Millisecond)
	return observer.Diagnose().Oldest
}

func TestRequestInFlightIsListedByItsRoute(t *testing.T) {
	mux := func(pattern string) func(http.Handler) http.Handler {
		return func(handler http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.Handle(pattern, handler)
			return observer.Middleware(mux)
		}
	}
	template := func(route string) func(http.Handler) http.Handler {
		return func(handler http.Handler) http.Handler {
			return observer.Middleware(handler, observer.WithRoute(func(*http.Request) string { return route }))
		}
	}
	for name, test := range map[string]struct {
		routes func(http.Handler) http.Handler
		want   string
	}{
		"of a ServeMux":             {mux("GET example.com/rollouts/{id}"), "/rollouts/{id}"},
		"of a route function":       {template("POST /rollouts/{id}"), "/rollouts/{id}"},
		"of one that finds nothing": {template(""), ""},
		"of one that panics": {func(h http.Handler) http.Handler {
			return observer.Middleware(h, observer.WithRoute(func(*http.Request) string { panic("no route") }))
		}, ""},
		"of a handler without a route": {func(h http.Handler) http.Handler { return observer.Middleware(h) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			start(t, "server", observer.WithWindow(time.Second), observer.WithSampleInterval(10*time.Millisecond))
			held(t, httptest.NewRequest(http.MethodGet, "http://example.com/rollouts/17?secret", nil), test.routes)
			oldest := diagnosed(t)
			require.Len(t, oldest, 1)
			assert.Equal(t, "request", oldest[0].Kind)
			assert.Equal(t, test.want, oldest[0].Name)
			assert.Positive(t, oldest[0].Age)
		})
	}
}

func TestRequestThatHasEndedIsNotListed(t *testing.T) {
	o := start(t, "server", observer.WithWindow(time.Second), observer.WithSampleInterval(10*time.Millisecond))
	handler := observer.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
	}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	assert.Panics(t, func() {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/panic", nil))
	})
	assert.Empty(t, diagnosed(t))
	_, listed := o.collect(t).value(observer.RequestsOldestAgeInstrument)
	assert.False(t, listed, "an age while nothing is in flight")
}

func TestOldestAgeOfARequestGrows(t *testing.T) {
	o := start(t, "server", observer.WithSampleInterval(10*time.Millisecond))
	held(t, httptest.NewRequest(http.MethodGet, "/", nil), func(h http.Handler) http.Handler { return observer.Middleware(h) })
	first := o.collect(t).require(t, observer.RequestsOldestAgeInstrument)
	time.Sleep(30 * time.Millisecond) // an age can only be had by waiting
	assert.GreaterOrEqual(t, o.collect(t).require(t, observer.RequestsOldestAgeInstrument), first+0.03)
}

// A ServeMux answers a CONNECT for /tree, where only /tree/ is registered, with
// a redirect, and writes the path that it redirects to where the pattern
// belongs. Anybody can send that.
func TestRedirectedConnectShowsNoPath(t *testing.T) {
	start(t, "server")
	mux := http.NewServeMux()
	mux.Handle("/{tenant}/", http.NotFoundHandler())
	ctx, leave := context.WithCancel(t.Context())
	leave()
	request := httptest.NewRequest(http.MethodConnect, "/secret", nil).WithContext(ctx)
	request.URL.Path = "/secret"

	before := observer.Requests().Counts().Cancellations
	observer.Middleware(mux).ServeHTTP(httptest.NewRecorder(), request)
	assert.Equal(t, "/secret/", request.Pattern, "this test is pointless where net/http has mended it")
	assert.Equal(t, map[observer.Cancellation]int64{{Route: observer.UnmatchedRoute}: 1},
		grown(before, observer.Requests().Counts().Cancellations))
}

// The redirect is to the cleaned path, which takes what is escaped in it.
func TestRedirectedConnectShowsNoCleanedPath(t *testing.T) {
	start(t, "server")
	mux := http.NewServeMux()
	mux.Handle("/{tenant}/{thing}/", http.NotFoundHandler())
	ctx, leave := context.WithCancel(t.Context())
	leave()
	for _, path := range []string{"/a/x%2f%2e%2e%2fsecret", "/a/sec%2f%2e%2fret", "//a/secret"} {
		target, err := url.Parse("http://example.com" + path)
		require.NoError(t, err)
		request := httptest.NewRequest(http.MethodConnect, "/", nil).WithContext(ctx)
		request.URL = &url.URL{Path: target.Path, RawPath: target.RawPath}

		before := observer.Requests().Counts().Cancellations
		observer.Middleware(mux).ServeHTTP(httptest.NewRecorder(), request)
		for cancellation := range grown(before, observer.Requests().Counts().Cancellations) {
			assert.NotContains(t, cancellation.Route, "secret", path)
			assert.NotContains(t, cancellation.Route, "ret", path)
		}
	}
}

func TestRequestInFlightWithAnEscapedSlash(t *testing.T) {
	start(t, "server", observer.WithWindow(time.Second), observer.WithSampleInterval(10*time.Millisecond))
	held(t, httptest.NewRequest(http.MethodGet, "/a/x%2Fdelete", nil), func(handler http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/a/{id}", handler)
		mux.Handle("/a/{id}/delete", http.NotFoundHandler())
		return observer.Middleware(mux)
	})
	oldest := diagnosed(t)
	require.Len(t, oldest, 1)
	assert.Equal(t, "/a/{id}", oldest[0].Name)
}

// A diagnosis calls the route function. Whatever that does, sampling goes on.
func TestRouteFunctionCannotStopTheSampler(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for name, route := range map[string]func(*http.Request) string{
		"by Goexit":     func(*http.Request) string { runtime.Goexit(); return "" },
		"by not ending": func(*http.Request) string { <-release; return "/late" },
	} {
		t.Run(name, func(t *testing.T) {
			start(t, "server", observer.WithWindow(time.Second), observer.WithSampleInterval(10*time.Millisecond))
			held(t, httptest.NewRequest(http.MethodGet, "/", nil), func(handler http.Handler) http.Handler {
				return observer.Middleware(handler, observer.WithRoute(route))
			})
			oldest := diagnosed(t)
			require.Len(t, oldest, 1)
			assert.Empty(t, oldest[0].Name)
			at := observer.Diagnose().At
			assert.Eventually(t, func() bool { return observer.Diagnose().At.After(at) }, 20*time.Second, 50*time.Millisecond)
		})
	}
}
