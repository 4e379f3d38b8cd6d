package reading

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestObjectsAllocatedSinceTheLastCollection(t *testing.T) {
	var s SinceCollection
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
	var s SinceCollection
	assert.EqualValues(t, 700, s.since(0, 700))
	assert.EqualValues(t, 800, s.since(0, 800))
	assert.EqualValues(t, 0, s.since(1, 900))
}

func TestReadersNoticeACollectionOnce(t *testing.T) {
	var s SinceCollection
	s.since(1, 1000)
	var readers sync.WaitGroup
	for i := range 8 {
		readers.Go(func() {
			assert.LessOrEqual(t, s.since(2, int64(2000+i)), int64(7), "objects that were allocated before the collection do not count")
		})
	}
	readers.Wait()
	assert.LessOrEqual(t, s.since(2, 2007), int64(7))
}

func TestHeapTotalsGrowWithTheHeap(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var totals HeapTotals
	get := func(i int) int64 {
		value, err := totals.Get(i)
		require.NoError(t, err)
		return value
	}
	totals.Read()
	cycles, allocated, freed := get(Collections), get(Allocated), get(Freed)
	assert.GreaterOrEqual(t, get(Finalizers), int64(0))
	for range 10_000 {
		garbage = new([64]byte)
	}
	runtime.GC()
	totals.Read()
	assert.Greater(t, get(Collections), cycles)
	assert.GreaterOrEqual(t, get(Allocated)-allocated, int64(10_000))
	assert.GreaterOrEqual(t, get(Freed)-freed, int64(9_000))
}

var garbage *[64]byte // a place that the compiler cannot do without

func TestNoticeCountsSinceTheCollection(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var totals HeapTotals
	var s SinceCollection
	runtime.GC()
	totals.ReadAllocated()
	since, err := s.Notice(&totals)
	require.NoError(t, err)
	assert.Zero(t, since)
	for range 10_000 {
		garbage = new([64]byte)
	}
	totals.ReadAllocated()
	since, err = s.Notice(&totals)
	require.NoError(t, err)
	assert.InDelta(t, 10_000, since, 1000)
}

func TestReadingTheHeapAllocatesNothing(t *testing.T) {
	var totals HeapTotals
	assert.Zero(t, testing.AllocsPerRun(100, func() { totals.Read(); totals.ReadAllocated() }))
}

func TestH32AMissingTotalIsMissingAlone(t *testing.T) {
	for missing, name := range heapMetrics {
		t.Run(name, func(t *testing.T) {
			heapMetrics[missing] = "/no/such:metric"
			defer func() { heapMetrics[missing] = name }()
			var totals HeapTotals
			totals.Read()
			for i := range heapMetrics {
				_, err := totals.Get(i)
				if i == missing {
					assert.ErrorIs(t, err, errors.ErrUnsupported)
					assert.ErrorContains(t, err, "/no/such:metric")
				} else {
					assert.NoError(t, err)
				}
			}
			_, err := new(SinceCollection).Notice(&totals)
			if missing == Collections || missing == Allocated {
				assert.ErrorIs(t, err, errors.ErrUnsupported)
			} else {
				assert.NoError(t, err)
			}
		})
	}
}

func TestNothingIsKnownBeforeTheFirstReading(t *testing.T) {
	_, err := new(HeapTotals).Get(Collections)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
}
