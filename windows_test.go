package observer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/count"
	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/kernel"
	"github.com/gym-observer/observer/internal/number"
	"github.com/gym-observer/observer/internal/page"
	"github.com/gym-observer/observer/internal/reading"
	"github.com/gym-observer/observer/internal/testlog"
)

var errOfSource = errors.New("refused by the source")

// windowBegan is when the windows of these tests begin. They take 4 s.
var windowBegan = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const windowLength = 4 * time.Second

// sampleAt is a sample of what is in flight, by a sampler that woke late.
func sampleAt(at time.Time, lag time.Duration) *diagnosis.Sample {
	sample := sampleOf(at, lag, reading.Queues{})
	return &sample
}

// windowWith is a window of 10 s that ends now, of which only some loads were
// measured.
func windowWith(loads map[diagnosis.Cause]float64) *diagnosis.Window {
	w := &diagnosis.Window{At: time.Now(), Length: 10 * time.Second, Processors: 4, CPUs: 3, OutboundWait: time.Second}
	for cause, load := range loads {
		w.Load[cause] = number.Known(load)
	}
	return w
}

// stubMachine is a machine of which a test decides what can be read.
type stubMachine struct {
	threads    kernel.ThreadTimes
	throttled  kernel.Throttled
	cpus       float64
	use        reading.GroupMemory
	processors reading.Processors
	children   int64
	limit      int64

	failed           error // of every reading
	throttlingFailed error
}

func (m *stubMachine) Threads() (kernel.ThreadTimes, error) { return m.threads, m.failed }
func (m *stubMachine) Throttled() (kernel.Throttled, error) {
	return m.throttled, cmp.Or(m.failed, m.throttlingFailed)
}
func (m *stubMachine) Memory() (reading.GroupMemory, error)    { return m.use, m.failed }
func (m *stubMachine) Processors() (reading.Processors, error) { return m.processors, m.failed }
func (m *stubMachine) Children() (int64, error)                { return m.children, m.failed }
func (m *stubMachine) DescriptorLimit() (int64, error)         { return m.limit, m.failed }
func (m *stubMachine) CPULimit() (float64, error) {
	if m.failed != nil {
		return math.Inf(1), m.failed
	}
	return m.cpus, nil
}

// stubProcess is a process of which a test decides what can be read.
type stubProcess struct {
	user, system float64
	descriptors  int64
	failed       error
}

func (*stubProcess) Close()                               {}
func (p *stubProcess) CPUTime() (float64, float64, error) { return p.user, p.system, p.failed }
func (p *stubProcess) ResidentMemory() (int64, error)     { return 1 << 20, p.failed }
func (p *stubProcess) Threads() (int64, error)            { return 7, p.failed }
func (p *stubProcess) OpenDescriptors() (int64, error)    { return p.descriptors, p.failed }

// stubbed are the windows over a machine and a process that a test decides on.
type stubbed struct {
	windows
	machine *stubMachine
	process *stubProcess
	log     *testlog.Log
	now     time.Time
}

func newStubbed(t *testing.T) *stubbed {
	s := &stubbed{
		machine: &stubMachine{cpus: math.Inf(1), limit: 1000, threads: kernel.ThreadTimes{Whole: true}},
		process: new(stubProcess),
		log:     new(testlog.Log),
		now:     windowBegan,
	}
	s.windows.every, s.windows.machine, s.windows.process = windowLength, s.machine, s.process
	s.windows.failed = (&failures{logger: s.log.Logger()}).report
	previous := totals.driver.windowOpened.Load()
	t.Cleanup(func() { totals.driver.windowOpened.Store(previous) })
	s.windows.begin(s.now)
	return s
}

// sample adds a sample after some time.
func (s *stubbed) sample(after time.Duration) *diagnosis.Window {
	s.now = s.now.Add(after)
	defer s.windows.report()
	sample := sampleOf(s.now, 0, reading.Queues{Runnable: number.Known(0), NotInGo: number.Known(0)})
	return s.windows.add(&sample, func(*diagnosis.Reading) {})
}

func TestWindowsFollowEachOther(t *testing.T) {
	s := newStubbed(t)
	s.process.user, s.machine.threads.Delay = 100, time.Hour // before the second window
	assert.Nil(t, s.sample(windowLength-1))
	w := s.sample(1)
	require.NotNil(t, w)
	assert.Equal(t, windowLength, w.Length)
	assert.Equal(t, windowBegan.Add(windowLength), w.At)

	s.process.user, s.process.system, s.machine.threads.Delay = 102, 1, time.Hour+2*time.Second
	assert.Nil(t, s.sample(windowLength-1))
	w = s.sample(windowLength + 1) // of a starved sampler
	require.NotNil(t, w)
	assert.Equal(t, 2*windowLength, w.Length)
	assert.Equal(t, windowBegan.Add(3*windowLength), w.At)
	assert.Equal(t, number.Known(3/8.), w.CPU)
	assert.Equal(t, number.Known(2/8.), w.Load[diagnosis.CPUContended])
}

