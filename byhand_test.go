package observer_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer"
)

// Handlers are also called by hand, with what a server never passes on.

func TestH59HandlerCalledByHandWithNil(t *testing.T) {
	o := observe(t)
	listed := observer.WorkListed()
	called := 0
	easy := observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called++ }))
	demanding := observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Host", r.Host) }))

	for _, arguments := range []struct {
		w http.ResponseWriter
		r *http.Request
	}{
		{httptest.NewRecorder(), nil},
		{nil, httptest.NewRequest(http.MethodGet, "/", nil)},
		{nil, nil},
	} {
		assert.NotPanics(t, func() { easy.ServeHTTP(arguments.w, arguments.r) })
		assert.Panics(t, func() { demanding.ServeHTTP(arguments.w, arguments.r) }, "as the handler itself")
	}

	assert.Equal(t, 3, called)
	assert.Zero(t, o.counted(), "of what no server could have served")
	assert.Equal(t, listed, observer.WorkListed())
}

// A writer may be a nil pointer whose methods make do with it.
type absent struct{ bytes.Buffer }

func (*absent) Header() http.Header         { return nil }
func (*absent) WriteHeader(int)             {}
func (*absent) Write(p []byte) (int, error) { return len(p), nil }

func TestHandlerCalledByHandWithANilWriterOfAType(t *testing.T) {
	o := observe(t)
	observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
	})).ServeHTTP((*absent)(nil), new(http.Request))
	assert.Equal(t, counts{Responses: statuses{202: 1}}, o.counted())
}
