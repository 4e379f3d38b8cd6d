package observable

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/gym-observer/observer/internal/catalogue"
	"github.com/gym-observer/observer/internal/count"
)

var errRefused = errors.New("refused by the test")

// refusing is a meter without one gauge.
type refusing struct {
	metric.Meter
	name string
}

func (m refusing) Float64ObservableGauge(name string, options ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	if name == m.name {
		return nil, errRefused
	}
	return m.Meter.Float64ObservableGauge(name, options...)
}

// observed keeps the values of one collection.
type observed struct {
	noop.Observer
	integers []int64
	floats   []float64
}

func (o *observed) ObserveInt64(_ metric.Int64Observable, value int64, _ ...metric.ObserveOption) {
	o.integers = append(o.integers, value)
}

func (o *observed) ObserveFloat64(_ metric.Float64Observable, value float64, _ ...metric.ObserveOption) {
	o.floats = append(o.floats, value)
}

func TestEveryObservableOfTheCatalogueIsMadeButTheRefused(t *testing.T) {
	whole, err := Rows[int](noop.Meter{}, nil)
	require.NoError(t, err)
	var want []string
	for _, s := range catalogue.Signals {
		if s.Kind != catalogue.Histogram {
			want = append(want, s.Name)
		}
	}
	var made []string
	for _, one := range whole {
		made = append(made, one.Name)
	}
	assert.Equal(t, want, made)
	for _, one := range whole {
		assert.NotNil(t, one.Instrument(), one.Name)
	}

	left, err := Rows[int](refusing{noop.Meter{}, "gym.load"}, nil)
	require.ErrorIs(t, err, errRefused)
	assert.ErrorContains(t, err, "making gym.load")
	assert.Len(t, left, len(whole)-1)
}

func TestPointHasItsValueOrNone(t *testing.T) {
	rows, err := Rows[int](noop.Meter{}, nil)
	require.NoError(t, err)
	row := func(name string) *Row[int] {
		return &rows[slices.IndexFunc(rows, func(r Row[int]) bool { return r.Name == name })]
	}
	integer, fractional := row("gym.gc.collections_total"), row("process.cpu.time")
	var total, none count.Ratchet
	total.Raise(3.5)

	var into observed
	integer.Point(&into).Observe(1)
	require.NoError(t, integer.Point(&into).ObserveUnless(nil, 2))
	require.ErrorIs(t, integer.Point(&into).ObserveUnless(errRefused, 7), errRefused)
	integer.Point(&into).Repeat(&total)
	integer.Point(&into).Repeat(&none)
	assert.Equal(t, []int64{1, 2, 3}, into.integers)

	fractional.Point(&into).ObserveFloat(0.5)
	fractional.Point(&into).Repeat(&total)
	fractional.Point(&into).Repeat(&none)
	assert.Equal(t, []float64{0.5, 3.5}, into.floats)
}

// attributesIn are those that an option brings.
func attributesIn(options []metric.ObserveOption) map[attribute.Key]any {
	all := make(map[attribute.Key]any)
	set := metric.NewObserveConfig(options).Attributes()
	for _, one := range set.ToSlice() {
		all[one.Key] = one.Value.AsInterface()
	}
	return all
}

func TestSetsAreMadeOnce(t *testing.T) {
	var sets Sets
	assert.Equal(t, map[attribute.Key]any{"http.response.status_code": int64(404)}, attributesIn(sets.OfStatus(404)))
	assert.Same(t, &sets.OfStatus(404)[0], &sets.OfStatus(404)[0])

	route := &count.Route{Name: "/run"}
	both := sets.OfRoute(route)
	assert.Same(t, both, sets.OfRoute(route))
	assert.Equal(t, map[attribute.Key]any{"http.route": "/run", "nemo.gym.request.phase": "before_response"}, attributesIn(both.BeforeResponse))
	assert.Equal(t, map[attribute.Key]any{"http.route": "/run", "nemo.gym.request.phase": "response_started"}, attributesIn(both.ResponseStarted))
}
