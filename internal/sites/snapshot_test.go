package sites_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/sites"
)

// parked starts n goroutines that wait in a function of their own, and returns
// what ends them.
func parked(n int) (end func()) {
	ended := make(chan struct{})
	var all, started sync.WaitGroup
	started.Add(n)
	for range n {
		all.Go(func() {
			started.Done()
			parkHere(ended)
		})
	}
	started.Wait()
	return func() { close(ended); all.Wait() }
}

//go:noinline
func parkHere(ended <-chan struct{}) { <-ended }

func countOf(stacks []sites.Stack, function string) (count, distinct int) {
	for _, s := range stacks {
		for _, f := range s.Frames {
			if strings.HasSuffix(f.Function, function) {
				count += s.Count
				distinct++
				break
			}
		}
	}
	return count, distinct
}

func TestSnapshotCountsSameStacksTogether(t *testing.T) {
	defer parked(1000)()
	var taker sites.Taker
	require.Eventually(t, func() bool {
		taker.Begin()
		count, waiting := 0, 0 // until all have begun, and wait
		assert.NoError(t, taker.Look(func(stacks []sites.Stack) {
			var distinct int
			count, distinct = countOf(stacks, "sites_test.parkHere")
			for _, s := range stacks {
				assert.False(t, s.Cut)
				if s.Frames[0].Function == "runtime.gopark" {
					if n, _ := countOf([]sites.Stack{s}, "sites_test.parkHere"); n > 0 {
						waiting += n
					}
				}
			}
			assert.LessOrEqual(t, distinct, 4)
			itself, _ := countOf(stacks, "sites.(*Taker).Look")
			assert.Zero(t, itself, "the one that takes it is not in it")
		}))
		return count == 1000 && waiting == 1000
	}, 10*time.Second, time.Millisecond)
	taken, spent := taker.Taken()
	assert.Equal(t, 1, taken)
	assert.Positive(t, spent)
}

func TestSnapshotTellsWhatIsCut(t *testing.T) {
	end := make(chan struct{})
	var all sync.WaitGroup
	for _, calls := range []int{1, 40} {
		all.Go(func() { down(calls, end) })
	}
	defer func() { close(end); all.Wait() }()
	var taker sites.Taker
	require.Eventually(t, func() bool {
		cut := map[bool]int{}
		taker.Begin()
		require.NoError(t, taker.Look(func(stacks []sites.Stack) {
			for _, s := range stacks {
				if n, _ := countOf([]sites.Stack{s}, "sites_test.down"); n > 0 && s.Frames[0].Function == "runtime.gopark" {
					cut[s.Cut] += n
				}
			}
		}))
		return cut[true] == 1 && cut[false] == 1
	}, 10*time.Second, time.Millisecond)
}

func TestSnapshotsKeepToTheirBudget(t *testing.T) {
	defer parked(2000)()
	var taker sites.Taker
	taker.Begin()
	var err error
	for err == nil {
		err = taker.Look(func([]sites.Stack) {})
	}
	require.ErrorIs(t, err, sites.ErrSpent)
	taken, spent := taker.Taken()
	assert.Greater(t, taken, 1)
	assert.Positive(t, spent)
	require.ErrorIs(t, taker.Look(func([]sites.Stack) { t.Error("a snapshot beyond the budget") }), sites.ErrSpent)

	taker.Begin()
	require.NoError(t, taker.Look(func([]sites.Stack) {}), "a window has its own budget")
	taken, _ = taker.Taken()
	assert.Equal(t, 1, taken)
}

func TestNoSnapshotOfTooMany(t *testing.T) {
	defer parked(50_000)()
	var taker sites.Taker
	taker.Begin()
	err := taker.Look(func([]sites.Stack) { t.Error("a snapshot was taken") })
	assert.ErrorContains(t, err, "more than the 50000 up to which a snapshot is taken")
	taken, _ := taker.Taken()
	assert.Zero(t, taken)
}

// While goroutines come and go, a snapshot is whole or an error.
func TestSnapshotOfAChangingProcess(t *testing.T) {
	end := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for !ended(end) {
			var some sync.WaitGroup
			for range 200 {
				some.Go(runtime.Gosched)
			}
			some.Wait()
		}
	})
	defer func() { close(end); all.Wait() }()
	defer parked(100)()
	var taker sites.Taker
	for range 20 {
		taker.Begin()
		err := taker.Look(func(stacks []sites.Stack) {
			count, _ := countOf(stacks, "sites_test.parkHere")
			assert.LessOrEqual(t, count, 100)
			assert.GreaterOrEqual(t, count, 90, "some may not have come there yet")
		})
		if err != nil {
			assert.ErrorContains(t, err, "faster than a snapshot counts them")
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			defer parked(n)()
			reader := newReader()
			var taker sites.Taker
			var survey sites.Survey
			// A window's records are kept until its budget is spent, as in earnest.
			look := func() {
				for taker.Look(func(stacks []sites.Stack) {
					survey.Add(reader.Read(stacks, sites.Now{InFlight: n}))
				}) != nil {
					taker.Begin()
				}
			}
			look()
			b.ReportAllocs()
			for b.Loop() {
				look()
			}
		})
	}
}
