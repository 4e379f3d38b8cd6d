package kernel_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const fourProcessors = `cpu  100 0 20 800 40 0 1 39 0 0
cpu0 10 0 5 80 0 0 0 5 0 0
cpu1 20 1 5 70 4 0 1 5 0 0
cpu3 70 0 10 0 0 0 0 20 0 0
intr 15378 0 9 0
cpu7 in a later line is not one
`

func TestParseProcessors(t *testing.T) {
	processors, err := kernel.ParseProcessors([]byte(fourProcessors), nil)
	require.NoError(t, err)
	assert.Equal(t, kernel.Processors{
		{Idle: 80, Steal: 5, Total: 100}, {Idle: 74, Steal: 5, Total: 106}, {}, {Idle: 0, Steal: 20, Total: 100},
	}, processors)

	// With memory to use again it allocates nothing.
	text := []byte(fourProcessors)
	assert.Zero(t, testing.AllocsPerRun(100, func() { processors, err = kernel.ParseProcessors(text, processors) }))
	require.NoError(t, err)
	assert.Equal(t, int64(100), processors[3].Total)
}

func TestParseProcessorsNamesBadInput(t *testing.T) {
	for name, c := range map[string]struct{ text, message string }{
		"empty":      {"", "no line of a processor"},
		"all only":   {"cpu  1 2 3 4 5 6 7 8 9 10\n", "no line of a processor"},
		"cut short":  {"cpu0 1 2 3 4 5 6 7 8", `processor 0: fewer than 8 times in "1 2 3 4 5 6 7 8"`},
		"too few":    {"cpu0 1 2 3 4\n", `processor 0: fewer than 8 times`},
		"negative":   {"cpu1 1 2 3 -4 5 6 7 8 9\n", `processor 1: time 4: "-4"`},
		"huge":       {"cpu9000 1 2 3 4 5 6 7 8 9\n", `no processor's number in "9000 1`},
		"no number":  {"cpux 1 2 3 4 5 6 7 8 9\n", `no processor's number in "x 1`},
		"no spacing": {"cpu0\n", `no processor's number in "0\n"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kernel.ParseProcessors([]byte(c.text), nil)
			require.ErrorContains(t, err, c.message)
		})
	}
}

// processors has one processor for each share that was idle of a hundred ticks.
func processors(idle ...int64) kernel.Processors {
	var made kernel.Processors
	for _, ticks := range idle {
		made = append(made, kernel.ProcessorTime{Idle: 1000 + ticks, Steal: 10, Total: 5100})
	}
	return made
}

func TestH63IdleShareIsOfTheProcessorsInTheMask(t *testing.T) {
	before := kernel.Processors{{1000, 5, 5000}, {1000, 5, 5000}, {1000, 5, 5000}}
	after := processors(90, 10, 0)
	for name, c := range map[string]struct {
		mask kernel.CPUMask
		want float64
	}{
		"one that is idle":   {kernel.CPUMask{0b001}, 0.9},
		"one that is busy":   {kernel.CPUMask{0b100}, 0},
		"two":                {kernel.CPUMask{0b011}, 0.5},
		"all, and more bits": {kernel.CPUMask{0b111, 0}, 1.0 / 3},
	} {
		t.Run(name, func(t *testing.T) {
			share, known := after.Since(before, c.mask)
			require.True(t, known)
			assert.InDelta(t, c.want, share.Idle, 1e-9)
			assert.InDelta(t, 0.05, share.Steal, 1e-9)
		})
	}
}

func TestH63IdleShareThatCannotBeKnown(t *testing.T) {
	after := processors(90, 10)
	for name, c := range map[string]struct {
		before kernel.Processors
		mask   kernel.CPUMask
	}{
		"no reading before":            {nil, kernel.CPUMask{0b01}},
		"a processor that came":        {kernel.Processors{{1000, 0, 5000}}, kernel.CPUMask{0b11}},
		"a processor that was off":     {kernel.Processors{{1000, 0, 5000}, {}}, kernel.CPUMask{0b11}},
		"no time passed":               {after, kernel.CPUMask{0b11}},
		"a mask with other numbers":    {kernel.Processors{{1, 0, 1}, {1, 0, 1}}, kernel.CPUMask{0b10001}},
		"a mask with none of them":     {kernel.Processors{{1, 0, 1}, {1, 0, 1}}, kernel.CPUMask{0, 1}},
		"a mask of nothing, or no one": {kernel.Processors{{1, 0, 1}, {1, 0, 1}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, known := after.Since(c.before, c.mask)
			assert.False(t, known)
		})
	}
}

func TestIdleTimeThatGoesBack(t *testing.T) {
	share, known := kernel.Processors{{990, 5, 5100}}.Since(kernel.Processors{{1000, 6, 5000}}, kernel.CPUMask{1})
	require.True(t, known)
	assert.Equal(t, kernel.ProcessorShare{}, share)
}

func TestCPUMask(t *testing.T) {
	mask := kernel.CPUMask{1 << 63, 0b101}
	assert.Equal(t, 3, mask.Count())
	var has []int
	for processor := -1; processor < 200; processor++ {
		if mask.Has(processor) {
			has = append(has, processor)
		}
	}
	assert.Equal(t, []int{63, 64, 66}, has)
}

func TestProcessorsOfThisMachine(t *testing.T) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Skip("needs /proc/stat")
	}
	found, err := kernel.ParseProcessors(text, nil)
	require.NoError(t, err)
	lines := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "cpu") && !strings.HasPrefix(line, "cpu ") {
			lines++
		}
	}
	there := 0
	for _, processor := range found {
		if processor.Total > 0 {
			there++
		}
	}
	assert.Equal(t, lines, there)
	assert.LessOrEqual(t, runtime.NumCPU(), there)
}

func FuzzParseProcessors(f *testing.F) {
	f.Add([]byte(fourProcessors))
	f.Fuzz(func(t *testing.T, text []byte) {
		processors, _ := kernel.ParseProcessors(text, nil)
		for i, processor := range processors {
			assert.GreaterOrEqual(t, processor.Idle, int64(0), fmt.Sprint(i))
			assert.GreaterOrEqual(t, processor.Total, processor.Steal)
			assert.GreaterOrEqual(t, processor.Total, processor.Idle)
		}
	})
}
