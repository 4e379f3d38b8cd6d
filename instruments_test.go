package observer

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer/internal/catalogue"
	"github.com/gym-observer/observer/internal/env"
	"github.com/gym-observer/observer/internal/observable"
)

func TestEverySignalHasOneSource(t *testing.T) {
	var made histograms
	read := 0
	for _, s := range catalogue.Signals {
		to, from := made.of(s.Name), sources[s.Name]
		ways := []bool{to.float != nil, to.integer != nil, from != nil}
		histogram := s.Kind == catalogue.Histogram
		assert.Equal(t, []bool{histogram && s.Fractional, histogram && !s.Fractional, !histogram}, ways,
			"%s, a %s, fractional %t: float, integer, read", s.Name, s.Kind, s.Fractional)
		if from != nil {
			read++
		}
	}
	assert.Len(t, sources, read, "a source without a signal")
}

// Two signals that share one histogram would record into the last one made.
func TestSignalsHaveHistogramsOfTheirOwn(t *testing.T) {
	var made histograms
	seen := make(map[histogram]string)
	for _, s := range catalogue.Signals {
		to := made.of(s.Name)
		if to == (histogram{}) {
			continue
		}
		assert.Empty(t, seen[to], "%s has the histogram of another", s.Name)
		seen[to] = s.Name
	}
}

func TestExportedNamesAndKeysAreThoseOfTheCatalogue(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	require.NoError(t, err)
	declared := map[string][]string{"Instrument": nil, "Attribute": nil}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			for suffix := range declared {
				if name.IsExported() && strings.HasSuffix(name.Name, suffix) {
					value, err := strconv.Unquote(spec.Values[i].(*ast.BasicLit).Value)
					require.NoError(t, err)
					declared[suffix] = append(declared[suffix], value)
				}
			}
		}
		return true
	})
	var names, keys []string
	for _, s := range catalogue.Signals {
		names = append(names, s.Name)
		keys = append(keys, s.Attributes...)
	}
	assert.ElementsMatch(t, names, declared["Instrument"])
	slices.Sort(keys)
	assert.ElementsMatch(t, slices.Compact(keys), declared["Attribute"])
}

// meterWithout refuses the instruments of one name.
type meterWithout struct {
	metric.Meter
	name string
}

func (m meterWithout) Int64ObservableUpDownCounter(name string, options ...metric.Int64ObservableUpDownCounterOption) (metric.Int64ObservableUpDownCounter, error) {
	if name == m.name {
		return nil, errUnavailable
	}
	return m.Meter.Int64ObservableUpDownCounter(name, options...)
}

func (m meterWithout) Float64Histogram(name string, options ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	if name == m.name {
		return nil, errUnavailable
	}
	return m.Meter.Float64Histogram(name, options...)
}

func TestRowThatTheMeterRefusesLeavesTheOthers(t *testing.T) {
	whole, err := observable.Rows(noop.Meter{}, sources)
	require.NoError(t, err)
	made, err := observable.Rows(meterWithout{noop.Meter{}, ProcessMemoryUsageInstrument}, sources)
	assert.ErrorIs(t, err, errUnavailable)
	assert.ErrorContains(t, err, ProcessMemoryUsageInstrument)
	assert.Len(t, made, len(whole)-1)

	recorded, err := newHistograms(meterWithout{noop.Meter{}, EventLoopLagInstrument}, nil)
	assert.ErrorIs(t, err, errUnavailable)
	recorded.lag.Record(context.Background(), 1) // into nothing
	assert.NotNil(t, recorded.gcPause.To)
}

func TestInstrumentsAreEnabledWhereTheyLeadSomewhere(t *testing.T) {
	for name, test := range map[string]struct {
		provider metric.MeterProvider
		want     bool
	}{
		"no-op":                {noop.NewMeterProvider(), false},
		"SDK without a reader": {sdkmetric.NewMeterProvider(), false},
		"SDK with a reader":    {sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())), true},
	} {
		made, err := newHistograms(test.provider.Meter("test"), nil)
		require.NoError(t, err)
		assert.Equal(t, test.want, made.enabled(), name)
	}
}

func TestHistogramsDropWhatWouldPoisonThem(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	made, err := newHistograms(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"), nil)
	require.NoError(t, err)
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		made.lag.Record(context.Background(), value)
	}
	to := newRecorder(made)
	defer to.Stop(time.Now().Add(10 * time.Second))
	to.Duration(context.Background(), &to.admission, -1)
	to.PassOn(10 * time.Second)
	made.writeBytes.Record(context.Background(), -1)
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &all))
	assert.Empty(t, all.ScopeMetrics)

	made.lag.Record(nil, 0)                                //nolint:staticcheck // nil is the subject
	to.Duration(nil, &to.admission, 1500*time.Microsecond) //nolint:staticcheck // as above
	to.PassOn(10 * time.Second)
	made.writeBytes.Record(nil, 0) //nolint:staticcheck // as above
	require.NoError(t, reader.Collect(context.Background(), &all))
	require.Len(t, all.ScopeMetrics, 1)
	sums := make(map[string]float64)
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			sums[m.Name] = data.DataPoints[0].Sum
		case metricdata.Histogram[int64]:
			sums[m.Name] = float64(data.DataPoints[0].Sum)
		}
	}
	assert.Equal(t, map[string]float64{EventLoopLagInstrument: 0, DriverAdmissionInstrument: 1.5, DriverWriteBytesInstrument: 0}, sums)
}

func TestScopeHasAVersion(t *testing.T) {
	assert.NotEmpty(t, env.VersionOf(scopeName))
}
