// Package lag wakes a goroutine at intervals, and measures how late it runs.
//
// A [Loop] does that for one event loop; [Turns] tells which of several loops samples
// what the process has once. What a sample is recorded as, and what else is sampled,
// is for whoever starts the loop: this room knows no metric, no window and no setting
// but the interval.
package lag

import (
	"context"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/gym-observer/observer/internal/reading"
	"github.com/gym-observer/observer/internal/survive"
)

// jitter spreads the intervals around the setting. At a fixed interval the
// samples march in step with the application's own timers, and read a run
// queue of 392 or of 15 where the truth was 130.
const jitter = 0.2

// Loop wakes at intervals, from Start until Stop.
type Loop struct {
	Interval time.Duration // give or take up to a fifth

	// What a measurement reads; tests set them before Start. They belong to whoever
	// measures.
	Now    func() time.Time // time.Now, whose monotonic clock counts
	Queues func() reading.Queues

	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
}

// New returns a loop that has not started.
func New(interval time.Duration) *Loop {
	return &Loop{Interval: interval, Now: time.Now, Queues: new(reading.QueueReader).Read, done: make(chan struct{})}
}

// Start begins to wake, on a goroutine of its own. That calls first, then each with the
// moment that it was due, and last when it is stopped.
func (l *Loop) Start(first func(), each func(due time.Time), last func()) {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go l.run(ctx, first, each, last)
}

// Stop ends the loop and waits for last, for at most patience: a call may be stuck in
// the application's code.
func (l *Loop) Stop(patience time.Duration) {
	l.cancel()
	survive.Await(l.done, time.Now().Add(patience))
}

// Done is closed when the loop has ended.
func (l *Loop) Done() <-chan struct{} { return l.done }

func (l *Loop) run(ctx context.Context, first func(), each func(due time.Time), last func()) {
	defer close(l.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	first()
	for {
		// Always counted from now: after a stall there is no burst of samples to
		// catch up with.
		wait := jittered(l.Interval)
		due := l.Now().Add(wait)
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			last()
			return
		case <-timer.C:
			each(due)
		}
	}
}

// Measure returns the moment at which a goroutine runs that was due, how late that is,
// and who waited before it.
func (l *Loop) Measure(due time.Time) (now time.Time, lag time.Duration, queues reading.Queues) {
	queues = l.Queues()
	// The runtime puts the goroutine of a timer before the run queue; after one
	// yield it has waited its turn like any other. Without it, 2,000 queued
	// goroutines read as a lag of 0.03 ms instead of 114. Where nobody waits, a
	// yield shows nothing, and wakes a thread to look for work.
	if queues.MayWait() {
		runtime.Gosched()
	}
	now = l.Now()
	return now, max(now.Sub(due), 0), queues
}

// jittered returns interval, give or take up to a fifth of it.
func jittered(interval time.Duration) time.Duration {
	return time.Duration(float64(interval) * (1 - jitter + 2*jitter*rand.Float64()))
}
