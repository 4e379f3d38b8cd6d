package observer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/catalogue"
)

// What is made from the catalogue: the table in the README and the dashboards.
//go:generate go test -run TestReadmeTable -update .
//go:generate go -C internal/dashboards run .

// The names of the instruments, as NeMo Gym's Python processes export them.
const (
	EventLoopLagInstrument      = "gym.event_loop.lag_ms"
	EventLoopTasksInstrument    = "gym.event_loop.tasks"
	EventLoopRunQueueInstrument = "gym.event_loop.run_queue"

	GCPauseInstrument         = "gym.gc.pause_duration_ms"
	GCCollectionsInstrument   = "gym.gc.collections_total"
	GCCollectedInstrument     = "gym.gc.collected_total"
	GCUncollectableInstrument = "gym.gc.uncollectable_total"
	GCCountInstrument         = "gym.gc.count"

	ProcessCPUTimeInstrument     = "process.cpu.time"
	ProcessMemoryUsageInstrument = "process.memory.usage"
	ProcessThreadCountInstrument = "process.thread.count"
	ProcessOpenFDsInstrument     = "process.open_file_descriptor.count"
	ProcessUnixFDsInstrument     = "process.unix.file_descriptor.count"

	RequestsInFlightInstrument            = "gym.server.requests.in_flight"
	RequestsUnhandledExceptionsInstrument = "gym.server.requests.unhandled_exceptions_total"
	ResponsesInstrument                   = "gym.server.responses_total"
	RequestsCancelledInstrument           = "gym.server.requests.cancelled_total"
	OutboundInFlightInstrument            = "gym.http.client.requests.in_flight"

	DriverOfferedInstrument       = "gym.driver.rollouts.offered_total"
	DriverResidentInstrument      = "gym.driver.rollouts.resident"
	DriverActiveInstrument        = "gym.driver.rollouts.active"
	DriverAdmissionInstrument     = "gym.driver.admission_duration_ms"
	DriverAbandonedInstrument     = "gym.driver.admission_abandoned_total"
	DriverWriteDurationInstrument = "gym.driver.output_write_duration_ms"
	DriverWriteBytesInstrument    = "gym.driver.output_write_bytes"
	DriverMaterializeInstrument   = "gym.driver.materialize_duration_ms"

	RolloutInputItemsInstrument  = "gym.driver.rollout.input_items"
	RolloutOutputItemsInstrument = "gym.driver.rollout.output_items"
	RolloutTurnsInstrument       = "gym.driver.rollout.turns"
	RolloutToolCallsInstrument   = "gym.driver.rollout.tool_calls"
)

// The names of the diagnosis's instruments.
const (
	LoadInstrument              = "gym.load"
	SlowTimeInstrument          = "gym.slow_time"
	RequestsOldestAgeInstrument = "gym.server.requests.oldest_age"
	RolloutsOldestAgeInstrument = "gym.driver.rollouts.oldest_age"
	CPUThrottledTimeInstrument  = "process.cpu.throttled_time"
	CPURunDelayInstrument       = "process.cpu.run_delay"
)

// The keys of the attributes.
const (
	EventLoopAttribute      = "nemo.gym.event_loop"       // the loop name given to Start
	GCGenerationAttribute   = "nemo.gym.gc.generation"    // always 0: Go's collector has no generations
	CPUModeAttribute        = "cpu.mode"                  // "user" or "system"
	HTTPRouteAttribute      = "http.route"                // a registered template, "unmatched" or "overflow"
	HTTPStatusCodeAttribute = "http.response.status_code" // an integer
	RequestPhaseAttribute   = "nemo.gym.request.phase"    // "before_response" or "response_started"
	CauseAttribute          = "nemo.gym.cause"            // a Cause
)

// scopeName is the instrumentation scope of every instrument.
const scopeName = "github.com/gym-observer/observer"

// source is where the values of a signal come from. Exactly one of the three is
// set: a histogram records them as they happen, an observable reads them when the
// exporter's goroutine collects.
type source struct {
	float   func(*instruments) *floatHistogram
	integer func(*instruments) *intHistogram
	observe func(*collection, point) error
}

