package kernel_test

import (
	"math"
	"os"
	"testing"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want kernel.MachineTime
	}{
		"this century": {
			"cpu  3829 7 2353 164487 1057 3 156 428 11 5\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 2\n",
			kernel.MachineTime{Steal: 428, Total: 3829 + 7 + 2353 + 164487 + 1057 + 3 + 156 + 428},
		},
		"before guests (Linux 2.6.11)": {
			"cpu  10 20 30 40 50 60 70 80\n",
			kernel.MachineTime{Steal: 80, Total: 360},
		},
		"a sum that overflows": {
			"cpu  9223372036854775807 1 1 1 1 1 1 1 0 0\n",
			kernel.MachineTime{Steal: 1, Total: math.MaxInt64},
		},
	} {
		t.Run(name, func(t *testing.T) {
			machine, err := kernel.ParseStat([]byte(c.text))
			require.NoError(t, err)
			assert.Equal(t, c.want, machine)
		})
	}
}

func TestParseStatNamesBadInput(t *testing.T) {
	for name, c := range map[string]struct{ text, message string }{
		"empty":                {"", "no line of all processors"},
		"one processor only":   {"cpu0 1 2 3 4 5 6 7 8 9 10\n", "no line of all processors"},
		"before steal":         {"cpu  1 2 3 4 5 6 7\n", `" 1 2 3 4 5 6 7\n"`},
		"cut short":            {"cpu  1 2 3 4 5 6 7 8", `" 1 2 3 4 5 6 7 8"`},
		"negative":             {"cpu  1 2 3 4 5 6 7 -8 9 10\n", `all processors: time 8: "-8"`},
		"more than an integer": {"cpu  18446744073709551615 2 3 4 5 6 7 8 9 10\n", `"18446744073709551615"`},
		"garbage":              {"cpu  a b c d e f g h\n", `"a"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kernel.ParseStat([]byte(c.text))
			require.ErrorContains(t, err, c.message)
		})
	}
}

func TestParseStatOfThisMachine(t *testing.T) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Skip("needs /proc/stat")
	}
	machine, err := kernel.ParseStat(text)
	require.NoError(t, err)
	assert.Positive(t, machine.Total)
	assert.LessOrEqual(t, machine.Steal, machine.Total)
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("cpu  3829 0 2353 164487 1057 0 156 428 0 0\ncpu0 1905 0 956 83026 39 0 44 155 0 0\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		machine, _ := kernel.ParseStat(text)
		assert.GreaterOrEqual(t, machine.Steal, int64(0))
		assert.GreaterOrEqual(t, machine.Total, machine.Steal)
	})
}
