package observer

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/gym-observer/observer/internal/count"
	"github.com/gym-observer/observer/internal/inflight"
	"github.com/gym-observer/observer/internal/monotonic"
)

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
	resident count.InFlight
	waiting  count.InFlight // for a limit
	writing  count.InFlight // writes that BeginOutputWrite began
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

	listed inflight.Table // the rollouts that are resident

	// recorder is where durations and sizes go, between a Start and the last Stop.
	recorder atomic.Pointer[recorder]
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
	number := m.resident.Begin()
	defer m.resident.End()
	listed := m.listed.New()
	listed.Began() // rollouts are few and long, and can afford to look at the clock
	m.listed.List(listed, number)
	defer m.listed.End(listed)
	return rollout()
}

// RecordMaterialize records how long it took to materialize one input, exported
// in milliseconds. A negative duration is not recorded.
func (m *DriverMetrics) RecordMaterialize(ctx context.Context, took time.Duration) {
	if to := m.recorded(); to != nil {
		to.Duration(ctx, &to.materialize, took)
	}
}

// RecordOutputWrite records one finished output write: how long it took,
// exported in milliseconds, and its size in bytes. A negative one of the two is
// not recorded. [DriverMetrics.BeginOutputWrite] also shows a write that hangs.
func (m *DriverMetrics) RecordOutputWrite(ctx context.Context, took time.Duration, bytes int64) {
	if m == nil {
		return
	}
	inWindow := monotonic.Between(time.Duration(m.windowOpened.Load()), monotonic.Now())
	m.written.Add(int64(max(0, min(took, inWindow))))
	m.recordOutputWrite(ctx, took, bytes)
}

func (m *DriverMetrics) recordOutputWrite(ctx context.Context, took time.Duration, bytes int64) {
	if to := m.recorded(); to != nil {
		to.Duration(ctx, &to.writeDuration, took)
		to.Count(ctx, &to.writeBytes, bytes)
	}
}

// openWindow tells which part of a write lies in the window.
func (m *DriverMetrics) openWindow(at time.Time) {
	m.windowOpened.Store(int64(monotonic.At(at)))
}

// BeginOutputWrite begins the measurement of one output write. The end function
// records it with its size in bytes, as [DriverMetrics.RecordOutputWrite] does;
// it is never nil, and calling it again does nothing.
func (m *DriverMetrics) BeginOutputWrite(ctx context.Context) (end func(bytes int64)) {
	if m == nil {
		return func(int64) {}
	}
	m.writing.Begin()
	began := monotonic.Now()
	var ended atomic.Bool
	return func(bytes int64) {
		if ended.CompareAndSwap(false, true) {
			m.writing.End()
			m.recordOutputWrite(ctx, monotonic.Now()-began, bytes)
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
	if to := m.recorded(); to != nil {
		to.Count(ctx, &to.inputItems, int64(size.InputItems))
		to.Count(ctx, &to.outputItems, int64(size.OutputItems))
		to.Count(ctx, &to.turns, int64(size.Turns))
		to.Count(ctx, &to.toolCalls, int64(size.ToolCalls))
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
		Resident:  m.resident.Now(),
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

// recorded returns where to record, nil where nothing is to be recorded.
func (m *DriverMetrics) recorded() *recorder {
	if m == nil || !m.driving.Load() {
		return nil
	}
	return m.recorder.Load()
}