func TestUsableCPUsAreTheSmallestOfWhatLimitsThem(t *testing.T) {
	s := newStubbed(t)
	w := s.sample(windowLength)
	assert.LessOrEqual(t, w.CPUs, w.Processors)
	assert.Positive(t, w.CPUs)
	s.machine.cpus = 0.25
	w = s.sample(windowLength)
	assert.Equal(t, 0.25, w.CPUs)
}

func TestFailingSourceIsLoggedOnceAndItsCauseIsUnmeasured(t *testing.T) {
	s := newStubbed(t)
	require.NotContains(t, s.sample(windowLength).Unmeasured(), diagnosis.CPUContended)
	s.machine.failed, s.process.failed = errOfSource, errOfSource
	for range 3 {
		w := s.sample(windowLength)
		assert.ElementsMatch(t, []diagnosis.Cause{diagnosis.CPUContended, diagnosis.CPUThrottled, diagnosis.Descriptors, diagnosis.Memory}, w.Unmeasured())
		assert.False(t, w.Steal.IsKnown())
		assert.Positive(t, w.CPUs)
	}
	for _, cause := range []string{"own CPU time", "cpu_contended", "cpu_throttled", "CPU limit", "steal", "memory", "descriptors", "descriptor limit"} {
		assert.Len(t, s.log.Of("cause="+cause+" error=refused by the source"), 1, cause)
	}
	assert.Len(t, s.log.Of(), 8)

	s.machine.failed, s.process.failed = nil, nil
	s.machine.threads.Delay, s.process.user = time.Hour, 1e6 // in a window of which one end is not known
	assert.ElementsMatch(t, []diagnosis.Cause{diagnosis.CPUContended, diagnosis.CPUThrottled}, s.sample(windowLength).Unmeasured())
	assert.Empty(t, s.sample(windowLength).Unmeasured())
}

func TestLogHandlerMayTakeASampleItself(t *testing.T) {
	s := newStubbed(t)
	said := 0
	s.windows.failed = func(string, error) {
		if said++; said == 1 {
			s.windows.begin(s.now) // as a handler does that calls Start
		}
	}
	s.machine.failed = errOfSource
	s.sample(windowLength)
	assert.Positive(t, said)
}

func TestRunDelayIsUnreadableWhereThrottlingIs(t *testing.T) {
	s := newStubbed(t)
	s.machine.throttlingFailed = errOfSource
	assert.ElementsMatch(t, []diagnosis.Cause{diagnosis.CPUThrottled, diagnosis.CPUContended}, s.sample(windowLength).Unmeasured())
	s.machine.throttlingFailed = errors.ErrUnsupported
	assert.ElementsMatch(t, []diagnosis.Cause{diagnosis.CPUThrottled}, s.sample(windowLength).Unmeasured())
}

func TestUnsupportedSourceIsNotLoggedAndHasNoTotal(t *testing.T) {
	s := newStubbed(t)
	WithoutTotals(t)
	s.machine.failed, s.process.failed = fmt.Errorf("here: %w", errors.ErrUnsupported), errors.ErrUnsupported
	w := s.sample(windowLength)
	assert.ElementsMatch(t, []diagnosis.Cause{diagnosis.CPUContended, diagnosis.CPUThrottled, diagnosis.Descriptors, diagnosis.Memory}, w.Unmeasured())
	assert.Empty(t, s.log.Of())
	for _, total := range []*count.Ratchet{&totals.runDelay, &totals.throttled} {
		_, any := total.Last()
		assert.False(t, any, "a zero would be invented")
	}
}

func TestOutputWritesThatHaveBegunAreCountedAtEachSample(t *testing.T) {
	s := newStubbed(t)
	ends := []func(int64){totals.driver.BeginOutputWrite(t.Context()), totals.driver.BeginOutputWrite(t.Context())}
	assert.Nil(t, s.sample(windowLength/4))
	assert.Nil(t, s.sample(windowLength/4))
	for _, end := range ends {
		end(1)
		end(1) // once more is not less
	}
	assert.Nil(t, s.sample(windowLength/4))
	assert.Equal(t, number.Known(1), s.sample(windowLength / 4).Load[diagnosis.OutputWrite], "two in half of the samples")
	assert.Zero(t, s.sample(windowLength).Load[diagnosis.OutputWrite].Or(-1))
}

