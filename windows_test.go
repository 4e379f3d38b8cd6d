package observer

import (
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
	"github.com/gym-observer/observer/internal/monotonic"
	"github.com/gym-observer/observer/internal/number"
	"github.com/gym-observer/observer/internal/page"
	"github.com/gym-observer/observer/internal/reading"
	"github.com/gym-observer/observer/internal/readingtest"
	"github.com/gym-observer/observer/internal/survive"
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

// stubbed are the sampler over a machine and a process that a test decides on.
type stubbed struct {
	sampler
	machine *readingtest.Machine
	process *readingtest.Process
	log     *testlog.Log
	now     time.Time
}

func newStubbed(t *testing.T) *stubbed {
	s := &stubbed{
		machine: &readingtest.Machine{CPUs: math.Inf(1), MostOpen: 1000, Times: kernel.ThreadTimes{Whole: true}},
		process: new(readingtest.Process),
		log:     new(testlog.Log),
		now:     windowBegan,
	}
	s.sampler.failures, s.sampler.history = &survive.Failures{Logger: s.log.Logger()}, page.NewRecorder(lagEdges)
	s.windows = windowsOf(windowLength, s.process, s.sampler.failures.Report)
	s.windows.Machine = s.machine
	previous := totals.driver.windowOpened.Load()
	t.Cleanup(func() { totals.driver.windowOpened.Store(previous) })
	s.begin(s.now)
	return s
}

// sample adds a sample after some time.
func (s *stubbed) sample(after time.Duration) *diagnosis.Window {
	s.now = s.now.Add(after)
	before := s.diagnosed.Load()
	s.take(s.now, 0, reading.Queues{Runnable: number.Known(0), NotInGo: number.Known(0)}, after)
	if now := s.diagnosed.Load(); now != before {
		return now.Window
	}
	return nil
}

func TestFailingSourceIsLoggedOnce(t *testing.T) {
	s := newStubbed(t)
	s.machine.Failed, s.process.Failed = errOfSource, errOfSource
	for range 3 {
		s.sample(windowLength)
	}
	for _, cause := range []string{"own CPU time", "cpu_contended", "cpu_throttled", "CPU limit", "steal", "memory", "descriptors", "descriptor limit"} {
		assert.Len(t, s.log.Of("cause="+cause+" error=refused by the source"), 1, cause)
	}
}

func TestUnsupportedSourceIsNotLoggedAndHasNoTotal(t *testing.T) {
	s := newStubbed(t)
	WithoutTotals(t)
	s.machine.Failed, s.process.Failed = fmt.Errorf("here: %w", errors.ErrUnsupported), errors.ErrUnsupported
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
		// No window is older than its process.
		require.Eventually(t, func() bool { return monotonic.Now() > ago }, 2*windowLength, time.Millisecond)
		s := newStubbed(t)
		s.now = time.Now().Add(-ago)
		totals.driver.openWindow(s.now.Add(-time.Hour)) // as a Start long ago left it
		s.begin(s.now)
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
	s.machine.Times.Delay, s.machine.Quota.Time = 7*time.Second, 3*time.Second
	s.sample(windowLength)
	delay, _ := totals.runDelay.Last()
	throttled, _ := totals.throttled.Last()
	assert.Equal(t, 7.0, delay)
	assert.Equal(t, 3.0, throttled)

	s.machine.Failed = errOfSource
	s.sample(windowLength)
	delay, _ = totals.runDelay.Last()
	assert.Equal(t, 7.0, delay, "the last value stays")
}

// sampling is a sampler of which nothing runs by itself.
func sampling(t testing.TB, every time.Duration) *sampler {
	s := &sampler{failures: &survive.Failures{Logger: new(testlog.Log).Logger()}, history: page.NewRecorder(lagEdges)}
	s.windows = windowsOf(every, reading.NewProcess(), s.failures.Report)
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
