package observer_test

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

// A profile that nobody ends takes 5 s.
func TestStopEndsTheProfileOfWithProfiles(t *testing.T) {
	e := observer.Examine(t, observer.WithProfiles())
	e.Suffer(observer.CauseCPUThrottled)
	profiles := func() bool {
		all := make([]byte, 1<<20)
		return strings.Contains(string(all[:runtime.Stack(all, true)]), "runtime/pprof.profileWriter")
	}
	require.Eventually(t, profiles, 10*time.Second, time.Millisecond)
	began := time.Now()
	e.Release()
	assert.Less(t, time.Since(began), 3*time.Second)
	assert.False(t, profiles())
}

// The runtime samples the heap where runtime.MemProfile can be reached, and a
// profile of the processor brings a quarter of a megabyte.
func TestBinariesWithoutWithProfilesHaveNoProfiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds two programs")
	}
	program, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command here")
	}
	has := func(name, symbol string) bool {
		binary := filepath.Join(t.TempDir(), "program")
		out, err := exec.CommandContext(t.Context(), program, "build", "-o", binary, "./testdata/"+name).CombinedOutput()
		require.NoError(t, err, "%s", out)
		symbols, err := exec.CommandContext(t.Context(), program, "tool", "nm", binary).Output()
		require.NoError(t, err)
		return strings.Contains(string(symbols), " "+symbol+"\n")
	}
	for _, symbol := range []string{"runtime.MemProfile", "runtime/pprof.StartCPUProfile"} {
		assert.True(t, has("profiling", symbol), symbol)
		assert.True(t, has("capturing", symbol), symbol)
		assert.False(t, has("observing", symbol), symbol)
	}
}
