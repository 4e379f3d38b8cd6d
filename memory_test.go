//go:build !race

package observer_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
)

// The race detector keeps memory of its own.

func init() {
	observer.ChildModes["a million requests"] = aMillionRequests
}

// A process that has served a million requests, and has seen clients leave ten
// thousand routes, is no larger than one that has served a few. A process of its
// own, since the routes stay counted.
func TestAMillionRequestsLeaveTheHeapAsItWas(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	output, err := observer.Child(t, "a million requests").Output()
	require.NoError(t, err)
	var before, after, goroutines int64
	_, err = fmt.Sscan(string(output), &before, &after, &goroutines)
	require.NoError(t, err, "%s", output)
	assert.Less(t, after-before, int64(1<<20), "%d bytes before and %d after", before, after)
	assert.Zero(t, goroutines, "more than before")
}

func aMillionRequests() error {
	reader := sdkmetric.NewManualReader()
	observer.Start(context.Background(), "server", observer.WithMeterProvider(providerOf(reader)),
		observer.WithLogger(slog.New(slog.DiscardHandler)))
	handler := observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		observer.WithRoute(func(r *http.Request) string { return r.Header.Get("Route") }))
	gone, leave := context.WithCancel(context.Background())
	leave()
	serve := func(from, to int) {
		for i := from; i < to; i++ {
			request := httptest.NewRequest(http.MethodGet, "/", nil)
			if i%100 == 0 {
				request.Header.Set("Route", fmt.Sprintf("/route/%d", i/100))
				request = request.WithContext(gone)
			}
			handler.ServeHTTP(httptest.NewRecorder(), request)
		}
	}
	heap := func() int64 {
		var metrics metricdata.ResourceMetrics
		_ = reader.Collect(context.Background(), &metrics)
		var stats runtime.MemStats
		for range 3 { // pools give back what they hold in two
			runtime.GC()
		}
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	serve(0, 1000)
	goroutines := runtime.NumGoroutine()
	before := heap()
	serve(1000, 1_000_000)
	after := heap()
	fmt.Println(before, after, max(0, runtime.NumGoroutine()-goroutines))
	return nil
}
