package observer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/catalogue"
	"github.com/gym-observer/observer/internal/count"
	"github.com/gym-observer/observer/internal/reading"
	"github.com/gym-observer/observer/internal/survive"
)

// observable is one signal that is read, with its instrument, which one of the
// last two fields holds.
type observable struct {
	name       string
	fractional bool
	observe    source

	integer metric.Int64Observable
	float   metric.Float64Observable
}

func (o *observable) instrument() metric.Observable {
	if o.float != nil {
		return o.float
	}
	return o.integer
}

// source reads one row of the catalogue while the exporter collects.
type source = func(*collection, point) error

// newObservables makes the observables of the catalogue. It goes on past one that
// fails, and returns those failures joined.
func newObservables(meter metric.Meter, sources map[string]source) (made []observable, err error) {
	var failed []error
	for _, s := range catalogue.Signals {
		if s.Kind == catalogue.Histogram {
			continue
		}
		if one, err := newObservable(s, meter, sources[s.Name]); err != nil {
			failed = append(failed, fmt.Errorf("making %s: %w", s.Name, err))
		} else {
			made = append(made, one)
		}
	}
	return made, errors.Join(failed...)
}

func newObservable(s catalogue.Signal, meter metric.Meter, read source) (made observable, err error) {
	made = observable{name: s.Name, fractional: s.Fractional, observe: read}
	description, unit := metric.WithDescription(s.Description), metric.WithUnit(s.Unit)
	switch {
	case s.Kind == catalogue.Counter && s.Fractional:
		made.float, err = meter.Float64ObservableCounter(s.Name, description, unit)
	case s.Kind == catalogue.Counter:
		made.integer, err = meter.Int64ObservableCounter(s.Name, description, unit)
	case s.Kind == catalogue.UpDownCounter:
		made.integer, err = meter.Int64ObservableUpDownCounter(s.Name, description, unit)
	case s.Kind == catalogue.Gauge && s.Fractional:
		made.float, err = meter.Float64ObservableGauge(s.Name, description, unit)
	case s.Kind == catalogue.Gauge:
		made.integer, err = meter.Int64ObservableGauge(s.Name, description, unit)
	}
	return made, err
}

// collector is what the exporter's collections read of one run.
type collector struct {
	failures *survive.Failures
	process  reading.Process
	loops    *loops
	sampler  *sampler

	observables []observable // set before the callback is registered
	silent      atomic.Bool  // it observes nothing any more
	pool        sync.Pool    // of *collection
	attributes  attributeSets
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
func (c *collection) observe(row *observable, observer metric.Observer) {
	defer c.failures.Survive(row.name)
	if err := row.observe(c, point{row, observer}); err != nil {
		c.failures.Report(row.name, err)
	}
}

// point takes the values of one signal in one collection.
type point struct {
	row      *observable
	observer metric.Observer
}

func (p point) observe(value int64, options ...metric.ObserveOption) {
	p.observer.ObserveInt64(p.row.integer, value, options...)
}

func (p point) observeFloat(value float64, options ...metric.ObserveOption) {
	p.observer.ObserveFloat64(p.row.float, value, options...)
}

// repeat observes the last value of a counter. Without it, a delta reader would
// be given the whole total again after one cycle without a point.
func (p point) repeat(counter *count.Ratchet, options ...metric.ObserveOption) {
	value, ok := counter.Last()
	switch {
	case !ok:
	case p.row.fractional:
		p.observeFloat(value, options...)
	default:
		p.observe(int64(value), options...)
	}
}
