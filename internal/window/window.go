// Package window makes one window after the other: it adds samples up, and reads
// everything at the end of each.
//
// It is where readings and the diagnosis meet: internal/reading does not know what a
// load is, and internal/diagnosis looks at no clock and no file. What this process
// counts of itself is added by whoever owns those counts; this room knows no totals, no
// metric and no verdict.
package window

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/number"
	"github.com/gym-observer/observer/internal/reading"
)

// Series adds samples up to windows, each of which ends with a reading of
// everything. Its methods are safe for concurrent use; the fields are set before.
type Series struct {
	Every   time.Duration // the length of a window, or a little more
	Process reading.Process
	Machine reading.Machine
	Failed  func(cause string, err error) // what Report calls

	// Counts adds to a reading what the process counts of itself. It must not call the
	// application's code.
	Counts func(*diagnosis.Reading)

	mu       sync.Mutex // the samplers take turns; no callback takes it
	series   diagnosis.Series
	runtime  reading.Runtime
	failures []failedReading // to be reported
}

type failedReading struct {
	cause string
	err   error
}

// Begin opens a window that none comes before. What failed is to be reported, as
// for Add.
func (w *Series) Begin(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.series.Begin(now, w.read())
}

// Add takes one sample, and returns the window that it completes, if it does. More
// adds to its reading what else is known of it.
func (w *Series) Add(s *diagnosis.Sample, more func(*diagnosis.Reading)) *diagnosis.Window {
	w.mu.Lock()
	if w.series.AsksForCPU() {
		user, system, err := w.Process.CPUTime()
		s.CPU = w.reading("own CPU time", user+system, err)
	}
	if w.series.Add(s) < w.Every {
		w.mu.Unlock()
		return nil
	}
	defer w.mu.Unlock()
	now := w.read()
	more(&now)
	return w.series.End(s.At, now)
}

// Report reports the readings that failed. It calls the application's log handler.
func (w *Series) Report() {
	w.mu.Lock()
	failed := w.failures
	w.failures = nil
	w.mu.Unlock()
	for _, f := range failed {
		w.Failed(f.cause, f.err)
	}
}

// IsOpen reports whether a window is open.
func (w *Series) IsOpen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.series != diagnosis.Series{}
}

// read takes a reading of everything; w.mu is held. What fails is to be
// reported, unless this platform has no such thing, and leaves its cause
// unmeasured.
func (w *Series) read() diagnosis.Reading {
	var r diagnosis.Reading
	w.readRuntime(&r)
	user, system, err := w.Process.CPUTime()
	r.CPU = w.reading("own CPU time", user+system, err)
	descriptors, err := w.Process.OpenDescriptors()
	r.Descriptors = w.reading(diagnosis.Descriptors.Name(), float64(descriptors), err)
	w.readMachine(&r)
	w.Counts(&r)
	return r
}

func (w *Series) readRuntime(r *diagnosis.Reading) {
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

func (w *Series) readMachine(r *diagnosis.Reading) {
	threads, err := w.Machine.Threads()
	r.RunDelay = w.reading(diagnosis.CPUContended.Name(), threads.Delay.Seconds(), err)
	r.Timeslices = number.If(err == nil, float64(threads.Slices))
	if !threads.Whole {
		r.RunDelay, r.Timeslices = number.Number{}, number.Number{}
	}
	throttled, err := w.Machine.Throttled()
	r.Throttled = w.reading(diagnosis.CPUThrottled.Name(), throttled.Time.Seconds(), err)
	r.ThrottledPeriods = throttled.Periods
	r.ThrottlingUnseen = throttled.Unseen != "" || err != nil && !errors.Is(err, errors.ErrUnsupported)
	limit, err := w.Machine.CPULimit()
	w.reading("CPU limit", limit, err)
	r.CPUs = min(r.Processors, limit)
	processors, err := w.Machine.Processors()
	w.reading("steal", 0, err)
	r.Idle, r.Steal, r.Machine = processors.Idle, processors.Steal, processors.Total
	memory, err := w.Machine.Memory()
	w.reading(diagnosis.Memory.Name(), 0, err)
	r.Memory.GroupUsed, r.Memory.GroupLimit, r.Memory.GroupHigh = memory.Used, memory.Limit, memory.High
	r.Memory.GroupFailed, r.Memory.Stalled = err != nil, memory.Stalled
	descriptors, err := w.Machine.DescriptorLimit()
	r.DescriptorLimit = w.reading("descriptor limit", float64(descriptors), err)
	if w.series.AsksForChildren() {
		children, err := w.Machine.Children()
		r.Children = w.reading("child processes", float64(children), err)
	}
}

func (w *Series) reading(cause string, value float64, err error) number.Number {
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		w.failures = append(w.failures, failedReading{cause, err})
	}
	return number.If(err == nil, value)
}
