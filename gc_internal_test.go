package observer

import (
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// ranges are edges as the runtime's own histogram has them.
var ranges = []float64{math.Inf(-1), 0, 64e-9, 128e-9, 1e-3, 1.25e-3, 140737, math.Inf(+1)}

func TestH31InfiniteBucketsGiveFiniteValues(t *testing.T) {
	h := &metrics.Float64Histogram{Counts: []uint64{3, 0, 0, 0, 2, 0, 1}, Buckets: ranges}
	var recorded []float64
	newPauses(h, make([]uint64, len(h.Counts)), maxPausesPerPoll, func(seconds float64) { recorded = append(recorded, seconds) })
	require.Len(t, recorded, 6)
	assert.Equal(t, []float64{0, 0, 0}, recorded[:3], "the bucket from minus infinity counts as 0")
	assert.Equal(t, 140737.0, recorded[5], "the bucket to infinity counts as its lower edge")
	for _, middle := range recorded[3:5] {
		assert.Greater(t, middle, 1e-3)
		assert.Less(t, middle, 1.25e-3)
	}
}

func TestH31PausesReachTheHistogramInMilliseconds(t *testing.T) {
	p := manually(t)
	h := &metrics.Float64Histogram{Counts: []uint64{3, 0, 0, 0, 2, 0, 1}, Buckets: ranges}
	newPauses(h, make([]uint64, len(h.Counts)), maxPausesPerPoll, p.recordPause)
	recorded := p.histogram(t, GCPauseInstrument)
	assert.EqualValues(t, 6, recorded.Count)
	assert.InDelta(t, 140737e3+2*1.125, recorded.Sum, 1e-6)
	minimum, _ := recorded.Min.Value()
	assert.Zero(t, minimum)
}

func TestBucketValue(t *testing.T) {
	for name, test := range map[string]struct{ lower, upper, want float64 }{
		"the middle":                  {1, 1.25, 1.125},
		"from zero":                   {0, 64, 32},
		"from minus infinity":         {math.Inf(-1), 0, 0},
		"to infinity":                 {7, math.Inf(+1), 7},
		"all":                         {math.Inf(-1), math.Inf(+1), 0},
		"below zero":                  {-2, -1, 0},
		"from below zero":             {-3, 1, 0},
		"from below zero to infinity": {-3, math.Inf(+1), 0},
		"the largest":                 {math.MaxFloat64 / 2, math.MaxFloat64, math.MaxFloat64 * 0.75},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, bucketValue(test.lower, test.upper))
		})
	}
}

func TestEveryBucketOfTheRuntimeIsWithinAnEighthOfItsValue(t *testing.T) {
	h := runtimePauses(t)
	for i := range h.Counts {
		lower, upper := h.Buckets[i], h.Buckets[i+1]
		value := bucketValue(lower, upper)
		if lower < 1e-6 || math.IsInf(upper, +1) {
			continue // no pause is as short as that, nor as long
		}
		assert.LessOrEqual(t, value-lower, 0.1251*lower, "from %g to %g", lower, upper)
		assert.LessOrEqual(t, upper-value, 0.1251*upper, "from %g to %g", lower, upper)
	}
}

func TestH32ABucketWhoseCountFellRecordsNothing(t *testing.T) {
	h := &metrics.Float64Histogram{Counts: []uint64{5, 1}, Buckets: []float64{0, 1, 2}}
	var recorded []float64
	seen := newPauses(h, []uint64{4, 9}, maxPausesPerPoll, func(s float64) { recorded = append(recorded, s) })
	assert.Equal(t, []float64{0.5}, recorded)
	assert.Equal(t, []uint64{5, 1}, seen, "the fallen count is the new baseline")

	h.Counts = []uint64{5, 3}
	recorded = nil
	newPauses(h, seen, maxPausesPerPoll, func(s float64) { recorded = append(recorded, s) })
	assert.Equal(t, []float64{1.5, 1.5}, recorded)
}

func TestH32AHistogramWhoseLengthChangedBeginsAnew(t *testing.T) {
	for name, seen := range map[string][]uint64{"none before": nil, "shorter before": {9}, "longer before": {1, 2, 3, 4}} {
		t.Run(name, func(t *testing.T) {
			h := &metrics.Float64Histogram{Counts: []uint64{5, 6}, Buckets: []float64{0, 1, 2}}
			recorded := 0
			count := func(float64) { recorded++ }
			seen := newPauses(h, seen, maxPausesPerPoll, count)
			assert.Zero(t, recorded)
			h.Counts[1]++
			newPauses(h, seen, maxPausesPerPoll, count)
			assert.Equal(t, 1, recorded, "the counts were kept, and not the runtime's own slice")
		})
	}
}

