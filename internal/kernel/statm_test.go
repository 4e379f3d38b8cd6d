package kernel_test

import (
	"testing"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseStatm(t *testing.T) {
	pages, err := kernel.ParseStatm([]byte("309331 2911 1840 392 0 19386 0\n"))
	require.NoError(t, err)
	assert.Equal(t, int64(2911), pages)
}

func TestParseStatmNamesBadInput(t *testing.T) {
	for name, c := range map[string]struct{ text, message string }{
		"empty":     {"", `""`},
		"one field": {"309331\n", `"309331\n"`},
		"cut short": {"309331 29", `"309331 29"`},
		"negative":  {"309331 -2911 1840 392 0 19386 0\n", `"-2911"`},
		"huge":      {"309331 9223372036854775808 1840\n", `"9223372036854775808"`},
		"garbage":   {"no such text here", `"such"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kernel.ParseStatm([]byte(c.text))
			require.ErrorContains(t, err, c.message)
		})
	}
}

func FuzzParseStatm(f *testing.F) {
	f.Add([]byte("309331 2911 1840 392 0 19386 0\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		pages, err := kernel.ParseStatm(text)
		assert.GreaterOrEqual(t, pages, int64(0))
		if err != nil {
			assert.Zero(t, pages)
		}
	})
}