// sources has the source of every signal in the catalogue. A new signal is its
// name above, one row in the catalogue, one source here, and one test.
var sources = map[string]source{
	EventLoopLagInstrument:       {float: func(i *instruments) *floatHistogram { return &i.lag }},
	EventLoopTasksInstrument:     {observe: (*collection).tasks},
	EventLoopRunQueueInstrument:  {integer: func(i *instruments) *intHistogram { return &i.runQueue }},
	GCPauseInstrument:            {float: func(i *instruments) *floatHistogram { return &i.gcPause }},
	GCCollectionsInstrument:      {observe: (*collection).collections},
	GCCollectedInstrument:        {observe: (*collection).collected},
	GCUncollectableInstrument:    {observe: (*collection).uncollectable},
	GCCountInstrument:            {observe: (*collection).allocatedSinceCollection},
	ProcessCPUTimeInstrument:     {observe: (*collection).cpuTime},
	ProcessMemoryUsageInstrument: {observe: (*collection).memoryUsage},
	ProcessThreadCountInstrument: {observe: (*collection).threadCount},
	ProcessOpenFDsInstrument:     {observe: (*collection).openDescriptors},
	ProcessUnixFDsInstrument:     {observe: (*collection).unixDescriptors},
	RequestsInFlightInstrument: {observe: func(c *collection, to point) error {
		to.observe(requestTotals.servedNow())
		return nil
	}},
	RequestsUnhandledExceptionsInstrument: {observe: func(c *collection, to point) error {
		to.observe(requestTotals.exceptions.Load())
		return nil
	}},
	ResponsesInstrument:         {observe: (*collection).responses},
	RequestsCancelledInstrument: {observe: (*collection).cancellations},
	OutboundInFlightInstrument: {observe: func(c *collection, to point) error {
		to.observe(requestTotals.outbound.now())
		return nil
	}},
	DriverOfferedInstrument: {observe: func(c *collection, to point) error {
		return c.driver(to, driverTotals.offered.Load())
	}},
	DriverResidentInstrument: {observe: func(c *collection, to point) error {
		return c.driver(to, driverTotals.resident.now())
	}},
	DriverActiveInstrument: {observe: func(c *collection, to point) error {
		return c.driver(to, driverTotals.active.Load())
	}},
	DriverAdmissionInstrument: {float: func(i *instruments) *floatHistogram { return &i.admission }},
	DriverAbandonedInstrument: {observe: func(c *collection, to point) error {
		return c.driver(to, driverTotals.abandoned.Load())
	}},
	DriverWriteDurationInstrument: {float: func(i *instruments) *floatHistogram { return &i.writeDuration }},
	DriverWriteBytesInstrument:    {integer: func(i *instruments) *intHistogram { return &i.writeBytes }},
	DriverMaterializeInstrument:   {float: func(i *instruments) *floatHistogram { return &i.materialize }},
	RolloutInputItemsInstrument:   {integer: func(i *instruments) *intHistogram { return &i.inputItems }},
	RolloutOutputItemsInstrument:  {integer: func(i *instruments) *intHistogram { return &i.outputItems }},
	RolloutTurnsInstrument:        {integer: func(i *instruments) *intHistogram { return &i.turns }},
	RolloutToolCallsInstrument:    {integer: func(i *instruments) *intHistogram { return &i.toolCalls }},
	LoadInstrument:                {observe: (*collection).load},
	SlowTimeInstrument:            {observe: (*collection).slowTime},
	RequestsOldestAgeInstrument: {observe: func(c *collection, to point) error {
		return c.oldestAge(to, requestWork)
	}},
	RolloutsOldestAgeInstrument: {observe: func(c *collection, to point) error {
		return c.oldestAge(to, rolloutWork)
	}},
	CPUThrottledTimeInstrument: {observe: func(c *collection, to point) error {
		to.repeat(&lastThrottled)
		return nil
	}},
	CPURunDelayInstrument: {observe: func(c *collection, to point) error {
		to.repeat(&lastRunDelay)
		return nil
	}},
}

// instruments are the catalogue's rows as one meter made them. A row that the
// meter refused records nothing.
type instruments struct {
	lag, gcPause                          floatHistogram
	admission, writeDuration, materialize floatHistogram
	runQueue, writeBytes                  intHistogram
	inputItems, outputItems               intHistogram
	turns, toolCalls                      intHistogram

	observables []observable
}

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

