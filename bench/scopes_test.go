package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/host"
	contrib "go.opentelemetry.io/contrib/instrumentation/runtime"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
)

// namesOf collects once and returns the names, whatever their scope.
func namesOf(t *testing.T, producer sdkmetric.Producer, start func(*sdkmetric.MeterProvider)) map[string]bool {
	t.Helper()
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(producer))
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	start(provider)
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	names := make(map[string]bool)
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			names[m.Name] = true
		}
	}
	require.NotEmpty(t, names)
	return names
}

// TestH84NamesThatCollide finds the names that both this package and contrib's
// host and runtime instrumentation use: on a Prometheus exporter without scope
// labels they cost the whole scrape. The documentation says what to leave out.
func TestH84NamesThatCollide(t *testing.T) {
	ours := namesOf(t, export.NewProducer(), func(provider *sdkmetric.MeterProvider) {
		o := observer.Start(t.Context(), "server", observer.WithMeterProvider(provider), observer.WithTaskCount(true))
		t.Cleanup(o.Stop)
		require.NoError(t, o.Err())
	})
	theirs := namesOf(t, contrib.NewProducer(), func(provider *sdkmetric.MeterProvider) {
		require.NoError(t, contrib.Start(contrib.WithMeterProvider(provider)))
		require.NoError(t, host.Start(host.WithMeterProvider(provider)))
	})
	var both []string
	for name := range ours {
		if theirs[name] {
			both = append(both, name)
		}
	}
	assert.ElementsMatch(t, []string{"process.cpu.time", "go.schedule.duration"}, both)
}
