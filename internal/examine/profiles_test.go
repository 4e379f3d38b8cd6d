package examine_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/examine"
	"github.com/gym-observer/observer/internal/sites"
)

// profiling is an examiner that takes profiles of this process.
func profiling() *examine.Examiner {
	marks := sites.MarksOf("github.com/gym-observer/observer")
	return &examine.Examiner{Marks: marks, Profiles: examine.NewProfiles(marks, nil)}
}

// here is the location of its caller, so many lines further down.
func here(down int) string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("internal/examine/%s:%d", filepath.Base(file), line+down)
}

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
	e := profiling()
	var line string
	found, where := e.Profile(diagnosis.GC, func(<-chan struct{}) { line = allocate() })
	require.NotEmpty(t, found, where)
	assert.Equal(t, "alloc", found[0].Kind)
	assert.Equal(t, line, found[0].Location)
	assert.Greater(t, found[0].Share, 0.5)
	assert.Contains(t, where, line)
}

func TestMemoryNamesTheLineThatHolds(t *testing.T) {
	e := profiling()
	line := here(1)
	held := make([]byte, 64<<20)
	runtime.GC()
	runtime.GC()
	found, where := e.Profile(diagnosis.Memory, func(<-chan struct{}) {})
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
	e := profiling()
	found, where := e.Profile(diagnosis.CPUSaturated, compute)
	require.NotEmpty(t, found, where)
	assert.Equal(t, "cpu", found[0].Kind)
	assert.Contains(t, found[0].Function, "compute")
	assert.Contains(t, found[0].Location, "profiles_test.go:")
	assert.Contains(t, where, "examine_test.compute")
}

// The causes of the processor take turns on a crowded machine, and there is one
// profile in ten minutes.
func TestProfileOfTheProcessorIsGoodForEachOfItsCauses(t *testing.T) {
	e := profiling()
	found, where := e.Profile(diagnosis.CPUContended, compute)
	require.NotEmpty(t, found, where)
	for _, cause := range []diagnosis.Cause{diagnosis.CPUSaturated, diagnosis.CPUThrottled, diagnosis.StopTheWorld} {
		same, _ := e.Of(cause, time.Now())
		assert.Equal(t, found, same, cause)
		assert.Equal(t, []byte{0x1f, 0x8b}, e.ProfileOf(cause, time.Now())[:2], "the profile of %s, compressed", cause)
	}
	assert.Nil(t, e.ProfileOf(diagnosis.Lock, time.Now()), "has no part in the verdict")
	assert.Nil(t, e.ProfileOf(diagnosis.CPUSaturated, time.Now().Add(time.Hour)), "of an older incident")
}

func TestWithoutProfilesTheSentenceNamesTheOption(t *testing.T) {
	e := new(examine.Examiner)
	for _, cause := range []diagnosis.Cause{
		diagnosis.GC, diagnosis.Memory, diagnosis.CPUSaturated, diagnosis.CPUContended,
		diagnosis.CPUThrottled, diagnosis.StopTheWorld,
	} {
		found, where := e.Of(cause, time.Now())
		assert.Empty(t, found)
		assert.Equal(t, "observer.WithProfiles would name the line", where, cause)
	}
}

func TestHeapThatIsNotSampledHasNoSites(t *testing.T) {
	e := profiling()
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 0
	defer func() { runtime.MemProfileRate = rate }()
	for _, cause := range []diagnosis.Cause{diagnosis.GC, diagnosis.Memory} {
		found, where := e.Profile(cause, func(<-chan struct{}) {})
		assert.Empty(t, found)
		assert.Contains(t, where, "runtime.MemProfileRate is 0", cause)
	}
}

func TestProfileOfSomebodyElse(t *testing.T) {
	e := profiling()
	require.NoError(t, pprof.StartCPUProfile(new(bytes.Buffer)))
	found, where := e.Profile(diagnosis.CPUSaturated, func(<-chan struct{}) {})
	pprof.StopCPUProfile() // it is still somebody else's, and goes on
	assert.Empty(t, found)
	assert.Contains(t, where, "profile")
}

func TestStopEndsAProfile(t *testing.T) {
	e := profiling()
	over := e.BeginProfile()
	all := make([]byte, 1<<20)
	require.Eventually(t, func() bool { // until it is under way
		return strings.Contains(string(all[:runtime.Stack(all, true)]), "runtime/pprof.profileWriter")
	}, 10*time.Second, time.Millisecond)
	began := time.Now()
	e.Stop(began.Add(3 * time.Second))
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

func TestPanicInAProfileIsWhyThereAreNoSites(t *testing.T) {
	e := profiling()
	e.PanicInProfile("of the test")
	found, where := e.Profile(diagnosis.CPUSaturated, func(<-chan struct{}) {})
	assert.Empty(t, found)
	assert.Contains(t, where, "panic: of the test")
}