// newInstruments makes the instruments of the catalogue that the runtime can
// fill. It goes on past a row that fails, and returns those failures joined.
func newInstruments(meter metric.Meter, failures *failures) (*instruments, error) {
	made := new(instruments)
	made.admission.recorded = new(recordedTotals)
	var failed []error
	for _, signal := range catalogue.Signals {
		if err := made.add(signal, meter, failures); err != nil {
			failed = append(failed, fmt.Errorf("making %s: %w", signal.Name, err))
		}
	}
	return made, errors.Join(failed...)
}

func (i *instruments) add(s catalogue.Signal, meter metric.Meter, failures *failures) error {
	from := sources[s.Name]
	description, unit := metric.WithDescription(s.Description), metric.WithUnit(s.Unit)
	switch {
	case from.float != nil:
		h, err := meter.Float64Histogram(s.Name, description, unit, metric.WithExplicitBucketBoundaries(s.Boundaries...))
		made := from.float(i)
		made.to, made.name, made.failures = h, s.Name, failures
		return err
	case from.integer != nil:
		h, err := meter.Int64Histogram(s.Name, description, unit, metric.WithExplicitBucketBoundaries(s.Boundaries...))
		*from.integer(i) = intHistogram{h, s.Name, failures}
		return err
	}
	made := observable{name: s.Name, fractional: s.Fractional, observe: from.observe}
	var err error
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
	if err == nil {
		i.observables = append(i.observables, made)
	}
	return err
}

// enabled reports whether a recording would go anywhere: the API's no-op and a
// global provider that nobody has set say no, as does an SDK without a reader.
func (i *instruments) enabled() bool {
	for _, from := range sources {
		switch {
		case from.float != nil && from.float(i).enabled(), from.integer != nil && from.integer(i).enabled():
			return true
		}
	}
	return false
}

// floatHistogram records finite values into one histogram. The zero value
// records nothing.
type floatHistogram struct {
	to       metric.Float64Histogram
	name     string
	failures *failures

	recorded *recordedTotals // nil where the page does not show them
}

// recordedTotals are what a histogram has taken: a provider does not tell.
type recordedTotals struct {
	count, sum atomic.Int64 // the sum in millionths of the unit
}

// record drops what is not finite, since one NaN would poison the histogram's
// sum for ever, and survives a panic of the provider.
func (h *floatHistogram) record(ctx context.Context, value float64, options ...metric.RecordOption) {
	if h.to == nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	defer h.failures.survive(h.name)
	if h.recorded != nil {
		h.recorded.count.Add(1)
		h.recorded.sum.Add(int64(value * 1e6))
	}
	h.to.Record(contextOrBackground(ctx), value, options...)
}

func (h *floatHistogram) enabled() bool {
	return h.to != nil && h.to.Enabled(context.Background())
}

// intHistogram records counts into one histogram. The zero value records
// nothing.
type intHistogram struct {
	to       metric.Int64Histogram
	name     string
	failures *failures
}

// record drops a negative value and survives a panic of the provider.
func (h *intHistogram) record(ctx context.Context, value int64, options ...metric.RecordOption) {
	if h.to == nil || value < 0 {
		return
	}
	defer h.failures.survive(h.name)
	h.to.Record(contextOrBackground(ctx), value, options...)
}

func (h *intHistogram) enabled() bool {
	return h.to != nil && h.to.Enabled(context.Background())
}

func milliseconds(d time.Duration) float64 {
	return float64(d) / float64(time.Millisecond)
}

// contextOrBackground lets a caller who has no context pass nil.
func contextOrBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// scopeVersion is the version of this module in the running binary.
func scopeVersion() string {
	const unknown = "(devel)"
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	for _, module := range build.Deps {
		if module.Path == scopeName {
			return module.Version
		}
	}
	if build.Main.Path == scopeName && build.Main.Version != "" {
		return build.Main.Version
	}
	return unknown
}

// attributesOf makes one attribute set, once, in the form that recordings and
// observations take: given inline it would be built anew each time, at 330 ns
// and four allocations where this costs none.
func attributesOf(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}
