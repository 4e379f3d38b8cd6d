package e2e_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/protobuf/proto"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
	"github.com/gym-observer/observer/internal/otlptest"
)

// TestLevers measures what an export of a server costs, and what each setting
// takes off that.
func TestLevers(t *testing.T) {
	otlptest.ClearEnvironment(t)
	t.Logf("%-18s %6s %6s %10s %6s", "", "points", "bytes", "compressed", "series")
	show := func(name string, c cost) {
		t.Logf("%-18s %6d %6d %10d %6d", name, c.points, c.bytes, c.compressed, c.series)
	}
	plain := exportOf(t, export.FromEnv())
	show("as it is", plain)
	assert.Less(t, plain.compressed, plain.bytes)

	for _, lever := range []struct {
		name        string
		temporality string
		view        sdkmetric.View
	}{
		{"delta temporality", "delta", nil},
		{"no buckets", "", noBuckets},
		{"the verdict alone", "", verdictAlone},
	} {
		provider := export.FromEnv()
		if lever.view != nil {
			provider = observer.WithProvider(providerWith(lever.view, plain.resource))
		}
		t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", lever.temporality)
		c := exportOf(t, provider)
		show(lever.name, c)
		assert.Less(t, c.bytes, plain.bytes, lever.name)
		assert.Less(t, c.compressed, plain.compressed, lever.name)
	}
}

// cost is what one export of one process costs.
type cost struct {
	points, bytes, compressed int
	series                    int // in Prometheus

	resource *resource.Resource
}

// exportOf observes this process, as a server that has counted five status codes
// and ten cancelled routes, until its first window is over.
func exportOf(t *testing.T, provider observer.Option) cost {
	t.Helper()
	collector := otlptest.Start(t, otlptest.GRPC)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.Endpoint())
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
	observing := observer.Start(t.Context(), "server", provider, observer.WithWindow(time.Second))
	defer observing.Stop()
	require.NoError(t, observing.Err())

	for _, status := range []int{200, 201, 404, 500, 503} {
		observer.Requests().CountResponse(status)
	}
	for i := range 10 {
		observer.Requests().CountCancellation(fmt.Sprintf("/resources/%d/{id}", i), false)
	}
	runtime.GC() // so that there are pauses
	request := collector.WaitFor(t, func(r otlptest.Request) bool { return r.Metric(observer.LoadInstrument) != nil })

	body, err := proto.Marshal(request.Body)
	require.NoError(t, err)
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	_, err = writer.Write(body)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	c := cost{bytes: len(body), compressed: compressed.Len(), series: 1, resource: resourceOf(request)} // target_info is one
	for _, metric := range request.Metrics() {
		numbers := len(metric.GetSum().GetDataPoints()) + len(metric.GetGauge().GetDataPoints())
		c.points += numbers
		c.series += numbers
		for _, point := range metric.GetHistogram().GetDataPoints() {
			c.points++
			c.series += max(1, len(point.GetBucketCounts())) + 2 // beside the buckets a count and a sum
		}
	}
	return c
}

func resourceOf(request otlptest.Request) *resource.Resource {
	var attributes []attribute.KeyValue
	for key, value := range request.Resource() {
		switch value := value.(type) {
		case string:
			attributes = append(attributes, attribute.String(key, value))
		case int64:
			attributes = append(attributes, attribute.Int64(key, value))
		}
	}
	return resource.NewSchemaless(attributes...)
}

// providerWith makes a provider as export.FromEnv does, but with a view.
func providerWith(view sdkmetric.View, of *resource.Resource) func(context.Context, string, observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
	return func(ctx context.Context, _ string, _ observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
		exporter, err := otlpmetricgrpc.New(ctx) // the environment says where to
		if err != nil {
			return nil, nil, err
		}
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithView(view), sdkmetric.WithResource(of),
			sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
		return provider, provider.Shutdown, nil
	}
}

// noBuckets is a view that leaves count and sum of a histogram.
func noBuckets(i sdkmetric.Instrument) (sdkmetric.Stream, bool) {
	none := sdkmetric.AggregationExplicitBucketHistogram{NoMinMax: true}
	return sdkmetric.Stream{Name: i.Name, Description: i.Description, Unit: i.Unit, Aggregation: none}, i.Kind == sdkmetric.InstrumentKindHistogram
}

// verdictAlone is a view that drops all but what tells which process is slow, and
// why.
func verdictAlone(i sdkmetric.Instrument) (sdkmetric.Stream, bool) {
	switch i.Name {
	case observer.SlowTimeInstrument, observer.LoadInstrument, observer.ResponsesInstrument, observer.RequestsInFlightInstrument:
		return sdkmetric.Stream{}, false
	}
	return sdkmetric.Stream{Aggregation: sdkmetric.AggregationDrop{}}, true
}
