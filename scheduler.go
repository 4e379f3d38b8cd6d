package observer

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/lag"
	"github.com/gym-observer/observer/internal/observable"
	"github.com/gym-observer/observer/internal/reading"
	"github.com/gym-observer/observer/internal/record"
)

// loop samples the scheduler for one Start.
type loop struct {
	*lag.Loop
	name    string
	counts  bool     // goroutines, at each sample
	sampler *sampler // what is sampled once for the process
	among   *loops   // which tell whose turn that is

	tasks          atomic.Int64 // goroutines at the last sample
	recordOptions  []metric.RecordOption
	observeOptions []metric.ObserveOption
}

// loops are those of the process.
type loops = lag.Turns[*loop]

func newLoop(name string, settings Settings, sampler *sampler, among *loops) *loop {
	name = strings.ToValidUTF8(name, "\uFFFD") // anything else fails the encoding of the whole export
	attributes := observable.Attributes(attribute.String(EventLoopAttribute, name))
	l := &loop{
		Loop:           lag.New(settings.SampleInterval),
		name:           name,
		counts:         settings.TaskCount,
		sampler:        sampler,
		among:          among,
		recordOptions:  []metric.RecordOption{attributes},
		observeOptions: []metric.ObserveOption{attributes},
	}
	l.countTasks()
	return l
}

// start begins to sample, until Stop. The loop that is first in the process opens
// the first window of the diagnosis: on its own goroutine, since that reads files,
// which Start does not wait for.
func (l *loop) start(first bool) {
	l.Start(func() {
		if first {
			l.sampler.begin(l.Now())
		}
	}, l.sample, l.sampleLast)
}

// sample measures how late this goroutine runs, having been due.
func (l *loop) sample(due time.Time) {
	defer l.sampler.failures.Survive("sampling")
	now, late, queues := l.Measure(due)
	if to := l.sampler.recorder.Load(); to != nil {
		l.record(to, late, queues)
	}
	l.countTasks()
	if l.among.Has(l) {
		l.sampler.take(now, late, queues, l.Interval)
	}
}

func (l *loop) record(to *recorder, late time.Duration, queues reading.Queues) {
	recorded := to.Samples.TryPut(record.OfFloat(context.Background(), &to.lag, record.Milliseconds(late), &l.recordOptions))
	if runnable, ok := queues.Runnable.Get(); ok {
		recorded = to.Samples.TryPut(record.OfInt(context.Background(), &to.runQueue, int64(runnable), &l.recordOptions)) && recorded
	} else {
		l.sampler.failures.Report(EventLoopRunQueueInstrument, reading.UnknownMetric(reading.RunnableMetric))
	}
	if !recorded {
		l.sampler.failures.Report("recording samples", record.ErrStuck)
	}
	to.Hasten(totals.driver.driving.Load())
}

// sampleLast takes the sample of Stop. It has no lag: nothing was due.
func (l *loop) sampleLast() {
	defer l.sampler.failures.Survive("sampling")
	l.countTasks()
	if l.among.Has(l) {
		l.sampler.takeLast()
	}
}

func (l *loop) countTasks() {
	if l.counts {
		l.tasks.Store(int64(runtime.NumGoroutine()))
	}
}
