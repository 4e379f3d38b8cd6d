package observer_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/response"
)

// quiet waits for the requests of other tests and returns how many still stream.
func quiet() int64 {
	steady()
	return response.Streaming()
}

func TestRequestThatStreamsCountsOnceUntilItEnds(t *testing.T) {
	for name, stream := range map[string]func(w http.ResponseWriter){
		"Flush": func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
		"Flush thrice": func(w http.ResponseWriter) {
			w.(http.Flusher).Flush()
			w.(http.Flusher).Flush()
			w.(http.Flusher).Flush()
		},
		"FlushError":         func(w http.ResponseWriter) { _ = w.(interface{ FlushError() error }).FlushError() },
		"controller's Flush": func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
		"Hijack":             func(w http.ResponseWriter) { _, _, _ = w.(http.Hijacker).Hijack() },
		"Flush, then Hijack": func(w http.ResponseWriter) { w.(http.Flusher).Flush(); _, _, _ = w.(http.Hijacker).Hijack() },
	} {
		for kind, writer := range kinds {
			t.Run(kind+"/"+name, func(t *testing.T) {
				observe(t)
				before := quiet()
				base, _ := writer()
				handle(base, http.MethodGet, func(w http.ResponseWriter, _ func()) {
					io.WriteString(w, "not yet")
					assert.Equal(t, before, response.Streaming())
					stream(w)
					assert.Equal(t, before+1, response.Streaming())
				})
				assert.Equal(t, before, response.Streaming())
			})
		}
	}
}

func TestRequestThatDoesNotStream(t *testing.T) {
	observe(t)
	before := quiet()
	handle(&http1Writer{refusal: http.ErrNotSupported}, http.MethodGet, func(w http.ResponseWriter, _ func()) {
		w.WriteHeader(http.StatusOK)
		io.WriteString(w, "body")
		_, _, err := w.(http.Hijacker).Hijack()
		assert.Error(t, err)
		assert.Equal(t, before, response.Streaming())
	})
}

func TestStreamThatEndsInAnyWay(t *testing.T) {
	observe(t)
	before := quiet()
	for _, end := range []func(){func() { panic("boom") }, func() { panic(http.ErrAbortHandler) }, runtime.Goexit} {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() { _ = recover() }()
			handle(new(http1Writer), http.MethodGet, func(w http.ResponseWriter, _ func()) {
				w.(http.Flusher).Flush()
				end()
			})
		}()
		receive(t, ended)
		assert.Equal(t, before, response.Streaming())
	}
}

// Nothing would take it off again.
func TestFlushAfterTheHandlerReturnedIsNoStream(t *testing.T) {
	observe(t)
	before := quiet()
	var kept http.ResponseWriter
	var leave func()
	handle(new(http1Writer), http.MethodGet, func(w http.ResponseWriter, end func()) { kept, leave = w, end })
	leave() // as a server ends the context of every request
	kept.(http.Flusher).Flush()
	_, _, _ = kept.(http.Hijacker).Hijack()
	assert.Equal(t, before, response.Streaming())
}

func TestExpectedWaitIsCountedApart(t *testing.T) {
	o := observe(t)
	before, streaming := observer.ExpectedInFlight(), quiet()
	var asked atomic.Int32
	middleware := observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		expected := int64(0)
		if r.URL.Path == "/poll" {
			expected = 1
		}
		w.(http.Flusher).Flush()
		assert.Equal(t, before+expected, observer.ExpectedInFlight())
		assert.EqualValues(t, expected, observer.ExpectedListed())
		assert.Equal(t, streaming+1-expected, response.Streaming(), "left out once")
		assert.Equal(t, counts{InFlight: 1}, o.counted())
	}), observer.WithExpectedWait(nil), observer.WithExpectedWait(func(r *http.Request) bool {
		asked.Add(1)
		return r.URL.Path == "/poll"
	}), observer.WithExpectedWait(nil))
	for _, path := range []string{"/poll", "/work", "/poll", "/work"} { // the record of one is used again for the next
		o.before = o.metrics.Counts()
		middleware.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, counts{Responses: statuses{200: 1}}, o.counted())
	}
	assert.EqualValues(t, 4, asked.Load(), "once a request")
	assert.Equal(t, before, observer.ExpectedInFlight())
	assert.Equal(t, streaming, response.Streaming())
}

func TestExpectedWaitIsNotAskedForWhileNothingObserves(t *testing.T) {
	observe(t).Stop()
	handler := observer.Middleware(http.NotFoundHandler(), observer.WithExpectedWait(func(*http.Request) bool {
		assert.Fail(t, "asked")
		return true
	}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
}

func TestExpectedWaitSurvivesItsFunction(t *testing.T) {
	for name, expected := range map[string]func(*http.Request) bool{
		"panic":          func(*http.Request) bool { panic("no answer") },
		"Goexit":         func(*http.Request) bool { runtime.Goexit(); return true },
		"panic with nil": func(*http.Request) bool { panic(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			o, before := observe(t), observer.ExpectedInFlight()
			recorder := httptest.NewRecorder()
			observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				assert.Equal(t, before, observer.ExpectedInFlight())
				w.WriteHeader(http.StatusTeapot)
			}), observer.WithExpectedWait(expected)).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
			assert.Equal(t, http.StatusTeapot, recorder.Code)
			assert.Equal(t, counts{Responses: statuses{http.StatusTeapot: 1}}, o.counted())
		})
	}
}

// A request whose client leaves, and one whose handler panics, end as expected
// waits, too.
func TestExpectedWaitEndsInAnyWay(t *testing.T) {
	observe(t)
	before := observer.ExpectedInFlight()
	option := observer.WithExpectedWait(func(*http.Request) bool { return true })
	r, leave := endable(http.MethodGet, cancelled)
	observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leave() }), option).
		ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, before, observer.ExpectedInFlight(), "its client left")
	assert.Panics(t, func() {
		observer.Middleware(panicky{"boom"}, option).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	})
	assert.Equal(t, before, observer.ExpectedInFlight(), "it panicked")
	r = httptest.NewRequest(http.MethodGet, "/", nil)
	assert.Panics(t, func() {
		observer.Middleware(http.NotFoundHandler(), option).ServeHTTP(httptest.NewRecorder(), r.WithContext(endless{t.Context()}))
	})
	assert.Equal(t, before, observer.ExpectedInFlight(), "its context panicked")
}
