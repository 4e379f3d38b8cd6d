package observer_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
)

// Requests go on unharmed while observers come and go, and each that began
// observed is counted to its end.
func TestRequestsWhileTheObserverComesAndGoes(t *testing.T) {
	before := observer.Requests().Counts() // zero: nothing runs yet
	assert.Zero(t, before)
	handler := observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "served") }))
	server := httptest.NewServer(handler)
	defer server.Close()

	done := make(chan struct{})
	var flapping, serving sync.WaitGroup
	for range 4 {
		flapping.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				reader := sdkmetric.NewManualReader()
				o := observer.Start(context.Background(), "server", observer.WithMeterProvider(providerOf(reader)),
					observer.WithLogger(slog.New(slog.DiscardHandler)))
				collect(t, reader)
				o.Stop()
			}
		})
	}
	for range 8 {
		serving.Go(func() {
			for range 200 {
				response, err := http.Get(server.URL)
				if !assert.NoError(t, err) {
					return
				}
				body, _ := io.ReadAll(response.Body)
				response.Body.Close()
				assert.Equal(t, "served", string(body))
			}
		})
	}
	serving.Wait()
	close(done)
	flapping.Wait()

	o := start(t, "server")
	assert.Zero(t, o.collect(t).require(t, observer.RequestsInFlightInstrument))
}

// An application may put another provider in the place of the first, from one
// Stop to the next Start: the totals go on there.
func TestProviderReplaced(t *testing.T) {
	first := start(t, "server")
	observer.Requests().CountResponse(299)
	status := attribute.Int(observer.HTTPStatusCodeAttribute, 299)
	counted := first.collect(t).require(t, observer.ResponsesInstrument, status)
	require.NoError(t, first.provider.Shutdown(context.Background()))
	first.Stop()

	second := start(t, "server")
	observer.Requests().CountResponse(299)
	assert.Equal(t, counted+1, second.collect(t).require(t, observer.ResponsesInstrument, status))
}

// A reader whose exporter panics while it collects is the provider's affair; a
// logger that panics meanwhile must not make it the server's.
func TestReadingAndLoggerFailTogether(t *testing.T) {
	o := start(t, "server", observer.WithLogger(slog.New(panicking{})), observer.WithSampleInterval(time.Millisecond))
	observer.Requests().CountResponse(200)
	assert.NotPanics(t, func() { o.collect(t).require(t, observer.RequestsInFlightInstrument) })
	o.Stop()
	assert.ErrorIs(t, o.Err(), observer.ErrStopped)
}

type panicking struct{ slog.Handler }

func (panicking) Enabled(context.Context, slog.Level) bool { panic(errors.New("the logger is broken")) }
func (panicking) Handle(context.Context, slog.Record) error {
	panic(errors.New("the logger is broken"))
}

// The number of processors may change while the process runs. Loads are of what
// is there at the end of their window.
func TestProcessorsChangeWhileTheProcessRuns(t *testing.T) {
	processors := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(processors)
	o := start(t, "server", observer.WithSampleInterval(5*time.Millisecond), observer.WithWindow(time.Second))
	for n := range 20 {
		runtime.GOMAXPROCS(1 + n%4)
		time.Sleep(10 * time.Millisecond) // samples are taken with each number
	}
	require.Eventually(t, func() bool { return !observer.Diagnose().At.IsZero() }, 20*time.Second, 10*time.Millisecond)
	for _, finding := range observer.Diagnose().Findings {
		assert.GreaterOrEqual(t, finding.Load, 0.0, finding.Cause)
	}
	assert.NotEmpty(t, o.collect(t).points(observer.EventLoopLagInstrument))
}
