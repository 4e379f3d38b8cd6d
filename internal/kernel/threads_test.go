package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// process is made of threads whose times a test sets.
type process map[int32]SchedTime

// readBy takes one reading, in which the process used cpu so far.
func (p process) readBy(table *threadTable, cpu time.Duration) ThreadTimes {
	table.begin()
	for tid := range p {
		table.list(tid)
	}
	for _, tid := range table.chosen() {
		table.read(tid, p[tid])
	}
	return table.close(cpu)
}

func TestH61TotalOfThreads(t *testing.T) {
	for name, c := range map[string]struct {
		readings []process
		want     []SchedTime // after each
	}{
		"the first reading counts whole": {
			[]process{{1: {10, 1, 4}, 2: {20, 2, 5}}},
			[]SchedTime{{30, 3, 9}},
		},
		"differences add up": {
			[]process{{1: {10, 1, 4}}, {1: {15, 4, 6}}},
			[]SchedTime{{10, 1, 4}, {15, 4, 6}},
		},
		"a new thread counts from its start": {
			[]process{{1: {10, 1, 1}}, {1: {10, 1, 1}, 2: {7, 5, 3}}},
			[]SchedTime{{10, 1, 1}, {17, 6, 4}},
		},
		"a thread that exits keeps what it had": {
			[]process{{1: {10, 1, 1}, 2: {50, 40, 30}}, {1: {11, 1, 1}}},
			[]SchedTime{{60, 41, 31}, {61, 41, 31}},
		},
		"an id that is used again counts from 0": {
			[]process{{1: {10, 1, 1}, 2: {50, 40, 30}}, {1: {10, 1, 1}, 2: {5, 60, 2}}},
			[]SchedTime{{60, 41, 31}, {65, 101, 33}},
		},
		"an id that comes back counts whole": {
			[]process{{1: {10, 1, 1}, 2: {50, 40, 30}}, {1: {10, 1, 1}}, {1: {10, 1, 1}, 2: {60, 50, 40}}},
			[]SchedTime{{60, 41, 31}, {60, 41, 31}, {120, 91, 71}},
		},
		"a thread that waits and never runs counts": {
			[]process{{1: {10, 1, 1}}, {1: {10, 9, 1}}},
			[]SchedTime{{10, 1, 1}, {10, 9, 1}},
		},
		"nothing at all": {
			[]process{{}, {}},
			[]SchedTime{{}, {}},
		},
		"a total that overflows stays": {
			[]process{{1: {math.MaxInt64, math.MaxInt64, math.MaxInt64}}, {7: {5, 5, 5}}},
			[]SchedTime{{math.MaxInt64, math.MaxInt64, math.MaxInt64}, {math.MaxInt64, math.MaxInt64, math.MaxInt64}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var table threadTable
			for i, p := range c.readings {
				got := p.readBy(&table, 0)
				assert.Equal(t, c.want[i], got.SchedTime, "after reading %d", i+1)
				assert.True(t, got.Whole, "all of a few threads are read")
			}
		})
	}
}

// A thousand threads that sleep, and two with all the delay: whatever the ids of
// the two, they are read.
func TestH61FewThreadsHaveAllTheDelay(t *testing.T) {
	p := process{}
	for tid := range int32(1_006) {
		p[tid+1] = SchedTime{Run: time.Millisecond, Slices: 1}
	}
	var table threadTable
	before := p.readBy(&table, 0)
	for _, tid := range []int32{17, 902} {
		p[tid] = SchedTime{Run: 5 * time.Second, Delay: 4_700 * time.Millisecond, Slices: 900}
	}
	after := p.readBy(&table, 0)
	assert.Equal(t, 9_400*time.Millisecond, after.Delay-before.Delay)
	assert.Equal(t, int64(1_798), after.Slices-before.Slices)
	assert.True(t, after.Whole)
}

