package observer

import (
	"errors"
	"time"

	"github.com/gym-observer/observer/internal/count"
	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/inflight"
	"github.com/gym-observer/observer/internal/observable"
	"github.com/gym-observer/observer/internal/reading"
)

// sources has what reads each observable of the catalogue when the exporter's
// goroutine collects; the rest are histograms, see instruments.go.
var sources = map[string]observable.Source[*collection]{
	EventLoopTasksInstrument:              (*collection).tasks,
	GCCollectionsInstrument:               heapTotal(reading.Collections, &totals.collections),
	GCCollectedInstrument:                 heapTotal(reading.Freed, &totals.collected),
	GCUncollectableInstrument:             heapTotal(reading.Finalizers, &totals.uncollectable),
	GCCountInstrument:                     (*collection).allocatedSinceCollection,
	ProcessCPUTimeInstrument:              (*collection).cpuTime,
	ProcessMemoryUsageInstrument:          ofProcess(reading.Process.ResidentMemory),
	ProcessThreadCountInstrument:          ofProcess(reading.Process.Threads),
	ProcessOpenFDsInstrument:              (*collection).openDescriptors,
	ProcessUnixFDsInstrument:              (*collection).openDescriptors, // also where the provider refuses the other name
	RequestsInFlightInstrument:            total(func() int64 { return totals.requests.inFlight() }),
	RequestsUnhandledExceptionsInstrument: total(func() int64 { return totals.requests.exceptions.Load() }),
	ResponsesInstrument:                   (*collection).responses,
	RequestsCancelledInstrument:           (*collection).cancellations,
	OutboundInFlightInstrument:            total(func() int64 { return totals.requests.outbound.Now() }),
	OutboundOldestAgeInstrument:           oldestAge(&totals.requests.calls),
	DriverOfferedInstrument:               ofDriver(func(d *DriverMetrics) int64 { return d.offered.Load() }),
	DriverResidentInstrument:              ofDriver(func(d *DriverMetrics) int64 { return d.resident.Now() }),
	DriverActiveInstrument:                ofDriver(func(d *DriverMetrics) int64 { return d.active.Load() }),
	DriverAbandonedInstrument:             ofDriver(func(d *DriverMetrics) int64 { return d.abandoned.Load() }),
	LoadInstrument:                        (*collection).load,
	SlowTimeInstrument:                    (*collection).slowTime,
	RequestsOldestAgeInstrument:           oldestAge(&totals.requests.listed),
	RolloutsOldestAgeInstrument:           oldestAge(&totals.driver.listed),
	CPUThrottledTimeInstrument:            last(&totals.throttled),
	CPURunDelayInstrument:                 last(&totals.runDelay),
}

// total observes a number of this process.
func total(read func() int64) observable.Source[*collection] {
	return func(_ *collection, to observable.Point) error {
		to.Observe(read())
		return nil
	}
}

// ofDriver observes a number of the rollout driver, in a process that is one.
func ofDriver(read func(*DriverMetrics) int64) observable.Source[*collection] {
	return func(_ *collection, to observable.Point) error {
		if totals.driver.driving.Load() {
			to.Observe(read(&totals.driver))
		}
		return nil
	}
}

// oldestAge observes the age of the oldest work, while there is any.
func oldestAge(listed *inflight.Table) observable.Source[*collection] {
	return func(_ *collection, to observable.Point) error {
		if age, any := listed.OldestAge(); any {
			to.ObserveFloat(age.Seconds())
		}
		return nil
	}
}

// last observes the last value of a counter that is read elsewhere.
func last(counter *count.Ratchet) observable.Source[*collection] {
	return func(_ *collection, to observable.Point) error {
		to.Repeat(counter)
		return nil
	}
}

// heapTotal observes a total of the collector's, or its last value where this Go
// does not tell.
func heapTotal(which int, counter *count.Ratchet) observable.Source[*collection] {
	return func(c *collection, to observable.Point) error {
		value, err := c.heap.Get(which)
		if err == nil {
			counter.Raise(float64(value))
		}
		to.Repeat(counter, generationObserve...)
		return err
	}
}

// ofProcess observes what the kernel says of the process.
func ofProcess(read func(reading.Process) (int64, error)) observable.Source[*collection] {
	return func(c *collection, to observable.Point) error {
		value, err := read(c.process)
		return to.ObserveUnless(err, value)
	}
}

func (c *collection) tasks(to observable.Point) error {
	// Two points with one attribute set would be added up or dropped.
	clear(c.named)
	for _, loop := range c.loops.All() {
		if loop.counts && !c.named[loop.name] {
			c.named[loop.name] = true
			to.Observe(loop.tasks.Load(), loop.observeOptions...)
		}
	}
	return nil
}

func (c *collection) allocatedSinceCollection(to observable.Point) error {
	objects, err := c.sampler.gc.allocated.Notice(&c.heap)
	if err == nil {
		to.Observe(objects, generationObserve...)
	}
	return err
}

func (c *collection) cpuTime(to observable.Point) (err error) {
	// Also past a panic of the source, so that the counter is not silent.
	defer func() {
		to.Repeat(&totals.cpuUser, observable.User...)
		to.Repeat(&totals.cpuSystem, observable.System...)
	}()
	user, system, err := c.process.CPUTime()
	if err == nil {
		totals.cpuUser.Raise(user)
		totals.cpuSystem.Raise(system)
	}
	return err
}

func (c *collection) openDescriptors(to observable.Point) error {
	first := c.readDescriptors()
	failed := to.ObserveUnless(c.descriptorsFailed, c.descriptors)
	if !first {
		return nil // the other name has reported it
	}
	return failed
}

// readDescriptors reads once in a collection, for the signal's two names, and reports
// whether it did so now.
func (c *collection) readDescriptors() (first bool) {
	if c.descriptorsRead {
		return false
	}
	c.descriptorsRead, c.descriptorsFailed = true, errors.ErrUnsupported // should the source panic
	c.descriptors, c.descriptorsFailed = c.process.OpenDescriptors()
	return true
}

func (c *collection) responses(to observable.Point) error {
	for status, n := range totals.requests.responses.All() {
		to.Observe(n, c.attributes.OfStatus(status)...)
	}
	return nil
}

func (c *collection) cancellations(to observable.Point) error {
	for _, route := range totals.requests.routes.All() {
		sets := c.attributes.OfRoute(route)
		if n := route.BeforeResponse.Load(); n > 0 {
			to.Observe(n, sets.BeforeResponse...)
		}
		if n := route.ResponseStarted.Load(); n > 0 {
			to.Observe(n, sets.ResponseStarted...)
		}
	}
	return nil
}

// load observes the last complete window. What it could not measure has no
// point.
func (c *collection) load(to observable.Point) error {
	latest := c.sampler.diagnosed.Load()
	if latest == nil {
		return nil
	}
	for cause := range diagnosis.All() {
		if load, measured := latest.Window.Load[cause].Get(); measured {
			to.ObserveFloat(load, observable.OfCause[cause]...)
		}
	}
	return nil
}

// slowTime observes a zero, too, once there is a diagnosis: a query for the
// increase of a series misses what it began with.
func (c *collection) slowTime(to observable.Point) error {
	diagnosed := c.sampler.diagnosed.Load() != nil
	for cause := range totals.slowTime {
		if nanos := totals.slowTime[cause].Load(); (nanos > 0 || diagnosed) && observable.OfCause[cause] != nil {
			to.ObserveFloat(time.Duration(nanos).Seconds(), observable.OfCause[cause]...)
		}
	}
	return nil
}
