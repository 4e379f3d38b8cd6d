package observer

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/reading"
)

// jitter spreads the intervals around the setting. At a fixed interval the
// samples march in step with the application's own timers, and read a run
// queue of 392 or of 15 where the truth was 130.
const jitter = 0.2

// loop samples the scheduler for one Start.
type loop struct {
	name     string
	settings Settings
	sampler  *sampler // what is sampled once for the process
	among    *loops   // which tell whose turn that is

	// What a sample reads; seams for tests. They belong to whoever samples.
	now    func() time.Time // time.Now, whose monotonic clock counts
	queues func() reading.Queues

	tasks          atomic.Int64 // goroutines at the last sample
	recordOptions  []metric.RecordOption
	observeOptions []metric.ObserveOption

	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
}

func newLoop(name string, settings Settings, sampler *sampler, among *loops) *loop {
	name = strings.ToValidUTF8(name, "\uFFFD") // anything else fails the encoding of the whole export
	attributes := attributesOf(attribute.String(EventLoopAttribute, name))
	l := &loop{
		name:           name,
		settings:       settings,
		sampler:        sampler,
		among:          among,
		now:            time.Now,
		queues:         new(reading.QueueReader).Read,
		recordOptions:  []metric.RecordOption{attributes},
		observeOptions: []metric.ObserveOption{attributes},
		done:           make(chan struct{}),
	}
	l.countTasks()
	return l
}

// start begins to sample, until stop. The loop that is first in the process opens
// the first window of the diagnosis: on its own goroutine, since that reads files,
// which Start does not wait for.
func (l *loop) start(first bool) {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go l.run(ctx, first)
}

// stop ends the sampling and waits for the last sample, for at most patience:
// the sampler may be stuck in the application's code.
func (l *loop) stop(patience time.Duration) {
	l.cancel()
	await(l.done, time.Now().Add(patience))
}

func (l *loop) run(ctx context.Context, first bool) {
	defer close(l.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	if first {
		l.sampler.begin(l.now())
	}
	for {
		// Always counted from now: after a stall there is no burst of samples to
		// catch up with.
		wait := jittered(l.settings.SampleInterval)
		due := l.now().Add(wait)
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			l.sampleLast()
			return
		case <-timer.C:
			l.sample(due)
		}
	}
}

// sample measures how late this goroutine runs, having been due.
func (l *loop) sample(due time.Time) {
	defer l.sampler.failures.survive("sampling")
	queues := l.queues()
	// The runtime puts the goroutine of a timer before the run queue; after one
	// yield it has waited its turn like any other. Without it, 2,000 queued
	// goroutines read as a lag of 0.03 ms instead of 114. Where nobody waits, a
	// yield shows nothing, and wakes a thread to look for work.
	if queues.MayWait() {
		runtime.Gosched()
	}
	now := l.now()
	lag := max(now.Sub(due), 0)

	if to := l.sampler.recorder.Load(); to != nil {
		l.record(to, lag, queues)
	}
	l.countTasks()
	if l.among.oldest(l) {
		l.sampler.take(now, lag, queues, l.settings.SampleInterval)
	}
}

func (l *loop) record(to *recorder, lag time.Duration, queues reading.Queues) {
	recorded := to.sampled.TryPut(recordingOf(context.Background(), &to.lag, milliseconds(lag), &l.recordOptions))
	if runnable, ok := queues.Runnable.Get(); ok {
		recorded = to.sampled.TryPut(countOf(context.Background(), &to.runQueue, int64(runnable), &l.recordOptions)) && recorded
	} else {
		l.sampler.failures.report(EventLoopRunQueueInstrument, reading.UnknownMetric(reading.RunnableMetric))
	}
	if !recorded {
		l.sampler.failures.report("recording samples", errStuck)
	}
	to.hasten(totals.driver.driving.Load())
}

// sampleLast takes the sample of Stop. It has no lag: nothing was due.
func (l *loop) sampleLast() {
	defer l.sampler.failures.survive("sampling")
	l.countTasks()
	if l.among.oldest(l) {
		l.sampler.takeLast()
	}
}

func (l *loop) countTasks() {
	if l.settings.TaskCount {
		l.tasks.Store(int64(runtime.NumGoroutine()))
	}
}

// jittered returns interval, give or take up to a fifth of it.
func jittered(interval time.Duration) time.Duration {
	return time.Duration(float64(interval) * (1 - jitter + 2*jitter*rand.Float64()))
}

// loops are those of the process, in the order of their Start. Who changes them
// holds a lock; whoever reads them needs none.
type loops struct {
	listed atomic.Pointer[[]*loop] // replaced, never changed
	ended  atomic.Bool             // none is to sample any more
}

// all returns the loops.
func (ls *loops) all() []*loop {
	if listed := ls.listed.Load(); listed != nil {
		return *listed
	}
	return nil
}

// add adds a loop, and reports whether it is the only one.
func (ls *loops) add(l *loop) (first bool) {
	listed := append(slices.Clone(ls.all()), l)
	ls.listed.Store(&listed)
	return len(listed) == 1
}

// remove removes a loop, and reports whether it was the last one.
func (ls *loops) remove(l *loop) (last bool) {
	listed := slices.DeleteFunc(slices.Clone(ls.all()), func(other *loop) bool { return other == l })
	ls.listed.Store(&listed)
	return len(listed) == 0
}

// oldest reports whether a loop is the one that samples for the process.
func (ls *loops) oldest(l *loop) bool {
	all := ls.all()
	return len(all) > 0 && all[0] == l && !ls.ended.Load()
}
