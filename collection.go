package observer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/catalogue"
	"github.com/gym-observer/observer/internal/count"
	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/inflight"
	"github.com/gym-observer/observer/internal/reading"
)

// sources has what reads each observable of the catalogue when the exporter's
// goroutine collects; the rest are histograms, see instruments.go.
var sources = map[string]func(*collection, point) error{
	EventLoopTasksInstrument:              (*collection).tasks,
	GCCollectionsInstrument:               (*collection).collections,
	GCCollectedInstrument:                 (*collection).collected,
	GCUncollectableInstrument:             (*collection).uncollectable,
	GCCountInstrument:                     (*collection).allocatedSinceCollection,
	ProcessCPUTimeInstrument:              (*collection).cpuTime,
	ProcessMemoryUsageInstrument:          (*collection).memoryUsage,
	ProcessThreadCountInstrument:          (*collection).threadCount,
	ProcessOpenFDsInstrument:              (*collection).openDescriptors,
	ProcessUnixFDsInstrument:              (*collection).unixDescriptors,
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
func total(read func() int64) func(*collection, point) error {
	return func(_ *collection, to point) error {
		to.observe(read())
		return nil
	}
}

// ofDriver observes a number of the rollout driver, in a process that is one.
func ofDriver(read func(*DriverMetrics) int64) func(*collection, point) error {
	return func(_ *collection, to point) error {
		if totals.driver.driving.Load() {
			to.observe(read(&totals.driver))
		}
		return nil
	}
}

// oldestAge observes the age of the oldest work, while there is any.
func oldestAge(listed *inflight.Table) func(*collection, point) error {
	return func(_ *collection, to point) error {
		if age, any := listed.OldestAge(); any {
			to.observeFloat(age.Seconds())
		}
		return nil
	}
}

// last observes the last value of a counter that is read elsewhere.
func last(counter *count.Ratchet) func(*collection, point) error {
	return func(_ *collection, to point) error {
		to.repeat(counter)
		return nil
	}
}

// Attribute sets that never change. The slices are what variadic calls take
// without an allocation.
var (
	userObserve   = []metric.ObserveOption{attributesOf(attribute.String(CPUModeAttribute, "user"))}
	systemObserve = []metric.ObserveOption{attributesOf(attribute.String(CPUModeAttribute, "system"))}
	causeObserve  = func() (all [diagnosis.NumCauses][]metric.ObserveOption) {
		for cause := diagnosis.None + 1; int(cause) < diagnosis.NumCauses; cause++ { // none has no series
			all[cause] = []metric.ObserveOption{attributesOf(attribute.String(CauseAttribute, cause.Name()))}
		}
		return all
	}()
)

// observable is one signal that is read, with its instrument, which one of the
// last two fields holds.
type observable struct {
	name       string
	fractional bool
	observe    func(*collection, point) error

	integer metric.Int64Observable
	float   metric.Float64Observable
}

func (o *observable) instrument() metric.Observable {
	if o.float != nil {
		return o.float
	}
	return o.integer
}

// newObservables makes the observables of the catalogue. It goes on past one that
// fails, and returns those failures joined.
func newObservables(meter metric.Meter) (made []observable, err error) {
	var failed []error
	for _, s := range catalogue.Signals {
		if s.Kind == catalogue.Histogram {
			continue
		}
		if one, err := newObservable(s, meter); err != nil {
			failed = append(failed, fmt.Errorf("making %s: %w", s.Name, err))
		} else {
			made = append(made, one)
		}
	}
	return made, errors.Join(failed...)
}

func newObservable(s catalogue.Signal, meter metric.Meter) (made observable, err error) {
	made = observable{name: s.Name, fractional: s.Fractional, observe: sources[s.Name]}
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
	failures *failures
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
	defer r.failures.survive("collecting")
	if r.silent.Load() {
		return nil
	}
	if to := r.sampler.recorder.Load(); to != nil {
		to.passOn(passOnPatience) // so that this collection has all that was recorded before it
	}
	c, again := r.pool.Get().(*collection)
	if !again {
		c = &collection{collector: r, named: make(map[string]bool)}
	}
	defer r.pool.Put(c)
	c.heap.Read()
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

	descriptors       int64
	descriptorsFailed error
}

// observe reads one signal. Its failure is its own: the others go out.
func (c *collection) observe(row *observable, observer metric.Observer) {
	defer c.failures.survive(row.name)
	if err := row.observe(c, point{row, observer}); err != nil {
		c.failures.report(row.name, err)
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

func (c *collection) tasks(to point) error {
	// Two points with one attribute set would be added up or dropped.
	clear(c.named)
	for _, loop := range c.loops.all() {
		if loop.settings.TaskCount && !c.named[loop.name] {
			c.named[loop.name] = true
			to.observe(loop.tasks.Load(), loop.observeOptions...)
		}
	}
	return nil
}

func (c *collection) collections(to point) error {
	return c.heapCounter(to, reading.Collections, &totals.collections)
}

func (c *collection) collected(to point) error {
	return c.heapCounter(to, reading.Freed, &totals.collected)
}

func (c *collection) uncollectable(to point) error {
	return c.heapCounter(to, reading.Finalizers, &totals.uncollectable)
}

func (c *collection) heapCounter(to point, which int, counter *count.Ratchet) error {
	value, err := c.heap.Get(which)
	if err == nil {
		counter.Raise(float64(value))
	}
	to.repeat(counter, generationObserve...)
	return err
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

func (c *collection) memoryUsage(to point) error {
	bytes, err := c.process.ResidentMemory()
	return to.observeUnless(err, bytes)
}

func (c *collection) threadCount(to point) error {
	threads, err := c.process.Threads()
	return to.observeUnless(err, threads)
}

// openDescriptors is read once for the signal's two names.
func (c *collection) openDescriptors(to point) error {
	c.descriptorsFailed = errors.ErrUnsupported // should the source panic
	c.descriptors, c.descriptorsFailed = c.process.OpenDescriptors()
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

// attributeSets has the sets of what is found in the course of a run: statuses and
// routes. Each is made once, by whichever collection meets it first.
type attributeSets struct {
	byStatus sync.Map // int to []metric.ObserveOption
	byRoute  sync.Map // *count.Route to *routeSets
}

type routeSets struct{ beforeResponse, responseStarted []metric.ObserveOption }

func (s *attributeSets) ofStatus(status int) []metric.ObserveOption {
	if set, ok := s.byStatus.Load(status); ok {
		return set.([]metric.ObserveOption)
	}
	set, _ := s.byStatus.LoadOrStore(status, []metric.ObserveOption{attributesOf(attribute.Int(HTTPStatusCodeAttribute, status))})
	return set.([]metric.ObserveOption)
}

func (s *attributeSets) ofRoute(route *count.Route) *routeSets {
	if sets, ok := s.byRoute.Load(route); ok {
		return sets.(*routeSets)
	}
	of := func(phase string) []metric.ObserveOption {
		return []metric.ObserveOption{attributesOf(
			attribute.String(HTTPRouteAttribute, route.Name),
			attribute.String(RequestPhaseAttribute, phase),
		)}
	}
	sets, _ := s.byRoute.LoadOrStore(route, &routeSets{of("before_response"), of("response_started")})
	return sets.(*routeSets)
}
