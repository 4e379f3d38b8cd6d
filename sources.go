package observer

import (
	"errors"
	"time"

	"github.com/gym-observer/observer/internal/count"
	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/inflight"
	"github.com/gym-observer/observer/internal/reading"
)

// sources has what reads each observable of the catalogue when the exporter's
// goroutine collects; the rest are histograms, see instruments.go.
var sources = map[string]func(*collection, point) error{
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
func total(read func() int64) source {
	return func(_ *collection, to point) error {
		to.observe(read())
		return nil
	}
}

// ofDriver observes a number of the rollout driver, in a process that is one.
func ofDriver(read func(*DriverMetrics) int64) source {
	return func(_ *collection, to point) error {
		if totals.driver.driving.Load() {
			to.observe(read(&totals.driver))
		}
		return nil
	}
}

// oldestAge observes the age of the oldest work, while there is any.
func oldestAge(listed *inflight.Table) source {
	return func(_ *collection, to point) error {
		if age, any := listed.OldestAge(); any {
			to.observeFloat(age.Seconds())
		}
		return nil
	}
}

// last observes the last value of a counter that is read elsewhere.
func last(counter *count.Ratchet) source {
	return func(_ *collection, to point) error {
		to.repeat(counter)
		return nil
	}
}

// heapTotal observes a total of the collector's, or its last value where this Go
// does not tell.
func heapTotal(which int, counter *count.Ratchet) source {
	return func(c *collection, to point) error {
		value, err := c.heap.Get(which)
		if err == nil {
			counter.Raise(float64(value))
		}
		to.repeat(counter, generationObserve...)
		return err
	}
}

// ofProcess observes what the kernel says of the process.
func ofProcess(read func(reading.Process) (int64, error)) source {
	return func(c *collection, to point) error {
		value, err := read(c.process)
		return to.observeUnless(err, value)
	}
}

func (c *collection) tasks(to point) error {
	// Two points with one attribute set would be added up or dropped.
	clear(c.named)
	for _, loop := range c.loops.All() {
		if loop.counts && !c.named[loop.name] {
			c.named[loop.name] = true
			to.observe(loop.tasks.Load(), loop.observeOptions...)
		}
	}
	return nil
}

func (c *collection) allocatedSinceCollection(to point) error {
	objects, err := c.sampler.gc.allocated.Notice(&c.heap)
	if err == nil {
		to.observe(objects, generationObserve...)
	}
	return err
}

func (c *collection) cpuTime(to point) (err error) {
	// Also past a panic of the source, so that the counter is not silent.
	defer func() {
		to.repeat(&totals.cpuUser, userObserve...)
		to.repeat(&totals.cpuSystem, systemObserve...)
	}()
	user, system, err := c.process.CPUTime()
	if err == nil {
		totals.cpuUser.Raise(user)
		totals.cpuSystem.Raise(system)
	}
	return err
}

func (c *collection) openDescriptors(to point) error {
	first := c.readDescriptors()
	failed := to.observeUnless(c.descriptorsFailed, c.descriptors)
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

// observeUnless leaves the point out where its reading failed: there is no
// invented zero. It returns the failure.
func (p point) observeUnless(failed error, value int64) error {
	if failed == nil {
		p.observe(value)
	}
	return failed
}

func (c *collection) responses(to point) error {
	for status, n := range totals.requests.responses.All() {
		to.observe(n, c.attributes.ofStatus(status)...)
	}
	return nil
}

func (c *collection) cancellations(to point) error {
	for _, route := range totals.requests.routes.All() {
		sets := c.attributes.ofRoute(route)
		if n := route.BeforeResponse.Load(); n > 0 {
			to.observe(n, sets.beforeResponse...)
		}
		if n := route.ResponseStarted.Load(); n > 0 {
			to.observe(n, sets.responseStarted...)
		}
	}
	return nil
}

// load observes the last complete window. What it could not measure has no
// point.
func (c *collection) load(to point) error {
	latest := c.sampler.diagnosed.Load()
	if latest == nil {
		return nil
	}
	for cause := range diagnosis.All() {
		if load, measured := latest.Window.Load[cause].Get(); measured {
			to.observeFloat(load, causeObserve[cause]...)
		}
	}
	return nil
}

// slowTime observes a zero, too, once there is a diagnosis: a query for the
// increase of a series misses what it began with.
func (c *collection) slowTime(to point) error {
	diagnosed := c.sampler.diagnosed.Load() != nil
	for cause := range totals.slowTime {
		if nanos := totals.slowTime[cause].Load(); (nanos > 0 || diagnosed) && causeObserve[cause] != nil {
			to.observeFloat(time.Duration(nanos).Seconds(), causeObserve[cause]...)
		}
	}
	return nil
}
