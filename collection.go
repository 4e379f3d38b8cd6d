package observer

import (
	"context"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/observable"
	"github.com/gym-observer/observer/internal/reading"
	"github.com/gym-observer/observer/internal/survive"
)

// collector is what the exporter's collections read of one run.
type collector struct {
	failures *survive.Failures
	process  reading.Process
	loops    *loops
	sampler  *sampler

	observables []observable.Row[*collection] // set before the callback is registered
	silent      atomic.Bool                   // it observes nothing any more
	pool        sync.Pool                     // of *collection
	attributes  observable.Sets
}

// collect is the callback of every observable. The SDK calls it on the
// exporter's goroutine, for several readers at once.
//
// It always returns nil: an error would lose the whole export, with the metrics
// of everybody else in it. It survives a panic, which would end the process. It
// takes no lock that Start or Stop holds, since Unregister waits for it.
func (r *collector) collect(_ context.Context, observer metric.Observer) error {
	defer r.failures.Survive("collecting")
	if r.silent.Load() {
		return nil
	}
	if to := r.sampler.recorder.Load(); to != nil {
		to.PassOn(passOnPatience) // so that this collection has all that was recorded before it
	}
	c, again := r.pool.Get().(*collection)
	if !again {
		c = &collection{collector: r, named: make(map[string]bool)}
	}
	defer r.pool.Put(c)
	c.heap.Read()
	c.descriptorsRead = false
	for i := range r.observables {
		c.observe(&r.observables[i], observer)
	}
	return nil
}

// collection is one reading of everything, for one reader. It holds what
// several signals share.
type collection struct {
	*collector
	heap  reading.HeapTotals
	named map[string]bool // the loops whose tasks are observed

	descriptorsRead   bool // in this collection
	descriptors       int64
	descriptorsFailed error
}

// observe reads one signal. Its failure is its own: the others go out.
func (c *collection) observe(row *observable.Row[*collection], observer metric.Observer) {
	defer c.failures.Survive(row.Name)
	if err := row.Read(c, row.Point(observer)); err != nil {
		c.failures.Report(row.Name, err)
	}
}
