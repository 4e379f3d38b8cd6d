package kernel_test

import (
	"testing"
	"time"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseSchedstat(t *testing.T) {
	want := kernel.SchedTime{Run: 81236542 * time.Nanosecond, Delay: 1204811 * time.Nanosecond, Slices: 193}
	for _, text := range []string{"81236542 1204811 193\n", "81236542 1204811 193 and what a later kernel adds\n"} {
		times, err := kernel.ParseSchedstat([]byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, want, times, text)
	}
}

func TestParseSchedstatNamesBadInput(t *testing.T) {
	for name, c := range map[string]struct{ text, message string }{
		"empty":      {"", `""`},
		"two fields": {"1 2\n", `"1 2\n"`},
		"cut short":  {"81236542 1204811 193", `"81236542 1204811 193"`},
		"negative":   {"1 -2 3\n", `run delay: "-2"`},
		"huge":       {"18446744073709551615 2 3\n", `run time: "18446744073709551615"`},
		"slices":     {"1 2 x\n", `time slices: "x"`},
		"garbage":    {"x y z\n", `"x"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kernel.ParseSchedstat([]byte(c.text))
			require.ErrorContains(t, err, c.message)
		})
	}
}

func TestParseSchedstatAllocatesNothing(t *testing.T) {
	text := []byte("81236542123 1204811 193\n")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := kernel.ParseSchedstat(text); err != nil {
			t.Fatal(err)
		}
	}))
}

func FuzzParseSchedstat(f *testing.F) {
	f.Add([]byte("81236542 1204811 193\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		times, _ := kernel.ParseSchedstat(text)
		assert.GreaterOrEqual(t, times.Run, time.Duration(0))
		assert.GreaterOrEqual(t, times.Delay, time.Duration(0))
		assert.GreaterOrEqual(t, times.Slices, int64(0))
	})
}
