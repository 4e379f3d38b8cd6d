package export

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/gym-observer/observer/internal/otlptest"
)

// scriptedExporter exports as it is told.
type scriptedExporter struct {
	export   func() error
	data     *metricdata.ResourceMetrics
	shutdown int
}

func (e *scriptedExporter) Temporality(sdkmetric.InstrumentKind) metricdata.Temporality {
	return metricdata.DeltaTemporality
}

func (e *scriptedExporter) Aggregation(sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.AggregationDrop{}
}

func (e *scriptedExporter) Export(_ context.Context, data *metricdata.ResourceMetrics) error {
	e.data = data
	return e.export()
}

func (e *scriptedExporter) ForceFlush(context.Context) error { return nil }

func (e *scriptedExporter) Shutdown(context.Context) error {
	e.shutdown++
	return nil
}

func TestOutageIsLoggedAtItsBeginningAndEnd(t *testing.T) {
	journal := otlptest.NewJournal()
	var result error
	e := &outageExporter{Exporter: &scriptedExporter{export: func() error { return result }}, logger: journal.Logger}
	export := func(n int, err error) {
		result = err
		for range n {
			require.NoError(t, e.Export(t.Context(), new(metricdata.ResourceMetrics)))
		}
	}
	export(2, nil)
	assert.Empty(t, journal.Lines(), "what works is not logged")
	export(3, errors.New("no route"))
	assert.Len(t, journal.Lines("level=WARN", "no route"), 1)
	export(1, errors.New("another cause"))
	assert.Len(t, journal.Lines(), 1)
	export(2, nil)
	assert.Len(t, journal.Lines("level=INFO"), 1)
	export(1, errors.New("no route"))
	assert.Len(t, journal.Lines("level=WARN", "no route"), 2, "a second outage is a second line")
	assert.Len(t, journal.Lines(), 3)
}

func TestLoggedFailureIsBounded(t *testing.T) {
	journal := otlptest.NewJournal()
	failing := func() error { return errors.New(strings.Repeat("body ", 1e6)) }
	e := &outageExporter{Exporter: &scriptedExporter{export: failing}, logger: journal.Logger}
	require.NoError(t, e.Export(t.Context(), new(metricdata.ResourceMetrics)))
	require.Len(t, journal.Lines(), 1)
	assert.Less(t, len(journal.Lines()[0]), 1500)
}

func TestPanicOfTheExporterIsAFailure(t *testing.T) {
	journal := otlptest.NewJournal()
	e := &outageExporter{Exporter: &scriptedExporter{export: func() error { panic("encoder") }}, logger: journal.Logger}
	for range 2 {
		require.NoError(t, e.Export(t.Context(), new(metricdata.ResourceMetrics)))
	}
	assert.Len(t, journal.Lines("level=WARN", "panic: encoder"), 1)
}

// panickingHandler counts the lines that it is given, and panics at each.
type panickingHandler struct {
	slog.Handler
	given *int
}

func (panickingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h panickingHandler) Handle(context.Context, slog.Record) error {
	*h.given++
	panic("handler")
}

func TestPanicOfTheLoggerIsSurvived(t *testing.T) {
	given := 0
	logger := slog.New(panickingHandler{slog.DiscardHandler, &given})
	failing := func() error { return errors.New("no route") }
	e := &outageExporter{Exporter: &scriptedExporter{export: failing}, logger: logger}
	require.NoError(t, e.Export(t.Context(), new(metricdata.ResourceMetrics)))
	warn(logger, unusable, errors.New("x"))
	assert.Equal(t, 2, given)
}

func TestExportCutOffByShutdownIsNoOutage(t *testing.T) {
	journal := otlptest.NewJournal()
	ctx, cancel := context.WithCancel(t.Context())
	cutOff := func() error {
		cancel()
		return ctx.Err()
	}
	e := &outageExporter{Exporter: &scriptedExporter{export: cutOff}, logger: journal.Logger}
	require.NoError(t, e.Export(ctx, new(metricdata.ResourceMetrics)))
	assert.Empty(t, journal.Lines())
}

func TestOutageExporterPassesTheRestThrough(t *testing.T) {
	inner := &scriptedExporter{export: func() error { return nil }}
	released := 0
	own := resource.NewSchemaless()
	e := &outageExporter{Exporter: inner, release: func() { released++ }, resource: own}
	assert.Equal(t, metricdata.DeltaTemporality, e.Temporality(sdkmetric.InstrumentKindCounter))
	assert.Equal(t, sdkmetric.AggregationDrop{}, e.Aggregation(sdkmetric.InstrumentKindCounter))

	given := &metricdata.ResourceMetrics{
		Resource:     resource.NewSchemaless(),
		ScopeMetrics: []metricdata.ScopeMetrics{{Metrics: []metricdata.Metrics{{Name: "a"}}}},
	}
	require.NoError(t, e.Export(t.Context(), given))
	assert.Same(t, own, inner.data.Resource)
	assert.Equal(t, given.ScopeMetrics, inner.data.ScopeMetrics)
	assert.NotSame(t, own, given.Resource, "the reader's data stays the reader's")

	require.NoError(t, e.Shutdown(t.Context()))
	assert.Equal(t, 1, inner.shutdown)
	assert.Equal(t, 1, released)
}
