package observer_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer"
)

func TestDepartureIsCountedWhereTheRouteFunctionCallsGoexit(t *testing.T) {
	o := observe(t)
	request, leave := endable(http.MethodGet, cancelled)
	handler := observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leave() }),
		observer.WithRoute(func(*http.Request) string { runtime.Goexit(); return "/never" }))
	served := make(chan struct{})
	go func() {
		defer close(served)
		handler.ServeHTTP(httptest.NewRecorder(), request)
	}()
	<-served
	assert.Equal(t, counts{Cancellations: leftBefore(observer.UnmatchedRoute)}, o.counted())
}