func TestH32ABurstOfPausesIsSpreadOverPolls(t *testing.T) {
	const burst = 100_000
	p := manually(t)
	h := &metrics.Float64Histogram{Counts: []uint64{burst / 2, burst / 2}, Buckets: []float64{1e-5, 2e-5, 3e-5}}
	seen := make([]uint64, 2)
	for poll := range burst / maxPausesPerPoll {
		seen = newPauses(h, seen, maxPausesPerPoll, p.recordPause)
		require.EqualValues(t, (poll+1)*maxPausesPerPoll, p.histogram(t, GCPauseInstrument).Count)
	}

	newPauses(h, seen, maxPausesPerPoll, p.recordPause)
	assert.EqualValues(t, burst, p.histogram(t, GCPauseInstrument).Count, "nothing is left over")
}

func FuzzBucketValue(f *testing.F) {
	for i := range len(ranges) - 1 {
		f.Add(ranges[i], ranges[i+1])
	}
	f.Add(-2.0, 3.0)
	f.Add(-2.0, -1.0)
	f.Add(0.0, math.SmallestNonzeroFloat64)
	f.Add(math.MaxFloat64/2, math.MaxFloat64)
	f.Fuzz(func(t *testing.T, lower, upper float64) {
		if !(lower < upper) {
			t.Skip("no bucket")
		}
		checkValue(t, bucketValue(lower, upper), lower, upper)
	})
}

// checkValue requires a finite value that is not negative and, where the bucket
// has room for one, lies in it.
func checkValue(t *testing.T, value, lower, upper float64) {
	t.Helper()
	require.False(t, math.IsNaN(value) || math.IsInf(value, 0), "%g for %g to %g", value, lower, upper)
	require.GreaterOrEqual(t, value, 0.0)
	if upper >= 0 {
		require.GreaterOrEqual(t, value, lower)
		require.LessOrEqual(t, value, upper)
	}
}

func FuzzNewPauses(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4}, []byte{0, 2, 9, 4}, uint16(5))
	f.Add([]byte{1, 2, 3}, []byte{}, uint16(100))
	f.Add([]byte{200, 200, 200, 200, 200, 200, 200}, []byte{0, 0, 0, 0, 0, 0, 0}, uint16(1))
	f.Fuzz(func(t *testing.T, counts, before []byte, limit uint16) {
		if len(counts) == 0 {
			t.Skip("no histogram")
		}
		h := &metrics.Float64Histogram{Counts: numbersOf(counts), Buckets: []float64{math.Inf(-1)}}
		for i := range len(counts) - 1 {
			h.Buckets = append(h.Buckets, float64(i)*1e-6)
		}
		h.Buckets = append(h.Buckets, math.Inf(+1))

		var fresh uint64
		if len(before) == len(counts) {
			for i := range counts {
				fresh += uint64(max(int(counts[i])-int(before[i]), 0))
			}
		}
		var recorded uint64
		seen := newPauses(h, numbersOf(before), int(limit), func(seconds float64) {
			recorded++
			checkValue(t, seconds, math.Inf(-1), math.Inf(+1))
		})
		require.Equal(t, min(fresh, uint64(limit)), recorded)

		newPauses(h, seen, math.MaxInt, func(float64) { recorded++ })
		require.Equal(t, fresh, recorded, "each is recorded once, in one poll or the next")
	})
}

func numbersOf(bytes []byte) (numbers []uint64) {
	for _, b := range bytes {
		numbers = append(numbers, uint64(b))
	}
	return numbers
}

func TestRatchetHasNoValueAtFirst(t *testing.T) {
	_, ok := new(ratchet).last()
	assert.False(t, ok)
}

func TestH46RatchetNeverGoesDown(t *testing.T) {
	var r ratchet
	for _, step := range []struct{ raise, want float64 }{
		{0, 0}, {2.5, 2.5}, {1, 2.5}, {-1, 2.5}, {math.NaN(), 2.5}, {math.Inf(-1), 2.5}, {0, 2.5}, {1 << 53, 1 << 53},
	} {
		r.raise(step.raise)
		last, ok := r.last()
		assert.True(t, ok)
		assert.Equal(t, step.want, last, "after %g", step.raise)
	}
}

func TestRatchetIgnoresWhatIsNoTotal(t *testing.T) {
	for _, value := range []float64{-1, math.NaN(), math.Inf(-1), math.Inf(+1)} {
		var r ratchet
		r.raise(value)
		_, ok := r.last()
		assert.False(t, ok, "after %g", value)
	}
}

func TestRatchetTakesTheLargestOfManyWriters(t *testing.T) {
	var r ratchet
	var writers sync.WaitGroup
	for writer := range 8 {
		writers.Go(func() {
			last := 0.0
			for i := range 1000 {
				r.raise(float64(i*8 + writer))
				now, _ := r.last()
				assert.GreaterOrEqual(t, now, last)
				last = now
			}
		})
	}
	writers.Wait()
	last, _ := r.last()
	assert.Equal(t, 7999.0, last)
}

