package kernel_test

import (
	"testing"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseThreads(t *testing.T) {
	threads, err := kernel.ParseThreads([]byte("Name:\tThreads: 9\nState:\tS (sleeping)\nThreads:\t17\nSigQ:\t0/96000\n"))
	require.NoError(t, err)
	assert.Equal(t, int64(17), threads)
}

func TestParseThreadsNamesBadInput(t *testing.T) {
	for name, c := range map[string]struct{ text, message string }{
		"empty":     {"", "no line of threads"},
		"missing":   {"Name:\tapi\n", "no line of threads"},
		"no number": {"Threads:\t\n", `""`},
		"cut short": {"Threads:\t1", `"\t1" is cut short`},
		"negative":  {"Threads:\t-1\n", `"-1"`},
		"huge":      {"Threads:\t99999999999999999999\n", `"99999999999999999999"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kernel.ParseThreads([]byte(c.text))
			require.ErrorContains(t, err, c.message)
		})
	}
}

func FuzzParseThreads(f *testing.F) {
	f.Add([]byte("Name:\tapi\nThreads:\t17\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		threads, _ := kernel.ParseThreads(text)
		assert.GreaterOrEqual(t, threads, int64(0))
	})
}
