package observer

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The last values of the counters that are read from elsewhere. They belong to
// the process, not to one Start.
var lastCPUUser, lastCPUSystem, lastCollections, lastCollected, lastUncollectable ratchet

// The same, read from the kernel once a window.
var lastThrottled, lastRunDelay ratchet

// Attribute sets that never change. The slices are what variadic calls take
// without an allocation.
var (
	generationRecord  = []metric.RecordOption{attributesOf(attribute.Int(GCGenerationAttribute, 0))}
	generationObserve = []metric.ObserveOption{attributesOf(attribute.Int(GCGenerationAttribute, 0))}
	userObserve       = []metric.ObserveOption{attributesOf(attribute.String(CPUModeAttribute, "user"))}
	systemObserve     = []metric.ObserveOption{attributesOf(attribute.String(CPUModeAttribute, "system"))}
)

// collection is one reading of everything, for one reader. It holds what
// several signals share.
type collection struct {
	process *process
	heap    heapTotals
	named   map[string]bool // the loops whose tasks are observed

	descriptors       int64
	descriptorsFailed error

	passedOn chan bool // for recordings.passOn
	patience *time.Timer
}

func newCollection() *collection {
	patience := time.NewTimer(time.Hour)
	patience.Stop()
	return &collection{named: make(map[string]bool), passedOn: make(chan bool, 1), patience: patience}
}

// collect is the callback of every observable. The SDK calls it on the
// exporter's goroutine, for several readers at once.
//
// It always returns nil: an error would lose the whole export, with the metrics
// of everybody else in it. It survives a panic, which would end the process. It
// takes no lock that Start or Stop holds, since Unregister waits for it.
func (p *process) collect(_ context.Context, observer metric.Observer) error {
	defer p.failures.survive("collecting")
	instruments := p.instruments.Load()
	if instruments == nil || p.silent.Load() {
		return nil
	}
	c := p.collections.Get().(*collection)
	c.patience.Reset(passOnPatience)
	if p.recordings.passOn(c.passedOn, c.patience.C) {
		defer p.collections.Put(c)
	}
	c.patience.Stop()
	c.process = p
	c.heap.read()
	for i := range instruments.observables {
		c.observe(&instruments.observables[i], observer)
	}
	return nil
}

// observe reads one signal. Its failure is its own: the others go out.
func (c *collection) observe(row *observable, observer metric.Observer) {
	defer c.process.failures.survive(row.name)
	if err := row.observe(c, point{row, observer}); err != nil {
		c.process.failures.report(row.name, err)
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
func (p point) repeat(counter *ratchet, options ...metric.ObserveOption) {
	value, ok := counter.last()
	switch {
	case !ok:
	case p.row.fractional:
		p.observeFloat(value, options...)
	default:
		p.observe(int64(value), options...)
	}
}

func (c *collection) tasks(to point) error {
	// Two points with one attribute set would be added up or dropped.
	clear(c.named)
	for _, loop := range *c.process.loops.Load() {
		if loop.settings.TaskCount && !c.named[loop.name] {
			c.named[loop.name] = true
			to.observe(loop.tasks.Load(), loop.observeOptions...)
		}
	}
	return nil
}

func (c *collection) collections(to point) error {
	return c.heapCounter(to, cycles, &lastCollections)
}

func (c *collection) collected(to point) error {
	return c.heapCounter(to, frees, &lastCollected)
}

func (c *collection) uncollectable(to point) error {
	return c.heapCounter(to, finalizers, &lastUncollectable)
}

func (c *collection) heapCounter(to point, total int, counter *ratchet) error {
	value, err := c.heap.get(total)
	if err == nil {
		counter.raise(float64(value))
	}
	to.repeat(counter, generationObserve...)
	return err
}

func (c *collection) allocatedSinceCollection(to point) error {
	objects, err := c.process.allocated.notice(&c.heap)
	if err == nil {
		to.observe(objects, generationObserve...)
	}
	return err
}

func (c *collection) cpuTime(to point) (err error) {
	// Also past a panic of the source, so that the counter is not silent.
	defer func() {
		to.repeat(&lastCPUUser, userObserve...)
		to.repeat(&lastCPUSystem, systemObserve...)
	}()
	user, system, err := c.process.source.cpuTime()
	if err == nil {
		lastCPUUser.raise(user)
		lastCPUSystem.raise(system)
	}
	return err
}

func (c *collection) memoryUsage(to point) error {
	bytes, err := c.process.source.residentMemory()
	return to.observeUnless(err, bytes)
}

func (c *collection) threadCount(to point) error {
	threads, err := c.process.source.threads()
	return to.observeUnless(err, threads)
}

// openDescriptors is read once for the signal's two names.
func (c *collection) openDescriptors(to point) error {
	c.descriptorsFailed = errors.ErrUnsupported // should the source panic
	c.descriptors, c.descriptorsFailed = c.process.source.openDescriptors()
	return to.observeUnless(c.descriptorsFailed, c.descriptors)
}

// unixDescriptors repeats what openDescriptors, the row before it, has read. A
// failure was reported there.
func (c *collection) unixDescriptors(to point) error {
	_ = to.observeUnless(c.descriptorsFailed, c.descriptors)
	return nil
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
	for _, seen := range requestTotals.seen.all() {
		if n := requestTotals.responded(seen.status); n > 0 {
			to.observe(n, seen.options...)
		}
	}
	return nil
}

func (c *collection) cancellations(to point) error {
	for _, route := range requestTotals.routes.all() {
		if n := route.beforeResponse.Load(); n > 0 {
			to.observe(n, route.beforeOptions...)
		}
		if n := route.responseStarted.Load(); n > 0 {
			to.observe(n, route.startedOptions...)
		}
	}
	return nil
}

// driver observes a value of the rollout driver, in a process that is one.
func (c *collection) driver(to point, value int64) error {
	if driverTotals.driving.Load() {
		to.observe(value)
	}
	return nil
}

// load observes the last complete window. What it could not measure has no
// point.
func (c *collection) load(to point) error {
	latest := c.process.diagnosed.Load()
	if latest == nil {
		return nil
	}
	for cause, load := range latest.Window.Load {
		if load, measured := load.Get(); measured {
			to.observeFloat(load, causeOptions[cause]...)
		}
	}
	return nil
}

// slowTime observes a zero, too, once there is a diagnosis: a query for the
// increase of a series misses what it began with.
func (c *collection) slowTime(to point) error {
	diagnosed := c.process.diagnosed.Load() != nil
	for cause, options := range causeOptions {
		if nanos := slowTime[cause].Load(); options != nil && (nanos > 0 || diagnosed) {
			to.observeFloat(time.Duration(nanos).Seconds(), options...)
		}
	}
	return nil
}

func (c *collection) oldestAge(to point, kind string) error {
	if age, any := inFlightWork.oldestAge(kind); any {
		to.observeFloat(age.Seconds())
	}
	return nil
}

// routeOptions returns the attribute set of a cancellation.
func routeOptions(route, phase string) []metric.ObserveOption {
	return []metric.ObserveOption{attributesOf(
		attribute.String(HTTPRouteAttribute, route),
		attribute.String(RequestPhaseAttribute, phase),
	)}
}
