package window

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/kernel"
	"github.com/gym-observer/observer/internal/number"
	"github.com/gym-observer/observer/internal/readingtest"
)

var errOfSource = errors.New("refused by the source")

// windowBegan is when the windows of these tests begin. They take 4 s.
var windowBegan = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const windowLength = 4 * time.Second

// stubbed are the windows over a machine and a process that a test decides on.
type stubbed struct {
	Series
	machine *readingtest.Machine
	process *readingtest.Process
	failed  []string // what was reported
	now     time.Time
}

func newStubbed() *stubbed {
	s := &stubbed{
		machine: &readingtest.Machine{CPUs: math.Inf(1), MostOpen: 1000, Times: kernel.ThreadTimes{Whole: true}},
		process: new(readingtest.Process),
		now:     windowBegan,
	}
	s.Every, s.Machine, s.Process = windowLength, s.machine, s.process
	s.Counts = func(*diagnosis.Reading) {}
	s.Failed = func(cause string, err error) { s.failed = append(s.failed, cause+": "+err.Error()) }
	s.Begin(s.now)
	return s
}

// sample adds a sample after some time.
func (s *stubbed) sample(after time.Duration) *diagnosis.Window {
	s.now = s.now.Add(after)
	defer s.Report()
	sample := diagnosis.Sample{At: s.now, Runnable: number.Known(0), NotInGo: number.Known(0)}
	return s.Add(&sample, func(*diagnosis.Reading) {})
}

func TestWindowsFollowEachOther(t *testing.T) {
	s := newStubbed()
	s.process.User, s.machine.Times.Delay = 100, time.Hour // before the second window
	assert.Nil(t, s.sample(windowLength-1))
	w := s.sample(1)
	require.NotNil(t, w)
	assert.Equal(t, windowLength, w.Length)
	assert.Equal(t, windowBegan.Add(windowLength), w.At)

	s.process.User, s.process.System, s.machine.Times.Delay = 102, 1, time.Hour+2*time.Second
	assert.Nil(t, s.sample(windowLength-1))
	w = s.sample(windowLength + 1) // of a starved sampler
	require.NotNil(t, w)
	assert.Equal(t, 2*windowLength, w.Length)
	assert.Equal(t, windowBegan.Add(3*windowLength), w.At)
	assert.Equal(t, number.Known(3/8.), w.CPU)
	assert.Equal(t, number.Known(2/8.), w.Load[diagnosis.CPUContended])
}

func TestUsableCPUsAreTheSmallestOfWhatLimitsThem(t *testing.T) {
	s := newStubbed()
	w := s.sample(windowLength)
	assert.LessOrEqual(t, w.CPUs, w.Processors)
	assert.Positive(t, w.CPUs)
	s.machine.CPUs = 0.25
	w = s.sample(windowLength)
	assert.Equal(t, 0.25, w.CPUs)
}

func TestFailingSourceIsReportedAndItsCauseIsUnmeasured(t *testing.T) {
	s := newStubbed()
	require.NotContains(t, s.sample(windowLength).Unmeasured(), diagnosis.CPUContended)
	s.machine.Failed, s.process.Failed = errOfSource, errOfSource
	for range 3 {
		s.failed = nil
		w := s.sample(windowLength)
		assert.ElementsMatch(t, []diagnosis.Cause{diagnosis.CPUContended, diagnosis.CPUThrottled, diagnosis.Descriptors, diagnosis.Memory}, w.Unmeasured())
		assert.False(t, w.Steal.IsKnown())
		assert.Positive(t, w.CPUs)
	}
	var want []string
	for _, cause := range []string{"own CPU time", "cpu_contended", "cpu_throttled", "CPU limit", "steal", "memory", "descriptors", "descriptor limit"} {
		want = append(want, cause+": refused by the source")
	}
	assert.ElementsMatch(t, want, s.failed)

	s.machine.Failed, s.process.Failed = nil, nil
	s.machine.Times.Delay, s.process.User = time.Hour, 1e6 // in a window of which one end is not known
	assert.ElementsMatch(t, []diagnosis.Cause{diagnosis.CPUContended, diagnosis.CPUThrottled}, s.sample(windowLength).Unmeasured())
	assert.Empty(t, s.sample(windowLength).Unmeasured())
}

func TestLogHandlerMayTakeASampleItself(t *testing.T) {
	s := newStubbed()
	said := 0
	s.Failed = func(string, error) {
		if said++; said == 1 {
			s.Begin(s.now) // as a handler does that calls Start
		}
	}
	s.machine.Failed = errOfSource
	s.sample(windowLength)
	assert.Positive(t, said)
}

func TestRunDelayIsUnreadableWhereThrottlingIs(t *testing.T) {
	s := newStubbed()
	s.machine.QuotaFailed = errOfSource
	assert.ElementsMatch(t, []diagnosis.Cause{diagnosis.CPUThrottled, diagnosis.CPUContended}, s.sample(windowLength).Unmeasured())
	s.machine.QuotaFailed = errors.ErrUnsupported
	assert.ElementsMatch(t, []diagnosis.Cause{diagnosis.CPUThrottled}, s.sample(windowLength).Unmeasured())
}
