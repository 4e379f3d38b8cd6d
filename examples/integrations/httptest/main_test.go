package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
)

func TestRequestIsInFlightUntilItIsGraded(t *testing.T) {
	metrics := observe(t)
	grading, graded := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(newHandler(func(context.Context, string) (float64, error) {
		close(grading)
		<-graded
		return 1, nil
	}))
	defer server.Close()

	answered := make(chan error, 1)
	go func() { answered <- get(server.URL + "/grades/yes") }()
	<-grading
	if got := metrics.value(observer.RequestsInFlightInstrument); got != 1 {
		t.Errorf("%d requests are in flight while one is graded, want 1", got)
	}
	close(graded)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	server.Close() // the client has the answer before the handler has ended: this waits for that
	if got := metrics.value(observer.RequestsInFlightInstrument); got != 0 {
		t.Errorf("%d requests are in flight after the answer, want 0", got)
	}
}

func TestFailedGradingIsA500(t *testing.T) {
	metrics := observe(t)
	status := attribute.Int(observer.HTTPStatusCodeAttribute, http.StatusInternalServerError)
	// Totals live as long as the process, and other tests raise them, too: so
	// what counts is the difference.
	before := metrics.value(observer.ResponsesInstrument, status)

	server := httptest.NewServer(newHandler(func(context.Context, string) (float64, error) {
		return 0, errors.New("the grader is out of coffee")
	}))
	if err := get(server.URL + "/grades/yes"); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if got := metrics.value(observer.ResponsesInstrument, status) - before; got != 1 {
		t.Errorf("%d responses were counted with 500, want 1", got)
	}
}

func TestClientThatGivesUpIsCancelled(t *testing.T) {
	metrics := observe(t)
	cancelled := []attribute.KeyValue{
		attribute.String(observer.HTTPRouteAttribute, "/grades/{answer}"),
		attribute.String(observer.RequestPhaseAttribute, "before_response"),
	}
	before := metrics.value(observer.RequestsCancelledInstrument, cancelled...)

	ctx, giveUp := context.WithCancel(t.Context())
	server := httptest.NewServer(newHandler(func(ctx context.Context, _ string) (float64, error) {
		giveUp()
		<-ctx.Done()
		return 0, ctx.Err()
	}))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/grades/yes", nil)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := http.DefaultClient.Do(request); err == nil {
		response.Body.Close()
		t.Fatalf("the answer is %s, want none", response.Status)
	}
	server.Close()
	if got := metrics.value(observer.RequestsCancelledInstrument, cancelled...) - before; got != 1 {
		t.Errorf("%d cancelled requests were counted, want 1", got)
	}
}

// metrics is what the application would export.
type metrics struct {
	t      *testing.T
	reader *sdkmetric.ManualReader
}

// observe observes this process until the test ends. A reader serves one Start:
// tests that run in parallel share one, in TestMain.
func observe(t *testing.T) metrics {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	observing := observer.Start(context.Background(), "test", export.WithReader(reader))
	t.Cleanup(observing.Stop)
	if err := observing.Err(); err != nil {
		t.Fatal(err)
	}
	return metrics{t, reader}
}

// value collects, and returns the point that has these attributes; 0 without one.
func (m metrics) value(name string, attributes ...attribute.KeyValue) int64 {
	m.t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &all); err != nil {
		m.t.Fatal(err)
	}
	want := attribute.NewSet(attributes...)
	for _, scope := range all.ScopeMetrics {
		for _, metric := range scope.Metrics {
			sum, ok := metric.Data.(metricdata.Sum[int64])
			if !ok || metric.Name != name {
				continue
			}
			for _, point := range sum.DataPoints {
				if point.Attributes.Equals(&want) {
					return point.Value
				}
			}
		}
	}
	return 0
}

func get(url string) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
