package observer_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
)

func TestRequestsIsNilUntilSomethingObserves(t *testing.T) {
	assert.False(t, observes())
	o := start(t, "test")
	assert.True(t, observes())
	o.Stop()
	assert.False(t, observes())
}

func TestNilRequestMetricsCountNothing(t *testing.T) {
	var m *observer.RequestMetrics
	m.CountResponse(200)
	m.CountCancellation("/", true)
	m.CountUnhandledException()
	for _, end := range []func(){m.Begin(), m.BeginOutbound()} {
		require.NotNil(t, end)
		end()
		end()
	}
	assert.Equal(t, observer.RequestCounts{}, m.Counts())
}

func TestStatusOutsideOfHTTPIsNotCounted(t *testing.T) {
	start(t, "test")
	m := observer.Requests()
	before := m.Counts()
	for _, status := range []int{-1, 0, 99, 1000, math.MaxInt} {
		m.CountResponse(status)
	}
	assert.Equal(t, before.Responses, m.Counts().Responses)
	for _, status := range []int{100, 999} {
		m.CountResponse(status)
		assert.Equal(t, before.Responses[status]+1, m.Counts().Responses[status])
	}
}

func TestEndOfARequestIsIdempotent(t *testing.T) {
	o := start(t, "test")
	m := observer.Requests()
	before := m.Counts()
	end, endOutbound := m.Begin(), m.BeginOutbound()
	now := m.Counts()
	assert.Equal(t, before.InFlight+1, now.InFlight)
	assert.Equal(t, before.OutboundInFlight+1, now.OutboundInFlight)
	e := o.collect(t)
	assert.Equal(t, float64(now.InFlight), e.require(t, observer.RequestsInFlightInstrument))
	assert.Equal(t, float64(now.OutboundInFlight), e.require(t, observer.OutboundInFlightInstrument))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(end)
		wg.Go(endOutbound)
	}
	wg.Wait()
	now = m.Counts()
	assert.Equal(t, before.InFlight, now.InFlight)
	assert.Equal(t, before.OutboundInFlight, now.OutboundInFlight)
}

func TestCountsAreACopy(t *testing.T) {
	start(t, "test")
	m := observer.Requests()
	m.CountResponse(208)
	m.CountCancellation("/copy", true)
	counts := m.Counts()
	before := counts.Responses[208]
	delete(counts.Responses, 208)
	clear(counts.Cancellations)
	assert.Equal(t, before, m.Counts().Responses[208])
	assert.Positive(t, m.Counts().Cancellations[observer.Cancellation{Route: "/copy", ResponseStarted: true}])
}

func TestCountsAreExported(t *testing.T) {
	o := start(t, "test")
	m := observer.Requests()
	m.CountResponse(226)
	m.CountCancellation("/exported", false)
	m.CountCancellation("/exported", true)
	m.CountCancellation("/exported", true)
	m.CountUnhandledException()
	counts, e := m.Counts(), o.collect(t)
	assert.EqualValues(t, counts.Responses[226], e.require(t, observer.ResponsesInstrument, attribute.Int("http.response.status_code", 226)))
	assert.EqualValues(t, counts.UnhandledExceptions, e.require(t, observer.RequestsUnhandledExceptionsInstrument))
	for phase, started := range map[string]bool{"before_response": false, "response_started": true} {
		want := counts.Cancellations[observer.Cancellation{Route: "/exported", ResponseStarted: started}]
		assert.EqualValues(t, want, e.require(t, observer.RequestsCancelledInstrument,
			attribute.String("http.route", "/exported"), attribute.String("nemo.gym.request.phase", phase)))
	}
}

func TestEmptyRouteCountsAsUnmatched(t *testing.T) {
	start(t, "test")
	m := observer.Requests()
	unmatched := observer.Cancellation{Route: observer.UnmatchedRoute}
	before := m.Counts().Cancellations[unmatched]
	m.CountCancellation("", false)
	m.CountCancellation("unmatched", false)
	assert.Equal(t, before+2, m.Counts().Cancellations[unmatched])
}

// Children, since the routes of a process are bounded and never forgotten.
func init() {
	const routes, workers = 1500, 8
	observer.ChildModes["many routes"] = func() error {
		reader := sdkmetric.NewManualReader()
		_, err := observer.Acquire(context.Background(), observer.WithMeterProvider(providerOf(reader)))
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		for range workers { // all at once, so that they meet at the bound
			wg.Go(func() {
				for route := range routes {
					for _, started := range []bool{false, true} {
						observer.Requests().CountCancellation(fmt.Sprintf("/route/%d/{id}", route), started)
					}
				}
				observer.Requests().CountCancellation("", false)
			})
		}
		wg.Wait()
		return printValues(reader)
	}
	observer.ChildModes["small server"] = func() error {
		reader := sdkmetric.NewManualReader()
		o := observer.Start(context.Background(), "server", observer.WithMeterProvider(providerOf(reader)),
			observer.WithTaskCount(true), observer.WithSampleInterval(time.Millisecond), observer.WithWindow(time.Second))
		if o.Err() != nil {
			return o.Err()
		}
		for _, status := range []int{200, 201, 404, 500, 503} {
			handler := observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}
		for route := range 10 {
			for _, started := range []bool{false, true} {
				observer.Requests().CountCancellation(fmt.Sprintf("/route/%d", route), started)
			}
		}
		runtime.GC()
		for { // until a window is complete
			e, err := gather(reader)
			if err != nil {
				return err
			}
			if e.points(observer.GCPauseInstrument) != nil && e.points(observer.LoadInstrument) != nil {
				return printValues(reader)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func TestSmallServerExportsFewSeries(t *testing.T) {
	values := valuesOf(t, "small server")
	assert.Less(t, len(values), 80, "five status codes and ten cancelled routes: %v", values)
	for point := range values {
		assert.False(t, strings.HasPrefix(point, "gym.driver."), "a server drives nothing: %s", point)
	}
}

func TestH47ManyRegisteredRoutes(t *testing.T) {
	const workers = 8
	values := valuesOf(t, "many routes")
	routes, total := make(map[string]bool), 0.0
	for point, value := range values {
		labels, cancelled := strings.CutPrefix(point, observer.RequestsCancelledInstrument+"{")
		if !cancelled {
			continue
		}
		total += value
		labels, phase, _ := strings.Cut(strings.TrimSuffix(labels, "}"), ",")
		route := strings.TrimPrefix(labels, "http.route=")
		assert.NotContains(t, point, "otel.metric.overflow")
		switch {
		case route == "overflow":
			assert.EqualValues(t, 600*workers, value)
		case route == "unmatched":
			assert.EqualValues(t, workers, value)
		default:
			routes[route] = true
			assert.EqualValues(t, workers, value, "%s %s", route, phase)
		}
	}
	assert.Len(t, routes, 900)
	assert.EqualValues(t, (1500*2+1)*workers, total)
}
