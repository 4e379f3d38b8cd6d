package reading

import (
	"errors"
	"math"
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ranges are edges as the runtime's own histogram has them.
var ranges = []float64{math.Inf(-1), 0, 64e-9, 128e-9, 1e-3, 1.25e-3, 140737, math.Inf(+1)}

func TestH31InfiniteBucketsGiveFiniteValues(t *testing.T) {
	h := &metrics.Float64Histogram{Counts: []uint64{3, 0, 0, 0, 2, 0, 1}, Buckets: ranges}
	var recorded []float64
	newPauses(h, make([]uint64, len(h.Counts)), maxPausesPerPoll, into(&recorded))
	require.Len(t, recorded, 6)
	assert.Equal(t, []float64{0, 0, 0}, recorded[:3], "the bucket from minus infinity counts as 0")
	assert.Equal(t, 140737.0, recorded[5], "the bucket to infinity counts as its lower edge")
	for _, middle := range recorded[3:5] {
		assert.Greater(t, middle, 1e-3)
		assert.Less(t, middle, 1.25e-3)
	}
}

// into returns what appends what is recorded to a list.
func into(recorded *[]float64) func(float64) bool {
	return func(seconds float64) bool {
		*recorded = append(*recorded, seconds)
		return true
	}
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
	seen := newPauses(h, []uint64{4, 9}, maxPausesPerPoll, into(&recorded))
	assert.Equal(t, []float64{0.5}, recorded)
	assert.Equal(t, []uint64{5, 1}, seen, "the fallen count is the new baseline")

	h.Counts = []uint64{5, 3}
	recorded = nil
	newPauses(h, seen, maxPausesPerPoll, into(&recorded))
	assert.Equal(t, []float64{1.5, 1.5}, recorded)
}

func TestH32AHistogramWhoseLengthChangedBeginsAnew(t *testing.T) {
	for name, seen := range map[string][]uint64{"none before": nil, "shorter before": {9}, "longer before": {1, 2, 3, 4}} {
		t.Run(name, func(t *testing.T) {
			h := &metrics.Float64Histogram{Counts: []uint64{5, 6}, Buckets: []float64{0, 1, 2}}
			recorded := 0
			count := func(float64) bool { recorded++; return true }
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
	h := &metrics.Float64Histogram{Counts: []uint64{burst / 2, burst / 2}, Buckets: []float64{1e-5, 2e-5, 3e-5}}
	seen := make([]uint64, 2)
	var recorded []float64
	for poll := range burst / maxPausesPerPoll {
		seen = newPauses(h, seen, maxPausesPerPoll, into(&recorded))
		require.Len(t, recorded, (poll+1)*maxPausesPerPoll)
	}

	newPauses(h, seen, maxPausesPerPoll, into(&recorded))
	assert.Len(t, recorded, burst, "nothing is left over")
}

func TestPausesThatCannotBeRecordedAreLeftToTheNextPoll(t *testing.T) {
	h := &metrics.Float64Histogram{Counts: []uint64{2, 0, 3}, Buckets: []float64{0, 2, 4, 6}}
	for room := range 7 {
		var recorded []float64
		seen := newPauses(h, make([]uint64, 3), maxPausesPerPoll, func(seconds float64) bool {
			if len(recorded) == room {
				return false
			}
			recorded = append(recorded, seconds)
			return true
		})
		assert.Len(t, recorded, min(room, 5))
		newPauses(h, seen, maxPausesPerPoll, into(&recorded))
		assert.Equal(t, []float64{1, 1, 5, 5, 5}, recorded, "with room for %d at first", room)
	}
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
		seen := newPauses(h, numbersOf(before), int(limit), func(seconds float64) bool {
			recorded++
			checkValue(t, seconds, math.Inf(-1), math.Inf(+1))
			return true
		})
		require.Equal(t, min(fresh, uint64(limit)), recorded)

		newPauses(h, seen, math.MaxInt, func(float64) bool { recorded++; return true })
		require.Equal(t, fresh, recorded, "each is recorded once, in one poll or the next")
	})
}

func numbersOf(bytes []byte) (numbers []uint64) {
	for _, b := range bytes {
		numbers = append(numbers, uint64(b))
	}
	return numbers
}

func TestPollRecordsThePausesSinceTheLastOne(t *testing.T) {
	var p Pauses
	p.Begin()
	var recorded []float64
	for range 3 {
		runtime.GC()
	}
	require.NoError(t, p.Poll(into(&recorded)))
	assert.GreaterOrEqual(t, len(recorded), 3, "a collection stops the world at least once")
	for _, seconds := range recorded {
		checkValue(t, seconds, 0, math.Inf(+1))
	}

	runtime.GC()
	total := uint64(0)
	for _, count := range runtimePauses(t).Counts {
		total += count
	}
	p.Begin()
	after := uint64(0)
	require.NoError(t, p.Poll(func(float64) bool { after++; return true }))
	for _, count := range runtimePauses(t).Counts {
		total -= count // wraps around where there were more since
	}
	assert.LessOrEqual(t, after, -total, "what happened before Begin is not recorded")
}

// Samplers take turns, and the one before may be stuck in the provider.
func TestNobodyWaitsForAPollThatIsStuck(t *testing.T) {
	var p Pauses
	p.Begin()
	runtime.GC()
	stuck := 0
	require.NoError(t, p.Poll(func(float64) bool {
		stuck++
		p.Begin()
		assert.NoError(t, p.Poll(func(float64) bool { t.Error("recorded twice"); return true }))
		return true
	}))
	assert.Positive(t, stuck)
}

func TestH32MissingPausesAreAnErrorAtEachPoll(t *testing.T) {
	p := Pauses{Metric: "/no/such:metric"}
	p.Begin()
	for range 2 {
		err := p.Poll(func(float64) bool { t.Error("recorded"); return true })
		require.ErrorIs(t, err, errors.ErrUnsupported)
		assert.ErrorContains(t, err, "/no/such:metric")
	}
}

func runtimePauses(t testing.TB) *metrics.Float64Histogram {
	t.Helper()
	sample := []metrics.Sample{{Name: PausesMetric}}
	metrics.Read(sample)
	return sample[0].Value.Float64Histogram()
}
