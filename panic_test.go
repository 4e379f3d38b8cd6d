package observer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer"
)

// panicky throws a value from a frame that a log must show.
type panicky struct{ value any }

func (p panicky) ServeHTTP(http.ResponseWriter, *http.Request) { p.throwFromHere() }

//go:noinline
func (p panicky) throwFromHere() {
	if p.value == "index" {
		_ = []int{}[len(p.value.(string))]
	}
	panic(p.value)
}

func TestH09PanicBeforeAnyByte(t *testing.T) {
	values := map[string]any{
		"string":        "boom",
		"error":         errors.New("boom"),
		"runtime error": "index",
		"nil":           nil,
		"wrapped abort": fmt.Errorf("no: %w", http.ErrAbortHandler),
		"abort's text":  errors.New(http.ErrAbortHandler.Error()),
		"struct":        struct{ A, B int }{1, 2},
		"uncomparable":  []int{1, 2},
	}
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	for _, protocol := range protocols {
		for name, value := range values {
			t.Run(protocol+"/"+name, func(t *testing.T) {
				o := observe(t)
				bare := serve(t, protocol, panicky{value})
				bare.fail(t, "/")
				s := serve(t, protocol, observer.Middleware(panicky{value}))
				s.fail(t, "/")

				assert.Equal(t, counts{UnhandledExceptions: 1}, o.counted())
				logged, want := receive(t, s.log), receive(t, bare.log)
				firstLine := func(entry string) string {
					line, _, _ := strings.Cut(address.ReplaceAllString(entry, "client"), "\n")
					return line
				}
				assert.Equal(t, firstLine(want), firstLine(logged))
				for _, entry := range []string{want, logged} {
					assert.Contains(t, entry, "panicky.throwFromHere")
				}
			})
		}
	}
}

func TestPanicKeepsItsValue(t *testing.T) {
	observe(t)
	for _, value := range []any{"boom", io.EOF, http.ErrAbortHandler, 7} {
		assert.PanicsWithValue(t, value, func() {
			observer.Middleware(panicky{value}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		})
	}
}

func TestAbortIsNoException(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			o := observe(t)
			s := serve(t, protocol, observer.Middleware(panicky{http.ErrAbortHandler}))
			s.fail(t, "/")
			assert.Zero(t, o.counted())
			s.Close()
			assert.Empty(t, s.log)
		})
	}
}

func TestGoexitCountsOnlyWhatWasWritten(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			o, mux := observe(t), http.NewServeMux()
			mux.HandleFunc("/silent", func(http.ResponseWriter, *http.Request) { runtime.Goexit() })
			mux.HandleFunc("/spoken", func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusAccepted)
				runtime.Goexit()
			})
			s := serve(t, protocol, observer.Middleware(mux))
			s.fail(t, "/silent")
			assert.Zero(t, o.counted())
			s.fail(t, "/spoken")
			assert.Equal(t, counts{Responses: statuses{202: 1}}, o.counted())
		})
	}
}

func TestPanicAfterTheHeadCountsBoth(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			o := observe(t)
			s := serve(t, protocol, observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusAccepted)
				panic("boom")
			})))
			s.fail(t, "/")
			assert.Equal(t, counts{UnhandledExceptions: 1, Responses: statuses{202: 1}}, o.counted())
		})
	}
}

// headless panics when it is asked for its header, as net/http's HTTP/2 writer
// does after its handler has returned.
type headless struct{ *httptest.ResponseRecorder }

func (headless) Header() http.Header { panic("asked for the header") }

// endless is a context whose error the application computes.
type endless struct{ context.Context }

func (endless) Err() error { panic("asked for the error") }

func TestRequestEndsWhateverTheApplicationsWriterAndContextDo(t *testing.T) {
	observe(t)
	before, listed := steady().InFlight, observer.WorkListed()
	request, leave := endable(http.MethodGet, cancelled)
	broken := observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write(okBody)
		leave()
	}))
	assert.Panics(t, func() { broken.ServeHTTP(headless{httptest.NewRecorder()}, request) })
	assert.Panics(t, func() {
		broken.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil).WithContext(endless{t.Context()}))
	})
	assert.Equal(t, before, observer.Requests().Counts().InFlight)
	assert.Equal(t, listed, observer.WorkListed())
}

func TestPanicAfterTheClientLeft(t *testing.T) {
	for _, test := range []struct {
		name       string
		value      any
		exceptions int64
	}{
		{"any value", "boom", 1},
		{"abort", http.ErrAbortHandler, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := observe(t)
			r, leave := endable(http.MethodGet, cancelled)
			assert.PanicsWithValue(t, test.value, func() {
				observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					leave()
					panic(test.value)
				})).ServeHTTP(httptest.NewRecorder(), r)
			})
			assert.Equal(t, counts{
				UnhandledExceptions: test.exceptions,
				Cancellations:       leftBefore(observer.UnmatchedRoute),
			}, o.counted())
		})
	}
}

func TestRoutePanicKeepsTheHandlersPanic(t *testing.T) {
	o := observe(t)
	r, leave := endable(http.MethodGet, cancelled)
	middleware := observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		leave()
		panic("the handler's")
	}), observer.WithRoute(func(*http.Request) string { panic("the route's") }))
	assert.PanicsWithValue(t, "the handler's", func() { middleware.ServeHTTP(httptest.NewRecorder(), r) })
	assert.Equal(t, counts{UnhandledExceptions: 1, Cancellations: leftBefore(observer.UnmatchedRoute)}, o.counted())
}
