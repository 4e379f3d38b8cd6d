package kernel_test

import (
	"math"
	"testing"
	"time"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseSchedstat(t *testing.T) {
	times, err := kernel.ParseSchedstat([]byte("81236542 1204811 193\n"))
	require.NoError(t, err)
	assert.Equal(t, kernel.SchedTime{Run: 81236542 * time.Nanosecond, Delay: 1204811 * time.Nanosecond}, times)
}

func TestParseSchedstatNamesBadInput(t *testing.T) {
	for name, c := range map[string]struct{ text, message string }{
		"empty":      {"", `""`},
		"two fields": {"1 2\n", `"1 2\n"`},
		"cut short":  {"81236542 1204811 193", `"81236542 1204811 193"`},
		"negative":   {"1 -2 3\n", `run delay: "-2"`},
		"huge":       {"18446744073709551615 2 3\n", `run time: "18446744073709551615"`},
		"garbage":    {"x y z\n", `"x"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kernel.ParseSchedstat([]byte(c.text))
			require.ErrorContains(t, err, c.message)
		})
	}
}

func FuzzParseSchedstat(f *testing.F) {
	f.Add([]byte("81236542 1204811 193\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		times, _ := kernel.ParseSchedstat(text)
		assert.GreaterOrEqual(t, times.Run, time.Duration(0))
		assert.GreaterOrEqual(t, times.Delay, time.Duration(0))
	})
}

func TestTaskTotal(t *testing.T) {
	type times = map[int]kernel.SchedTime
	reading := func(leftOut int, tasks times) kernel.TaskTimes {
		return kernel.TaskTimes{Tasks: tasks, LeftOut: leftOut}
	}
	for name, c := range map[string]struct {
		readings []kernel.TaskTimes
		want     []kernel.SchedTime // after each
	}{
		"the first reading counts whole": {
			[]kernel.TaskTimes{reading(0, times{1: {10, 1}, 2: {20, 2}})},
			[]kernel.SchedTime{{30, 3}},
		},
		"differences add up": {
			[]kernel.TaskTimes{reading(0, times{1: {10, 1}}), reading(0, times{1: {15, 4}})},
			[]kernel.SchedTime{{10, 1}, {15, 4}},
		},
		"a new thread counts from its start": {
			[]kernel.TaskTimes{reading(0, times{1: {10, 1}}), reading(0, times{1: {10, 1}, 2: {7, 5}})},
			[]kernel.SchedTime{{10, 1}, {17, 6}},
		},
		"a thread that exits keeps what it had": {
			[]kernel.TaskTimes{reading(0, times{1: {10, 1}, 2: {50, 40}}), reading(0, times{1: {11, 1}})},
			[]kernel.SchedTime{{60, 41}, {61, 41}},
		},
		"an id that is used again counts from 0": {
			[]kernel.TaskTimes{
				reading(0, times{1: {10, 1}, 2: {50, 40}}), reading(0, times{1: {10, 1}, 2: {5, 60}}),
			},
			[]kernel.SchedTime{{60, 41}, {65, 101}},
		},
		"an id that comes back counts whole": {
			[]kernel.TaskTimes{
				reading(0, times{1: {10, 1}, 2: {50, 40}}), reading(0, times{1: {10, 1}}),
				reading(0, times{1: {10, 1}, 2: {60, 50}}),
			},
			[]kernel.SchedTime{{60, 41}, {60, 41}, {120, 91}},
		},
		"threads that are left out do as the others": {
			[]kernel.TaskTimes{
				reading(6, times{1: {10, 1}, 2: {20, 2}}), reading(6, times{1: {11, 2}, 2: {22, 4}}),
			},
			[]kernel.SchedTime{{120, 12}, {132, 24}},
		},
		"a thread that may have been left out is no spike": {
			[]kernel.TaskTimes{
				reading(2, times{1: {10, 1}, 2: {10, 1}}),
				reading(2, times{1: {12, 2}, 3: {5000, 4000}}),
				reading(2, times{1: {12, 2}, 3: {5004, 4000}}),
			},
			// 2 of 1 measured thread in 4; then 4 of 2 measured threads in 4.
			[]kernel.SchedTime{{40, 4}, {48, 8}, {56, 8}},
		},
		"no thread could be compared": {
			[]kernel.TaskTimes{reading(1, times{1: {10, 1}}), reading(1, times{2: {99, 99}})},
			[]kernel.SchedTime{{20, 2}, {20, 2}},
		},
		"nothing at all": {
			[]kernel.TaskTimes{{}, {}},
			[]kernel.SchedTime{{}, {}},
		},
		"a total that overflows stays": {
			[]kernel.TaskTimes{
				reading(1, times{1: {math.MaxInt64, math.MaxInt64}}), reading(0, times{7: {5, 5}}),
			},
			[]kernel.SchedTime{{math.MaxInt64, math.MaxInt64}, {math.MaxInt64, math.MaxInt64}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var total kernel.TaskTotal
			for i, reading := range c.readings {
				assert.Equal(t, c.want[i], total.Add(reading), "after reading %d", i+1)
			}
		})
	}
}
