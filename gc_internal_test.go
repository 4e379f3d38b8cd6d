package observer

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer/internal/count"
	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/observable"
	"github.com/gym-observer/observer/internal/reading"
	"github.com/gym-observer/observer/internal/record"
)

func TestH31PausesReachTheHistogramInMilliseconds(t *testing.T) {
	m := manually(t)
	m.sampler.gc.begin()
	for range 3 {
		runtime.GC()
	}
	pauses, all, err := m.sampler.gc.poll(m.sampler.recorder.Load())
	assert.NoError(t, err)
	assert.True(t, all)
	recorded := m.histogram(t, GCPauseInstrument)
	assert.GreaterOrEqual(t, pauses.Count, int64(3), "a collection stops the world at least once")
	assert.EqualValues(t, pauses.Count, recorded.Count)
	// A sample keeps whole nanoseconds, of which each pause may lose one.
	assert.InDelta(t, record.Milliseconds(pauses.Sum), recorded.Sum, float64(pauses.Count)*1e-6)
	longest, _ := recorded.Max.Value()
	assert.InDelta(t, record.Milliseconds(pauses.Longest), longest, 1e-6)
}

// hearing is a histogram that calls a function with each value.
type hearing struct {
	noop.Float64Histogram
	heard func(value float64)
}

func (h hearing) Record(_ context.Context, value float64, _ ...metric.RecordOption) { h.heard(value) }

// The pauses of a burst need more room than there is, behind a provider that hangs.
func TestH32PausesThatFindNoRoomAreLeftToTheNextPoll(t *testing.T) {
	hangs, free := make(chan struct{}, 1), make(chan struct{})
	heard := 0 // on the ring's goroutine, until passOn
	to := newRecorder(&histograms{gcPause: record.Float{To: hearing{heard: func(value float64) {
		select {
		case hangs <- struct{}{}:
		default:
		}
		<-free
		if value >= 0 {
			heard++
		}
	}}}})
	t.Cleanup(func() { to.Stop(time.Now().Add(10 * time.Second)) })
	fill := func() {
		for to.Samples.TryPut(record.OfFloat(context.Background(), &to.gcPause, -1, nil)) {
		}
	}
	fill() // half of that wakes the ring, which takes one
	<-hangs
	fill()

	var g gcRecorder
	g.begin()
	for range 3 {
		runtime.GC()
	}
	pauses, all, err := g.poll(to)
	require.NoError(t, err)
	assert.False(t, all)
	assert.Equal(t, diagnosis.Pauses{}, pauses, "none is told before it is recorded")

	close(free)
	require.True(t, to.PassOn(10*time.Second))
	assert.Zero(t, heard)
	pauses, all, err = g.poll(to)
	require.NoError(t, err)
	assert.True(t, all)
	assert.GreaterOrEqual(t, pauses.Count, int64(3))
	require.True(t, to.PassOn(10*time.Second))
	assert.EqualValues(t, pauses.Count, heard)
}

func TestASampleNoticesACollection(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	m := manually(t)
	runtime.GC()
	m.loop.sample(time.Now())
	for range 10_000 {
		garbage = new([64]byte)
	}
	objects := m.collect(t)[GCCountInstrument].(metricdata.Gauge[int64]).DataPoints[0].Value
	assert.InDelta(t, 10_000, objects, 1000, "since the collection, and not since this export")
}

var garbage *[64]byte // a place that the compiler cannot do without

// withoutHeapTotals lets signals be as in a Go that does not offer what they are
// read from.
func (m *manual) withoutHeapTotals(t testing.TB, signals ...string) {
	t.Helper()
	for _, signal := range signals {
		found := false
		for i := range m.collector.observables {
			row := &m.collector.observables[i]
			if row.Name != signal {
				continue
			}
			found = true
			read := row.Read
			row.Read = func(c *collection, to observable.Point) error {
				whole := c.heap
				defer func() { c.heap = whole }()
				c.heap = reading.HeapTotals{}
				return read(c, to)
			}
		}
		require.True(t, found, signal)
	}
}

func TestH32AMissingRuntimeMetricIsLeftOutAlone(t *testing.T) {
	everything := []string{GCCollectionsInstrument, GCCollectedInstrument, GCUncollectableInstrument, GCCountInstrument}
	for missing, lost := range map[string][]string{
		"cycles":     {GCCollectionsInstrument, GCCountInstrument},
		"frees":      {GCCollectedInstrument},
		"allocs":     {GCCountInstrument},
		"finalizers": {GCUncollectableInstrument},
	} {
		t.Run(missing, func(t *testing.T) {
			for _, counter := range []*count.Ratchet{&totals.collections, &totals.collected, &totals.uncollectable} {
				t.Cleanup(counter.Forget()) // as in a process that has not collected metrics yet
			}
			m := manually(t)
			m.withoutHeapTotals(t, lost...)
			for range 3 {
				names := m.names(t)
				for _, name := range everything {
					if slices.Contains(lost, name) {
						assert.NotContains(t, names, name)
					} else {
						assert.Contains(t, names, name)
					}
				}
			}
			for _, name := range lost {
				assert.Len(t, m.log.Of("cause="+name), 1)
			}
		})
	}
}

func TestH32ACounterWhoseMetricIsMissingRepeatsItsLastValue(t *testing.T) {
	m := manually(t)
	last := m.collect(t)[GCCollectedInstrument]
	m.withoutHeapTotals(t, GCCollectedInstrument)
	runtime.GC()
	assert.Equal(t, valueOf(last), valueOf(m.collect(t)[GCCollectedInstrument]))
	assert.Positive(t, valueOf(last))
}

func valueOf(data metricdata.Aggregation) int64 {
	return data.(metricdata.Sum[int64]).DataPoints[0].Value
}

func TestH32MissingPausesAreLeftOutAlone(t *testing.T) {
	m := manually(t)
	m.sampler.gc.pauses.Metric = "/no/such:metric"
	for range 3 {
		runtime.GC()
		m.loop.sample(time.Now())
	}
	names := m.names(t)
	assert.NotContains(t, names, GCPauseInstrument)
	assert.Contains(t, names, EventLoopLagInstrument)
	assert.Contains(t, names, GCCollectionsInstrument)
	assert.Len(t, m.log.Of("cause="+GCPauseInstrument), 1)
}
