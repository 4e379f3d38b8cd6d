package observer

import (
	"context"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	// runnableMetric counts goroutines that could run and do not, notInGoMetric
	// those in system calls or C code.
	runnableMetric = "/sched/goroutines/runnable:goroutines"
	notInGoMetric  = "/sched/goroutines/not-in-go:goroutines"

	// jitter spreads the intervals around the setting. At a fixed interval the
	// samples march in step with the application's own timers, and read a run
	// queue of 392 or of 15 where the truth was 130.
	jitter = 0.2
)

// loop samples the scheduler for one Start.
type loop struct {
	process  *process
	name     string
	settings Settings
	now      func() time.Time // time.Now, whose monotonic clock counts; a seam for tests

	tasks          atomic.Int64 // goroutines at the last sample
	recordOptions  []metric.RecordOption
	observeOptions []metric.ObserveOption

	first  bool              // no other sampled when it was added
	queues [2]metrics.Sample // these two belong to whoever samples
	heap   heapTotals

	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
}

func newLoop(p *process, name string, settings Settings) *loop {
	name = strings.ToValidUTF8(name, "\uFFFD") // anything else fails the encoding of the whole export
	attributes := attributesOf(attribute.String(EventLoopAttribute, name))
	l := &loop{
		process:        p,
		name:           name,
		settings:       settings,
		now:            time.Now,
		recordOptions:  []metric.RecordOption{attributes},
		observeOptions: []metric.ObserveOption{attributes},
		queues:         [2]metrics.Sample{{Name: runnableMetric}, {Name: notInGoMetric}},
		done:           make(chan struct{}),
	}
	l.countTasks()
	return l
}

// start begins to sample, until stop.
func (l *loop) start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go l.run(ctx)
}

// stop ends the sampling and waits for the last sample, for at most patience:
// the sampler may be stuck in a histogram of a provider that blocks.
func (l *loop) stop(patience time.Duration) {
	l.cancel()
	await(l.done, time.Now().Add(patience))
}

func (l *loop) run(ctx context.Context) {
	defer close(l.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	l.process.beginWindow(l)
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
	defer l.process.failures.survive("sampling")
	queues := l.readQueues()
	// The runtime puts the goroutine of a timer before the run queue; after one
	// yield it has waited its turn like any other. Without it, 2,000 queued
	// goroutines read as a lag of 0.03 ms instead of 114. Where nobody waits, a
	// yield shows nothing, and wakes a thread to look for work.
	if queues.mayWait() {
		runtime.Gosched()
	}
	now := l.now()
	lag := max(now.Sub(due), 0)

	if instruments := l.process.instruments.Load(); instruments != nil {
		l.process.recordings.duration(context.Background(), &instruments.lag, lag, &l.recordOptions)
		if runnable, ok := queues.runnable.Get(); ok {
			l.process.recordings.count(context.Background(), &instruments.runQueue, int64(runnable), &l.recordOptions)
		} else {
			l.process.failures.report(EventLoopRunQueueInstrument, unknownMetric(runnableMetric))
		}
	}
	if driverTotals.driving.Load() {
		l.process.recordings.hasten(0) // the page shows admissions as they come
	} else {
		l.process.recordings.hasten(recordingPatience)
	}
	l.countTasks()
	l.process.tick(l)
	sample := takeSample(now, lag, queues)
	l.process.addToWindow(l, &sample)
}

// sampleLast takes the sample of Stop. It has no lag: nothing was due.
func (l *loop) sampleLast() {
	defer l.process.failures.survive("sampling")
	l.countTasks()
	l.process.tick(l)
}

// readQueues returns how many goroutines wait for a processor or for the
// kernel. It allocates nothing.
func (l *loop) readQueues() queues {
	metrics.Read(l.queues[:])
	return queues{runnable: reading(l.queues[0].Value), notInGo: reading(l.queues[1].Value)}
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
