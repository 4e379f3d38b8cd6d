package observer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/kernel"
	"github.com/gym-observer/observer/internal/number"
)

var errOfSource = errors.New("refused by the source")

// windowBegan is when the windows of these tests begin. They take 4 s.
var windowBegan = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const windowLength = 4 * time.Second

// sampleAt is a sample of what is in flight, by a sampler that woke late.
func sampleAt(at time.Time, lag time.Duration) *diagnosis.Sample {
	sample := takeSample(at, lag, queues{})
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
	delay, throttling time.Duration
	periods           int64
	cpus              float64
	use               kernel.MemoryUse
	ticks             kernel.MachineTime
	limit             int64

	failed           error // of every reading
	throttlingFailed error
}

func (m *stubMachine) runDelay() (time.Duration, error) { return m.delay, m.failed }
func (m *stubMachine) throttled() (time.Duration, int64, error) {
	return m.throttling, m.periods, cmp.Or(m.failed, m.throttlingFailed)
}
func (m *stubMachine) memory() (kernel.MemoryUse, error) { return m.use, m.failed }
func (m *stubMachine) time() (kernel.MachineTime, error) { return m.ticks, m.failed }
func (m *stubMachine) descriptorLimit() (int64, error)   { return m.limit, m.failed }
func (m *stubMachine) cpuLimit() (float64, error) {
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

func (*stubProcess) close()                               {}
func (p *stubProcess) cpuTime() (float64, float64, error) { return p.user, p.system, p.failed }
func (p *stubProcess) residentMemory() (int64, error)     { return 1 << 20, p.failed }
func (p *stubProcess) threads() (int64, error)            { return 7, p.failed }
func (p *stubProcess) openDescriptors() (int64, error)    { return p.descriptors, p.failed }

// stubbed are the loads over a machine and a process that a test decides on.
type stubbed struct {
	loads
	machine *stubMachine
	process *stubProcess
	lines   *lines
	now     time.Time
}

func newStubbed(t *testing.T) *stubbed {
	s := &stubbed{
		machine: &stubMachine{cpus: math.Inf(1), limit: 1000},
		process: new(stubProcess),
		lines:   new(lines),
		now:     windowBegan,
	}
	s.loads.every, s.loads.machine, s.loads.process = windowLength, s.machine, s.process
	s.loads.failed = (&failures{logger: slog.New(s.lines)}).report
	previous := driverTotals.windowOpened.Load()
	t.Cleanup(func() { driverTotals.windowOpened.Store(previous) })
	s.loads.begin(s.now)
	return s
}

// sample adds a sample after some time.
func (s *stubbed) sample(after time.Duration) *diagnosis.Window {
	s.now = s.now.Add(after)
	sample := takeSample(s.now, 0, queues{runnable: number.Known(0), notInGo: number.Known(0)})
	return s.loads.add(&sample)
}

// lines keeps the log.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) Handle(_ context.Context, record slog.Record) error {
	text := record.Level.String() + " " + record.Message
	record.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, text)
	return nil
}

// with returns the lines that contain a word.
func (l *lines) with(word string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.text {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return found
}

func TestWindowsFollowEachOther(t *testing.T) {
	s := newStubbed(t)
	s.process.user, s.machine.delay = 100, time.Hour // before the second window
	assert.Nil(t, s.sample(windowLength-1))
	w := s.sample(1)
	require.NotNil(t, w)
	assert.Equal(t, windowLength, w.Length)
	assert.Equal(t, windowBegan.Add(windowLength), w.At)

	s.process.user, s.process.system, s.machine.delay = 102, 1, time.Hour+2*time.Second
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
		assert.Len(t, s.lines.with("cause="+cause+" error=refused by the source"), 1, cause)
	}
	assert.Len(t, s.lines.with(""), 8)

	s.machine.failed, s.process.failed = nil, nil
	s.machine.delay, s.process.user = time.Hour, 1e6 // in a window of which one end is not known
	assert.ElementsMatch(t, []diagnosis.Cause{diagnosis.CPUContended, diagnosis.CPUThrottled}, s.sample(windowLength).Unmeasured())
	assert.Empty(t, s.sample(windowLength).Unmeasured())
}

