package observer

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sys/cpu"
)

// driverTotals outlives every Start and Stop, as requestTotals does.
var driverTotals DriverMetrics

// DriverMetrics counts the rollouts of a rollout driver and records their
// durations and sizes. Its methods are safe for concurrent use; on a nil pointer
// they record nothing and still do the caller's work.
//
// What it counts is exported once the process has offered a rollout or has asked
// a [MeteredAdmission] for a slot, so that a server, which drives nothing,
// exports no constant zeros. Totals and gauges then show what was counted
// before, too; durations and sizes recorded before are dropped.
type DriverMetrics struct {
	// The admissions of a busy driver write these from every core.
	resident inFlight
	waiting  inFlight // for a limit
	writing  inFlight // writes that BeginOutputWrite began
	_        cpu.CacheLinePad
	active   atomic.Int64
	_        cpu.CacheLinePad

	offered   atomic.Int64
	abandoned atomic.Int64
	driving   atomic.Bool // whether the process has shown itself to be a driver

	// Nanoseconds of the writes that RecordOutputWrite recorded, each as far as it
	// lies in the window that the diagnosis has open since windowOpened.
	written      atomic.Int64
	windowOpened atomic.Int64
}

// Driver returns the rollout counters of the process, or nil while nothing
// observes it. It costs one atomic load; a pointer kept from before a Stop still
// counts, but records no durations and sizes.
func Driver() *DriverMetrics {
	if running.Load() == nil {
		return nil
	}
	return &driverTotals
}

// Offer counts n rollouts as handed to dispatch. A negative n is not counted.
func (m *DriverMetrics) Offer(n int) {
	if m == nil || n <= 0 {
		return
	}
	m.offered.Add(int64(n))
	m.drive()
}

// CountResident runs rollout and counts it as resident until it returns,
// whether it waits for admission or works. It passes the error on, and a panic
// or a Goexit too.
func (m *DriverMetrics) CountResident(rollout func() error) error {
	if m == nil {
		return rollout()
	}
	number := m.resident.begin()
	defer m.resident.end()
	listed := inFlightWork.begin(sinceBase(), number, nil, nil)
	defer inFlightWork.end(listed)
	return rollout()
}

// RecordMaterialize records how long it took to materialize one input, exported
// in milliseconds. A negative duration is not recorded.
func (m *DriverMetrics) RecordMaterialize(ctx context.Context, took time.Duration) {
	if p, to := m.recorded(); to != nil {
		p.recordings.duration(ctx, &to.materialize, took, nil)
	}
}

// RecordOutputWrite records one finished output write: how long it took,
// exported in milliseconds, and its size in bytes. A negative one of the two is
// not recorded. [DriverMetrics.BeginOutputWrite] also shows a write that hangs.
func (m *DriverMetrics) RecordOutputWrite(ctx context.Context, took time.Duration, bytes int64) {
	if m == nil {
		return
	}
	inWindow := sinceBase() - time.Duration(m.windowOpened.Load())
	m.written.Add(int64(max(0, min(took, inWindow))))
	m.recordOutputWrite(ctx, took, bytes)
}

func (m *DriverMetrics) recordOutputWrite(ctx context.Context, took time.Duration, bytes int64) {
	if p, to := m.recorded(); to != nil {
		p.recordings.duration(ctx, &to.writeDuration, took, nil)
		p.recordings.count(ctx, &to.writeBytes, bytes, nil)
	}
}

// openWindow tells which part of a write lies in the window.
func (m *DriverMetrics) openWindow(at time.Time) {
	m.windowOpened.Store(int64(at.Sub(clockBase)))
}

// BeginOutputWrite begins the measurement of one output write. The end function
// records it with its size in bytes, as [DriverMetrics.RecordOutputWrite] does;
// it is never nil, and calling it again does nothing.
func (m *DriverMetrics) BeginOutputWrite(ctx context.Context) (end func(bytes int64)) {
	if m == nil {
		return func(int64) {}
	}
	m.writing.begin()
	began := sinceBase()
	var ended atomic.Bool
	return func(bytes int64) {
		if ended.CompareAndSwap(false, true) {
			m.writing.end()
			m.recordOutputWrite(ctx, sinceBase()-began, bytes)
		}
	}
}

// RolloutSize is the size of one completed rollout.
type RolloutSize struct {
	InputItems, OutputItems, Turns, ToolCalls int
}

// RecordRollout records the size of one completed rollout. A negative count in
// it is not recorded.
func (m *DriverMetrics) RecordRollout(ctx context.Context, size RolloutSize) {
	if p, to := m.recorded(); to != nil {
		p.recordings.count(ctx, &to.inputItems, int64(size.InputItems), nil)
		p.recordings.count(ctx, &to.outputItems, int64(size.OutputItems), nil)
		p.recordings.count(ctx, &to.turns, int64(size.Turns), nil)
		p.recordings.count(ctx, &to.toolCalls, int64(size.ToolCalls), nil)
	}
}

// DriverCounts is a copy of what [DriverMetrics] has counted since the process
// began.
type DriverCounts struct {
	Offered   int64 // rollouts handed to dispatch
	Resident  int64 // rollouts that exist and have not finished
	Active    int64 // rollouts admitted past the limit and running
	Abandoned int64 // waits for the limit that ended by cancellation
}

// Counts returns a copy of the totals: each is exact, but they are read one
// after the other while rollouts go on. On a nil pointer it returns the zero
// value.
func (m *DriverMetrics) Counts() DriverCounts {
	if m == nil {
		return DriverCounts{}
	}
	return DriverCounts{
		Offered:   m.offered.Load(),
		Resident:  m.resident.now(),
		Active:    m.active.Load(),
		Abandoned: m.abandoned.Load(),
	}
}

// drive marks the process as one that drives rollouts. It looks before it
// writes, so that the flag's cache line stays shared between the cores.
func (m *DriverMetrics) drive() {
	if !m.driving.Load() {
		m.driving.Store(true)
	}
}

// recorded returns the running observer and its instruments, which are nil where
// nothing is to be recorded.
func (m *DriverMetrics) recorded() (*process, *instruments) {
	if m == nil || !m.driving.Load() {
		return nil, nil
	}
	if p := running.Load(); p != nil {
		return p, p.instruments.Load()
	}
	return nil, nil
}
