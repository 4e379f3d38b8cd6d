package reading

import (
	"runtime/metrics"

	"github.com/gym-observer/observer/internal/number"
)

const (
	// RunnableMetric counts goroutines that could run and do not.
	RunnableMetric = "/sched/goroutines/runnable:goroutines"

	// notInGoMetric counts those in system calls or C code.
	notInGoMetric = "/sched/goroutines/not-in-go:goroutines"
)

// Queues are the goroutines that wait, by what the runtime knows of them.
type Queues struct {
	Runnable number.Number // ready but not running
	NotInGo  number.Number // in system calls or C code
}

// MayWait reports whether a goroutine may be waiting for a processor.
func (q Queues) MayWait() bool { return q.Runnable.Or(1) > 0 }

// QueueReader reads them. It allocates nothing after its first use, and is not
// safe for concurrent use.
type QueueReader struct{ samples [2]metrics.Sample }

// Read returns how many goroutines wait for a processor or for the kernel.
func (r *QueueReader) Read() Queues {
	if r.samples[0].Name == "" { // else a test's
		r.samples[0].Name, r.samples[1].Name = RunnableMetric, notInGoMetric
	}
	metrics.Read(r.samples[:])
	return Queues{Runnable: numberOf(r.samples[0].Value), NotInGo: numberOf(r.samples[1].Value)}
}