func TestObjectsAllocatedSinceTheLastCollection(t *testing.T) {
	var s sinceCollection
	for i, step := range []struct {
		cycle, allocated, want int64
	}{
		{3, 1000, 0},   // what was allocated before is not known
		{3, 1200, 200}, // since then
		{4, 1500, 0},   // a collection is noticed
		{4, 1501, 1},   //
		{4, 1400, 0},   // read before the collection was noticed: not negative
		{3, 1490, 0},   // a reader that is a cycle behind
		{4, 1600, 100}, // it has moved nothing
		{9, 2000, 0},   // five collections between two looks
	} {
		assert.Equal(t, step.want, s.since(step.cycle, step.allocated), "step %d", i)
	}
}

func TestBeforeTheFirstCollectionAllObjectsCount(t *testing.T) {
	var s sinceCollection
	assert.EqualValues(t, 700, s.since(0, 700))
	assert.EqualValues(t, 800, s.since(0, 800))
	assert.EqualValues(t, 0, s.since(1, 900))
}

func TestASampleNoticesACollection(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	m := manually(t)
	runtime.GC()
	m.loop.sample(time.Now())
	for range 10_000 {
		garbage = new([64]byte)
	}
	count := m.collect(t)[GCCountInstrument].(metricdata.Gauge[int64]).DataPoints[0].Value
	assert.InDelta(t, 10_000, count, 1000, "since the collection, and not since this export")
}

var garbage *[64]byte // a place that the compiler cannot do without

func TestH32AMissingRuntimeMetricIsLeftOutAlone(t *testing.T) {
	for missing, lost := range map[int][]string{
		cycles:     {GCCollectionsInstrument, GCCountInstrument},
		frees:      {GCCollectedInstrument},
		allocs:     {GCCountInstrument},
		finalizers: {GCUncollectableInstrument},
	} {
		t.Run(heapMetrics[missing], func(t *testing.T) {
			withoutLastValues(t)
			name := heapMetrics[missing]
			heapMetrics[missing] = "/no/such:metric"
			t.Cleanup(func() { heapMetrics[missing] = name })
			p := manually(t)
			for range 3 {
				names := p.names(t)
				for _, name := range []string{GCCollectionsInstrument, GCCollectedInstrument, GCUncollectableInstrument, GCCountInstrument} {
					if !slices.Contains(lost, name) {
						assert.Contains(t, names, name)
					} else {
						assert.NotContains(t, names, name)
					}
				}
			}
			for _, name := range lost {
				assert.Len(t, p.logged("cause="+name), 1)
			}
		})
	}
}

// withoutLastValues lets the counters be as in a process that has not collected
// metrics yet.
func withoutLastValues(t *testing.T) {
	t.Helper()
	for _, counter := range []*ratchet{&lastCollections, &lastCollected, &lastUncollectable} {
		last := counter.above.Swap(0)
		t.Cleanup(func() { counter.above.Store(max(last, counter.above.Load())) })
	}
}

func TestH32ACounterWhoseMetricIsMissingRepeatsItsLastValue(t *testing.T) {
	i := manually(t)
	last := i.collect(t)[GCCollectedInstrument]
	name := heapMetrics[frees]
	heapMetrics[frees] = "/no/such:metric"
	t.Cleanup(func() { heapMetrics[frees] = name })
	runtime.GC()
	assert.Equal(t, valueOf(last), valueOf(i.collect(t)[GCCollectedInstrument]))
}

func valueOf(data metricdata.Aggregation) int64 {
	return data.(metricdata.Sum[int64]).DataPoints[0].Value
}

func TestH32MissingPausesAreLeftOutAlone(t *testing.T) {
	i := manually(t)
	i.pauses.sample[0].Name = "/no/such:metric"
	for range 3 {
		runtime.GC()
		i.loop.sample(time.Now())
	}
	names := i.names(t)
	assert.NotContains(t, names, GCPauseInstrument)
	assert.Contains(t, names, EventLoopLagInstrument)
	assert.Contains(t, names, GCCollectionsInstrument)
	assert.Len(t, i.logged("cause="+GCPauseInstrument), 1)
}

func TestH32MissingPausesAreLeftOutWhereTheFirstReadingFails(t *testing.T) {
	r := pauseRecorder{sample: [1]metrics.Sample{{Name: "/no/such:metric"}}}
	r.begin()
	err := r.poll(func(float64) { t.Error("recorded") })
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func runtimePauses(t testing.TB) *metrics.Float64Histogram {
	t.Helper()
	sample := []metrics.Sample{{Name: gcPausesMetric}}
	metrics.Read(sample)
	return sample[0].Value.Float64Histogram()
}
