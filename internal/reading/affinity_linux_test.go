package reading

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gym-observer/observer/internal/number"
)

// keptTo lets the test's thread run on n processors, and returns their numbers.
// The thread ends with the test, since it is not unlocked.
func keptTo(t *testing.T, n int) (processors []int) {
	t.Helper()
	runtime.LockOSThread()
	var all, some unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	if all.Count() < 2 {
		t.Skip("needs two processors")
	}
	for processor := 0; len(processors) < n; processor++ {
		if all.IsSet(processor) {
			some.Set(processor)
			processors = append(processors, processor)
		}
	}
	require.NoError(t, unix.SchedSetaffinity(0, &some))
	t.Cleanup(func() { assert.NoError(t, unix.SchedSetaffinity(0, &all)) })
	return processors
}

func TestH63TheMaskWidensAndNarrowsWhileTheProcessRuns(t *testing.T) {
	m := newMachine(files(map[string]string{"proc/self/cgroup": "", "proc/self/mountinfo": ""}), ownTasks)
	quota := unifiedTree()
	quota["sys/fs/cgroup/pod/cpu.max"] = "150000 100000\n"
	limited := newMachine(files(quota), ownTasks)
	limits := func() [2]float64 {
		without, _ := m.CPULimit() // the groups are not known
		with, err := limited.CPULimit()
		require.NoError(t, err)
		return [2]float64{without, with}
	}
	for _, step := range []struct {
		processors int
		want       [2]float64
	}{{1, [2]float64{1, 1}}, {2, [2]float64{2, 1.5}}, {1, [2]float64{1, 1}}} {
		t.Run(fmt.Sprintf("to %d", step.processors), func(t *testing.T) {
			keptTo(t, step.processors)
			assert.Equal(t, step.want, limits())
		})
	}
}

// procStat is a /proc/stat of processors that have run and been idle for so many
// ticks, by number.
func procStat(processors map[int][2]int) *fstest.MapFile {
	var text strings.Builder
	text.WriteString("cpu 1000 0 0 3000 0 0 0 40 0 0\n")
	var numbers []int
	for processor := range processors {
		numbers = append(numbers, processor)
	}
	slices.Sort(numbers)
	for _, processor := range numbers {
		fmt.Fprintf(&text, "cpu%d %d 0 0 %d 0 0 0 0 0 0\n", processor, processors[processor][0], processors[processor][1])
	}
	return &fstest.MapFile{Data: []byte(text.String())}
}

func TestH63IdleIsTheShareOfTheProcessorsInTheMask(t *testing.T) {
	processor := keptTo(t, 1)[0]
	other := processor + 1
	fsys := fstest.MapFS{}
	m := newMachine(fsys, ownTasks)
	for i, step := range []struct {
		mine, other [2]int // ran, idle
		want        number.Number
	}{
		{[2]int{100, 100}, [2]int{100, 100}, number.Number{}}, // nothing to compare with
		{[2]int{175, 125}, [2]int{100, 900}, number.Known(0.25)},
		{[2]int{175, 125}, [2]int{200, 900}, number.Number{}}, // no time has passed there
		{[2]int{175, 225}, [2]int{900, 900}, number.Known(1)},
		{[2]int{275, 225}, [2]int{900, 999}, number.Known(0)},
	} {
		fsys["proc/stat"] = procStat(map[int][2]int{processor: step.mine, other: step.other})
		spent, err := m.Processors()
		require.NoError(t, err)
		assert.Equal(t, step.want, spent.Idle, "reading %d", i+1)
		assert.Equal(t, number.Known(40), spent.Steal)
		assert.Equal(t, number.Known(4040), spent.Total)
	}

	fsys["proc/stat"] = procStat(map[int][2]int{other: {1000, 1000}})
	spent, err := m.Processors()
	require.NoError(t, err)
	assert.False(t, spent.Idle.IsKnown(), "the file speaks of other processors than the mask")
	assert.Equal(t, number.Known(4040), spent.Total, "the totals are known all the same")
}

func TestAGarbledProcessorLeavesTheTotals(t *testing.T) {
	processor := keptTo(t, 1)[0]
	fsys := fstest.MapFS{"proc/stat": procStat(map[int][2]int{processor: {100, 100}})}
	m := newMachine(fsys, ownTasks)
	_, err := m.Processors()
	require.NoError(t, err)

	fsys["proc/stat"] = &fstest.MapFile{Data: []byte("cpu 1000 0 0 3000 0 0 0 40 0 0\ncpu0 garbage\n")}
	spent, err := m.Processors()
	require.Error(t, err)
	assert.Equal(t, number.Known(4040), spent.Total)
	assert.False(t, spent.Idle.IsKnown())

	for i, want := range []number.Number{{}, number.Known(0.5)} {
		fsys["proc/stat"] = procStat(map[int][2]int{processor: {200 + 100*i, 200 + 100*i}})
		spent, err = m.Processors()
		require.NoError(t, err)
		assert.Equal(t, want, spent.Idle, "reading %d after it", i+1)
	}
}