func TestLogHandlerMayTakeASampleItself(t *testing.T) {
	s := newStubbed(t)
	said := 0
	s.loads.failed = func(string, error) {
		if said++; said == 1 {
			s.loads.begin(s.now) // as a handler does that calls Start
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
	assert.Empty(t, s.lines.with(""))
	for _, total := range []*ratchet{&lastRunDelay, &lastThrottled} {
		_, any := total.last()
		assert.False(t, any, "a zero would be invented")
	}
}

func TestRuntimeMetricThatThisGoDoesNotKnowIsUnmeasured(t *testing.T) {
	for index, cause := range map[int]diagnosis.Cause{
		gcAssistCPU: diagnosis.GC, gcDedicatedCPU: diagnosis.GC, gcPauseCPU: diagnosis.GC,
		otherPauses: diagnosis.StopTheWorld, mutexWait: diagnosis.Lock,
	} {
		t.Run(windowMetrics[index], func(t *testing.T) {
			replaceMetric(t, index)
			assert.Equal(t, []diagnosis.Cause{cause}, newStubbed(t).sample(windowLength).Unmeasured())
		})
	}
	t.Run("all", func(t *testing.T) {
		for index := range windowMetrics {
			replaceMetric(t, index)
		}
		w := newStubbed(t).sample(windowLength)
		assert.ElementsMatch(t, []diagnosis.Cause{diagnosis.GC, diagnosis.StopTheWorld, diagnosis.Lock}, w.Unmeasured())
		assert.Equal(t, 1.0, w.Processors)
		assert.Empty(t, w.Holding())
	})
}

// replaceMetric asks for one that no Go has, until the test ends.
func replaceMetric(t *testing.T, index int) {
	name := windowMetrics[index]
	windowMetrics[index] = "/no/such:metric"
	t.Cleanup(func() { windowMetrics[index] = name })
}

func TestMemoryLimitOfTheRuntime(t *testing.T) {
	var r runtimeReader
	r.read()
	use := r.memoryUse()
	if os.Getenv("GOMEMLIMIT") == "" {
		assert.Zero(t, use.GoLimit, "no limit is set")
		assert.Zero(t, use.GoUsed)
	}

	const limit int64 = 1 << 40 // not one to collect for
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	r.read()
	before := r.memoryUse()
	assert.Equal(t, limit, before.GoLimit)
	assert.Greater(t, before.GoUsed, before.HeapLive, "stacks and the runtime's own memory count")
	fresh := make([]byte, 64<<20)
	r.read()
	assert.Less(t, r.memoryUse().GoUsed-before.GoUsed, int64(len(fresh)/4), "what no collection has found alive does not count")
	runtime.GC()
	r.read()
	assert.Greater(t, r.memoryUse().GoUsed, int64(len(fresh)))
	runtime.KeepAlive(fresh)
}

func TestOutputWritesThatHaveBegunAreCountedAtEachSample(t *testing.T) {
	s := newStubbed(t)
	ends := []func(int64){driverTotals.BeginOutputWrite(t.Context()), driverTotals.BeginOutputWrite(t.Context())}
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
		driverTotals.openWindow(s.now.Add(-time.Hour)) // as a Start long ago left it
		s.loads.begin(s.now)
		return s
	}
	t.Run("short ones add up", func(t *testing.T) {
		s := opened(windowLength)
		for range 6 {
			driverTotals.RecordOutputWrite(t.Context(), time.Second, 1)
		}
		assert.InDelta(t, 6/4., s.sample(windowLength).Load[diagnosis.OutputWrite].Or(-1), 1e-9)
		assert.Zero(t, s.sample(windowLength).Load[diagnosis.OutputWrite].Or(-1), "they are over")
	})
	t.Run("one that began before the window", func(t *testing.T) {
		s := opened(time.Second)
		driverTotals.RecordOutputWrite(t.Context(), time.Hour, 1)
		load := s.sample(windowLength).Load[diagnosis.OutputWrite].Or(-1)
		assert.GreaterOrEqual(t, load, 1/4.)
		assert.Less(t, load, 2.) // a busy machine may take its time
	})
	t.Run("negative", func(t *testing.T) {
		s := opened(time.Second)
		driverTotals.RecordOutputWrite(t.Context(), -time.Hour, 1)
		driverTotals.RecordOutputWrite(t.Context(), time.Second, 1)
		assert.InDelta(t, 1/4., s.sample(windowLength).Load[diagnosis.OutputWrite].Or(-1), 1e-9)
	})
	t.Run("in the first moments of a window", func(t *testing.T) {
		// The coarse clock still shows the sample that opened the window.
		s := opened(windowLength / 2)
		coarseClock.nanos.Store(int64(s.now.Sub(clockBase)))
		defer coarseClock.nanos.Store(0)
		driverTotals.RecordOutputWrite(t.Context(), time.Second, 1)
		assert.InDelta(t, 1/4., s.sample(windowLength).Load[diagnosis.OutputWrite].Or(-1), 1e-9)
	})
	t.Run("begun with BeginOutputWrite", func(t *testing.T) {
		s := opened(windowLength)
		driverTotals.BeginOutputWrite(t.Context())(1)
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
	driverTotals.waiting.begin()
	end := requestTotals.BeginOutbound()
	driverTotals.active.Add(3)
	assert.Nil(t, s.sample(windowLength/2))
	driverTotals.waiting.end()
	end()
	driverTotals.active.Add(-3)
	w := s.sample(windowLength / 2)
	assert.Equal(t, number.Known(0.5), w.Load[diagnosis.Admission])
	assert.Equal(t, number.Known(0.5), w.Load[diagnosis.Downstream])
	assert.Equal(t, 1.5, w.Active)
	assert.Equal(t, windowLength/2, w.OutboundWait, "one ended, and half of the samples saw it")
}

func TestKernelTotalsAreExportedAsTheyWereRead(t *testing.T) {
	WithoutTotals(t)
	s := newStubbed(t)
	s.machine.delay, s.machine.throttling = 7*time.Second, 3*time.Second
	s.sample(windowLength)
	delay, _ := lastRunDelay.last()
	throttled, _ := lastThrottled.last()
	assert.Equal(t, 7.0, delay)
	assert.Equal(t, 3.0, throttled)

	s.machine.failed = errOfSource
	s.sample(windowLength)
	delay, _ = lastRunDelay.last()
	assert.Equal(t, 7.0, delay, "the last value stays")
}

// sampling is a process with one loop, of which nothing runs by itself.
func sampling(t testing.TB, every time.Duration) (*process, *loop) {
	p := &process{failures: &failures{logger: slog.New(new(lines))}}
	p.loops.Store(new([]*loop))
	p.loads = loads{every: every, process: newProcessSource(), machine: thisMachine, failed: p.failures.report}
	l := newLoop(p, "test", Settings{SampleInterval: 100 * time.Millisecond})
	p.addLoop(l)
	p.beginWindow(l)
	t.Cleanup(func() { coarseClock.nanos.Store(0) })
	return p, l
}

func TestSampleOfAnOpenWindowAllocatesNothing(t *testing.T) {
	p, l := sampling(t, time.Hour)
	now := time.Now()
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		sample := takeSample(now, 0, l.readQueues())
		p.addToWindow(l, &sample)
	}))
}

// The queues are read for the histogram, too: what the diagnosis adds is the rest.
func BenchmarkSample(b *testing.B) {
	p, l := sampling(b, time.Hour)
	queues := l.readQueues()
	now := time.Now()
	b.Run("queues", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			queues = l.readQueues()
		}
	})
	b.Run("window", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sample := takeSample(now, 0, queues)
			p.addToWindow(l, &sample)
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
	p, l := sampling(b, 1) // each sample completes one
	b.ReportAllocs()
	for b.Loop() {
		sample := takeSample(time.Now(), 0, l.readQueues())
		p.addToWindow(l, &sample)
	}
	require.NotNil(b, p.diagnosed.Load())
}
