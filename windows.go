package observer

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/number"
	"github.com/gym-observer/observer/internal/reading"
)

// windows adds samples up to windows, each of which ends with a reading of
// everything.
type windows struct {
	every   time.Duration // the length of a window, or a little more
	process reading.Process
	machine reading.Machine
	failed  func(cause string, err error)

	mu       sync.Mutex // the samplers take turns; no callback takes it
	series   diagnosis.Series
	runtime  reading.Runtime
	failures []failedReading // to be reported
}

type failedReading struct {
	cause string
	err   error
}

// begin opens a window that none comes before. What failed is to be reported, as
// for add.
func (w *windows) begin(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.series.Begin(now, w.read())
	totals.driver.openWindow(now)
}

// add takes one sample, and returns the window that it completes, if it does. More
// adds to its reading what else is known of it.
func (w *windows) add(s *diagnosis.Sample, more func(*diagnosis.Reading)) *diagnosis.Window {
	w.mu.Lock()
	if w.series.AsksForCPU() {
		user, system, err := w.process.CPUTime()
		s.CPU = w.reading("own CPU time", user+system, err)
	}
	if w.series.Add(s) < w.every {
		w.mu.Unlock()
		return nil
	}
	defer w.mu.Unlock()
	now := w.read()
	more(&now)
	ended := w.series.End(s.At, now)
	totals.driver.openWindow(s.At)
	return ended
}

// report reports the readings that failed. It calls the application's log handler.
func (w *windows) report() {
	w.mu.Lock()
	failed := w.failures
	w.failures = nil
	w.mu.Unlock()
	for _, f := range failed {
		w.failed(f.cause, f.err)
	}
}

// read takes a reading of everything; w.mu is held. What fails is to be
// reported, unless this platform has no such thing, and leaves its cause
// unmeasured.
func (w *windows) read() diagnosis.Reading {
	var r diagnosis.Reading
	w.readRuntime(&r)
	user, system, err := w.process.CPUTime()
	r.CPU = w.reading("own CPU time", user+system, err)
	descriptors, err := w.process.OpenDescriptors()
	r.Descriptors = w.reading(diagnosis.Descriptors.Name(), float64(descriptors), err)
	w.readMachine(&r)
	w.readCounts(&r)
	return r
}

func (w *windows) readRuntime(r *diagnosis.Reading) {
	t := w.runtime.Read()
	r.Processors = max(1, t.Processors.Or(0))
	r.Collector, r.Stopped, r.Locked = t.Collector, t.Stopped, t.Locked
	r.Collections, r.LimitedAt = int64(t.Collections.Or(0)), int64(t.LimitedAt.Or(0))
	r.HeapLive, r.HeapGoal, r.HeapObjects = t.HeapLive.Or(0), t.HeapGoal.Or(0), t.HeapObjects.Or(0)
	r.Memory.HeapLive = int64(min(t.HeapLive.Or(0), math.MaxInt64/2))
	if t.MemoryLimit > 0 {
		r.Memory.GoLimit, r.Memory.GoUsed = t.MemoryLimit, r.Memory.HeapLive+t.NotHeap
	}
}

func (w *windows) readMachine(r *diagnosis.Reading) {
	threads, err := w.machine.Threads()
	r.RunDelay = w.reading(diagnosis.CPUContended.Name(), threads.Delay.Seconds(), err)
	r.Timeslices = number.If(err == nil, float64(threads.Slices))
	if !threads.Whole {
		r.RunDelay, r.Timeslices = number.Number{}, number.Number{}
	}
	throttled, err := w.machine.Throttled()
	r.Throttled = w.reading(diagnosis.CPUThrottled.Name(), throttled.Time.Seconds(), err)
	r.ThrottledPeriods = throttled.Periods
	r.ThrottlingUnseen = throttled.Unseen != "" || err != nil && !errors.Is(err, errors.ErrUnsupported)
	limit, err := w.machine.CPULimit()
	w.reading("CPU limit", limit, err)
	r.CPUs = min(r.Processors, limit)
	processors, err := w.machine.Processors()
	w.reading("steal", 0, err)
	r.Idle, r.Steal, r.Machine = processors.Idle, processors.Steal, processors.Total
	memory, err := w.machine.Memory()
	w.reading(diagnosis.Memory.Name(), 0, err)
	r.Memory.GroupUsed, r.Memory.GroupLimit, r.Memory.GroupHigh = memory.Used, memory.Limit, memory.High
	r.Memory.GroupFailed, r.Memory.Stalled = err != nil, memory.Stalled
	descriptors, err := w.machine.DescriptorLimit()
	r.DescriptorLimit = w.reading("descriptor limit", float64(descriptors), err)
	if w.series.AsksForChildren() {
		children, err := w.machine.Children()
		r.Children = w.reading("child processes", float64(children), err)
	}

	if delay, ok := r.RunDelay.Get(); ok {
		totals.runDelay.Raise(delay)
	}
	if throttled, ok := r.Throttled.Get(); ok {
		totals.throttled.Raise(throttled)
	}
}

func (w *windows) readCounts(r *diagnosis.Reading) {
	requests, driver := &totals.requests, &totals.driver
	r.OutboundEnded = requests.outbound.Ended() - requests.expectedOutbound.Ended()
	r.RequestsEnded = requests.served.Ended() + requests.responses.Ended() - requests.expectedServed.Ended()
	r.AdmissionEnded = driver.waiting.Ended()
	r.Written = time.Duration(driver.written.Load())
}

func (w *windows) reading(cause string, value float64, err error) number.Number {
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		w.failures = append(w.failures, failedReading{cause, err})
	}
	return number.If(err == nil, value)
}