// manyThreads lives on for a number of windows, with threads in each that run,
// and returns the readings beside the truth of each window.
func manyThreads(t *testing.T, threads, windows int, runs func(window int) []int32) (readings []ThreadTimes, truth []time.Duration) {
	t.Helper()
	p := process{}
	for tid := range int32(threads) {
		p[tid+1] = SchedTime{Run: time.Hour, Delay: time.Hour, Slices: 1_000}
	}
	cpu := 10 * time.Hour
	var table threadTable
	for window := range windows {
		var delayed time.Duration
		for _, tid := range runs(window) {
			now := p[tid]
			p[tid] = SchedTime{now.Run + time.Second, now.Delay + 3*time.Second, now.Slices + 10}
			cpu += time.Second
			delayed += 3 * time.Second
		}
		readings = append(readings, p.readBy(&table, cpu))
		truth = append(truth, delayed)
		require.LessOrEqual(t, len(table.choice), MaxThreads)
	}
	return readings, truth
}

func TestH61MoreThreadsThanAReadingTakes(t *testing.T) {
	readings, truth := manyThreads(t, 20_000, 40, func(int) []int32 { return []int32{3, 4_000, 9_999, 19_998} })
	for window := 1; window < len(readings); window++ {
		grown := readings[window].Delay - readings[window-1].Delay
		if readings[window].Whole {
			assert.InEpsilon(t, truth[window], grown, 0.1, "window %d", window)
		}
		if window > 2*20_000/MaxThreads+1 { // round once to begin with, once to see who runs
			assert.True(t, readings[window].Whole, "window %d", window)
		}
	}
	assert.False(t, readings[0].Whole, "nothing to compare with")
}

// Whoever wakes up now has slept for long: what is read is right, or it is said
// that it is not.
func TestH61AnyOfManyThreadsWakesUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	readings, truth := manyThreads(t, 8_000, 200, func(window int) []int32 {
		if window%10 != 0 {
			return []int32{7, 5_000}
		}
		return []int32{7, 5_000, 8 + random.Int32N(4_000), 5_001 + random.Int32N(2_000)}
	})
	whole := 0
	for window := 1; window < len(readings); window++ {
		if readings[window].Whole {
			whole++
			grown := readings[window].Delay - readings[window-1].Delay
			assert.InEpsilon(t, truth[window], grown, 0.15, "window %d", window)
		}
	}
	assert.Greater(t, whole, len(readings)/2, "most windows have no surprise")
}

func TestH61MoreThreadsRunThanAReadingTakes(t *testing.T) {
	readings, _ := manyThreads(t, 10_000, 30, func(int) []int32 {
		all := make([]int32, 10_000)
		for i := range all {
			all[i] = int32(i + 1)
		}
		return all
	})
	for window, reading := range readings {
		assert.False(t, reading.Whole, "window %d", window)
	}
}

func TestH61ThreadsBecomeManyAndFewAgain(t *testing.T) {
	p := process{1: {10, 1, 1}}
	var table threadTable
	p.readBy(&table, 10)
	for tid := range int32(5_000) { // new ones: all that they did is new
		p[100+tid] = SchedTime{Run: 2, Delay: 2, Slices: 1}
	}
	for range 3 {
		p.readBy(&table, 10_010)
	}
	for tid := range int32(5_000) {
		delete(p, 100+tid)
	}
	p[1] = SchedTime{11, 2, 2}
	got := p.readBy(&table, 10_011)
	assert.Equal(t, SchedTime{10_011, 10_002, 5_002}, got.SchedTime)
	assert.True(t, got.Whole)
	assert.Len(t, table.threads, 1, "those that have exited are forgotten")
}

func TestRunTimeAccountsForTheProcess(t *testing.T) {
	assert.True(t, accountsFor(10*time.Second, 10*time.Second))
	assert.True(t, accountsFor(9_100*time.Millisecond, 10*time.Second))
	assert.False(t, accountsFor(8*time.Second, 10*time.Second))
	assert.False(t, accountsFor(12*time.Second, 10*time.Second), "some of it is from before")
	assert.True(t, accountsFor(0, 10*time.Millisecond), "an idle process")
}
