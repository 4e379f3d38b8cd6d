package observer_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

var kept [][]byte // so that what is allocated is

// allocate makes garbage at one line, and lets the collector publish it.
func allocate() (line string) {
	for range 256 {
		kept = append(kept[:0], make([]byte, 1<<20))
	}
	runtime.GC()
	runtime.GC()
	return here(-4)
}

func TestCollectorsCauseNamesTheLineThatAllocates(t *testing.T) {
	e := observer.Examine(t, observer.WithProfiles())
	var line string
	found, where := e.Profile(observer.CauseGC, func(<-chan struct{}) { line = allocate() })
	require.NotEmpty(t, found, where)
	assert.Equal(t, "alloc", found[0].Kind)
	assert.Equal(t, line, found[0].Location)
	assert.Greater(t, found[0].Share, 0.5)
	assert.Contains(t, where, line)
}

func TestMemoryNamesTheLineThatHolds(t *testing.T) {
	e := observer.Examine(t, observer.WithProfiles())
	line := here(1)
	held := make([]byte, 64<<20)
	runtime.GC()
	runtime.GC()
	found, where := e.Profile(observer.CauseMemory, func(<-chan struct{}) {})
	runtime.KeepAlive(held)
	require.NotEmpty(t, found, where)
	assert.Equal(t, "heap", found[0].Kind)
	assert.Equal(t, line, found[0].Location)
}

// compute keeps a processor busy until a profile has been taken.
func compute(taken <-chan struct{}) {
	text, other := bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("a"), 1<<16)
	for {
		select {
		case <-taken:
			return
		default:
		}
		for range 100 {
			text[0] = byte(bytes.Compare(text, other))
			text[0] = 'a'
		}
	}
}

func TestProcessorsCauseNamesTheFunction(t *testing.T) {
	e := observer.Examine(t, observer.WithProfiles())
	found, where := e.Profile(observer.CauseCPUSaturated, compute)
	require.NotEmpty(t, found, where)
	assert.Equal(t, "cpu", found[0].Kind)
	assert.Contains(t, found[0].Function, "compute")
	assert.Contains(t, found[0].Location, "profiles_test.go:")
	assert.Contains(t, where, "observer_test.compute")
}

// The causes of the processor take turns on a crowded machine, and there is one
// profile in ten minutes.
func TestProfileOfTheProcessorIsGoodForEachOfItsCauses(t *testing.T) {
	e := observer.Examine(t, observer.WithProfiles())
	found, where := e.Profile(observer.CauseCPUContended, compute)
	require.NotEmpty(t, found, where)
	for _, cause := range []observer.Cause{observer.CauseCPUSaturated, observer.CauseCPUThrottled, observer.CauseStopTheWorld} {
		same, _ := e.Named(cause)
		assert.Equal(t, found, same, cause)
	}
}

func TestWithoutProfilesTheSentenceNamesTheOption(t *testing.T) {
	e := observer.Examine(t)
	for _, cause := range []observer.Cause{
		observer.CauseGC, observer.CauseMemory, observer.CauseCPUSaturated, observer.CauseCPUContended,
		observer.CauseCPUThrottled, observer.CauseStopTheWorld,
	} {
		found, where := e.Named(cause)
		assert.Empty(t, found)
		assert.Equal(t, "observer.WithProfiles would name the line", where, cause)
	}
}

func TestHeapThatIsNotSampledHasNoSites(t *testing.T) {
	e := observer.Examine(t, observer.WithProfiles())
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 0
	defer func() { runtime.MemProfileRate = rate }()
	for _, cause := range []observer.Cause{observer.CauseGC, observer.CauseMemory} {
		found, where := e.Profile(cause, func(<-chan struct{}) {})
		assert.Empty(t, found)
		assert.Contains(t, where, "runtime.MemProfileRate is 0", cause)
	}
}

func TestProfileOfSomebodyElse(t *testing.T) {
	e := observer.Examine(t, observer.WithProfiles())
	require.NoError(t, pprof.StartCPUProfile(new(bytes.Buffer)))
	found, where := e.Profile(observer.CauseCPUSaturated, func(<-chan struct{}) {})
	pprof.StopCPUProfile() // it is still somebody else's, and goes on
	assert.Empty(t, found)
	assert.Contains(t, where, "profile")
}

func TestStopEndsAProfile(t *testing.T) {
	e := observer.Examine(t, observer.WithProfiles())
	over := e.BeginProfile()
	all := make([]byte, 1<<20)
	require.Eventually(t, func() bool { // until it is under way
		return strings.Contains(string(all[:runtime.Stack(all, true)]), "runtime/pprof.profileWriter")
	}, 10*time.Second, time.Millisecond)
	began := time.Now()
	e.Release()
	assert.Less(t, time.Since(began), 3*time.Second)
	select {
	case <-over:
	default:
		assert.Fail(t, "the profile goes on")
	}
	require.NoError(t, pprof.StartCPUProfile(new(bytes.Buffer)), "nobody profiles")
	pprof.StopCPUProfile()
	text := make([]byte, 1<<20)
	assert.NotContains(t, string(text[:runtime.Stack(text, true)]), "takeProcessor")
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