func TestRecordedOutputWriteCountsAsFarAsItLiesInTheWindow(t *testing.T) {
	opened := func(ago time.Duration) *stubbed {
		s := newStubbed(t)
		s.now = time.Now().Add(-ago)
		totals.driver.openWindow(s.now.Add(-time.Hour)) // as a Start long ago left it
		s.windows.begin(s.now)
		return s
	}
	t.Run("short ones add up", func(t *testing.T) {
		s := opened(windowLength)
		for range 6 {
			totals.driver.RecordOutputWrite(t.Context(), time.Second, 1)
		}
		assert.InDelta(t, 6/4., s.sample(windowLength).Load[diagnosis.OutputWrite].Or(-1), 1e-9)
		assert.Zero(t, s.sample(windowLength).Load[diagnosis.OutputWrite].Or(-1), "they are over")
	})
	t.Run("one that began before the window", func(t *testing.T) {
		s := opened(time.Second)
		totals.driver.RecordOutputWrite(t.Context(), time.Hour, 1)
		load := s.sample(windowLength).Load[diagnosis.OutputWrite].Or(-1)
		assert.GreaterOrEqual(t, load, 1/4.)
		assert.Less(t, load, 2.) // a busy machine may take its time
	})
	t.Run("negative", func(t *testing.T) {
		s := opened(time.Second)
		totals.driver.RecordOutputWrite(t.Context(), -time.Hour, 1)
		totals.driver.RecordOutputWrite(t.Context(), time.Second, 1)
		assert.InDelta(t, 1/4., s.sample(windowLength).Load[diagnosis.OutputWrite].Or(-1), 1e-9)
	})
	t.Run("begun with BeginOutputWrite", func(t *testing.T) {
		s := opened(windowLength)
		totals.driver.BeginOutputWrite(t.Context())(1)
		assert.Zero(t, s.sample(windowLength).Load[diagnosis.OutputWrite].Or(-1), "the samples have counted it")
	})
	t.Run("nil", func(t *testing.T) {
		s := opened(windowLength)
		var none *DriverMetrics
		none.RecordOutputWrite(t.Context(), time.Second, 1)
		none.BeginOutputWrite(t.Context())(1)
		assert.Zero(t, s.sample(windowLength).Load[diagnosis.OutputWrite].Or(-1))
	})
}

func TestWhatWaitsInThisProcessIsCountedAtEachSample(t *testing.T) {
	s := newStubbed(t)
	totals.driver.waiting.Begin()
	end := totals.requests.BeginOutbound()
	totals.driver.active.Add(3)
	assert.Nil(t, s.sample(windowLength/2))
	totals.driver.waiting.End()
	end()
	totals.driver.active.Add(-3)
	w := s.sample(windowLength / 2)
	assert.Equal(t, number.Known(0.5), w.Load[diagnosis.Admission])
	assert.Equal(t, number.Known(0.5), w.Load[diagnosis.Downstream])
	assert.Equal(t, 1.5, w.Active)
	assert.Equal(t, windowLength/2, w.OutboundWait, "one ended, and half of the samples saw it")
}

func TestKernelTotalsAreExportedAsTheyWereRead(t *testing.T) {
	WithoutTotals(t)
	s := newStubbed(t)
	s.machine.threads.Delay, s.machine.throttled.Time = 7*time.Second, 3*time.Second
	s.sample(windowLength)
	delay, _ := totals.runDelay.Last()
	throttled, _ := totals.throttled.Last()
	assert.Equal(t, 7.0, delay)
	assert.Equal(t, 3.0, throttled)

	s.machine.failed = errOfSource
	s.sample(windowLength)
	delay, _ = totals.runDelay.Last()
	assert.Equal(t, 7.0, delay, "the last value stays")
}

// sampling is a sampler of which nothing runs by itself.
func sampling(t testing.TB, every time.Duration) *sampler {
	s := &sampler{failures: &failures{logger: new(testlog.Log).Logger()}, history: page.NewRecorder(lagEdges)}
	s.windows = windows{every: every, process: reading.NewProcess(), machine: totals.machine, failed: s.failures.report}
	s.begin(time.Now())
	t.Cleanup(func() { seeWork(false) })
	return s
}

func TestSampleOfAnOpenWindowAllocatesNothing(t *testing.T) {
	s := sampling(t, time.Hour)
	now := time.Now()
	var queues reading.QueueReader
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		s.take(now, 0, queues.Read(), 100*time.Millisecond)
	}))
}

// The queues are read for the histogram, too: what the diagnosis adds is the rest.
func BenchmarkSample(b *testing.B) {
	s := sampling(b, time.Hour)
	var queues reading.QueueReader
	now := time.Now()
	b.Run("queues", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			queues.Read()
		}
	})
	read := queues.Read()
	b.Run("window", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.take(now, 0, read, 100*time.Millisecond)
		}
	})
}

// A window of a process with 64 threads and more.
func BenchmarkWindow(b *testing.B) {
	leave := make(chan struct{})
	var threads sync.WaitGroup
	for range 64 {
		threads.Go(func() {
			runtime.LockOSThread()
			<-leave
		})
	}
	defer threads.Wait()
	defer close(leave)
	s := sampling(b, 1) // each sample completes one
	var queues reading.QueueReader
	b.ReportAllocs()
	for b.Loop() {
		s.take(time.Now(), 0, queues.Read(), 100*time.Millisecond)
	}
	require.NotNil(b, s.diagnosed.Load())
}
