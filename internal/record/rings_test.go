package record

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/gym-observer/observer/internal/catalogue"
)

// kept keeps what two histograms are given, on the goroutine of the rings.
type kept struct {
	floats   []float64
	integers []int64
	sets     []attribute.Set
}

type keptFloat struct {
	noop.Float64Histogram
	*kept
}

func (h keptFloat) Record(ctx context.Context, value float64, options ...metric.RecordOption) {
	h.floats = append(h.floats, value)
	h.sets = append(h.sets, metric.NewRecordConfig(options).Attributes())
}

type keptInt struct {
	noop.Int64Histogram
	*kept
}

func (h keptInt) Record(ctx context.Context, value int64, options ...metric.RecordOption) {
	h.integers = append(h.integers, value)
	h.sets = append(h.sets, metric.NewRecordConfig(options).Attributes())
}

const patience = 10 * time.Second // of tests, which it should never need

func TestRingsPassOnWhatIsNotNegative(t *testing.T) {
	var got kept
	float, integer := &Float{To: keptFloat{kept: &got}, Totals: new(Totals)}, &Int{To: keptInt{kept: &got}}
	r := NewRings()
	r.Duration(t.Context(), float, 1500*time.Microsecond)
	r.Duration(t.Context(), float, -1)
	r.Duration(t.Context(), float, 0)
	r.Count(t.Context(), integer, 3)
	r.Count(t.Context(), integer, -1)
	var none context.Context
	r.Count(none, integer, 0)
	require.True(t, r.PassOn(patience))
	r.Stop(time.Now().Add(patience))
	assert.Equal(t, []float64{1.5, 0}, got.floats, "milliseconds")
	assert.Equal(t, []int64{3, 0}, got.integers)
	assert.Equal(t, int64(2), float.Totals.Count.Load())
	assert.Equal(t, int64(1_500_000), float.Totals.Sum.Load())
}

func TestSamplesKeepTheirAttributes(t *testing.T) {
	var got kept
	set := attribute.NewSet(attribute.String("nemo.gym.event_loop", "main"))
	options := []metric.RecordOption{metric.WithAttributeSet(set)}
	r := NewRings()
	require.True(t, r.Samples.TryPut(OfFloat(t.Context(), &Float{To: keptFloat{kept: &got}}, 0.25, &options)))
	require.True(t, r.Samples.TryPut(OfInt(t.Context(), &Int{To: keptInt{kept: &got}}, 5, &options)))
	require.True(t, r.PassOn(patience))
	r.Stop(time.Now().Add(patience))
	assert.Equal(t, []float64{0.25}, got.floats)
	assert.Equal(t, []int64{5}, got.integers)
	assert.Equal(t, []attribute.Set{set, set}, got.sets)
}

func TestHistogramDropsWhatWouldPoisonItsSum(t *testing.T) {
	var got kept
	float, integer := Float{To: keptFloat{kept: &got}}, Int{To: keptInt{kept: &got}}
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 2} {
		float.Record(t.Context(), value)
	}
	integer.Record(t.Context(), -1)
	integer.Record(t.Context(), 4)
	assert.Equal(t, []float64{2}, got.floats)
	assert.Equal(t, []int64{4}, got.integers)
}

// asking is a meter that keeps what it is asked to make.
type asking struct {
	noop.Meter
	asked []catalogue.Signal
}

func (m *asking) Float64Histogram(name string, options ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	c := metric.NewFloat64HistogramConfig(options...)
	m.asked = append(m.asked, catalogue.Signal{Name: name, Description: c.Description(), Unit: c.Unit(), Boundaries: c.ExplicitBucketBoundaries()})
	return m.Meter.Float64Histogram(name)
}

func (m *asking) Int64Histogram(name string, options ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	c := metric.NewInt64HistogramConfig(options...)
	m.asked = append(m.asked, catalogue.Signal{Name: name, Description: c.Description(), Unit: c.Unit(), Boundaries: c.ExplicitBucketBoundaries()})
	return m.Meter.Int64Histogram(name)
}

func TestHistogramIsThatOfItsRow(t *testing.T) {
	row := catalogue.Signal{Name: "gym.test", Description: "What a test records.", Unit: "ms", Boundaries: []float64{1, 2}}
	var meter asking
	require.NoError(t, new(Float).Make(row, &meter, nil))
	require.NoError(t, new(Int).Make(row, &meter, nil))
	assert.Equal(t, []catalogue.Signal{row, row}, meter.asked)
}
