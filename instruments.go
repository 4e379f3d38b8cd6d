package observer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/catalogue"
	"github.com/gym-observer/observer/internal/monotonic"
	"github.com/gym-observer/observer/internal/ring"
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
	OutboundOldestAgeInstrument           = "gym.http.client.requests.oldest_age"

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

// histograms are the rows of the catalogue that are recorded as values happen, as
// one meter made them. A row that the meter refused records nothing.
type histograms struct {
	lag, gcPause                          floatHistogram
	admission, writeDuration, materialize floatHistogram
	runQueue, writeBytes                  intHistogram
	inputItems, outputItems               intHistogram
	turns, toolCalls                      intHistogram
}

// histogram is one of them: one of the two is set.
type histogram struct {
	float   *floatHistogram
	integer *intHistogram
}

// of returns the place of the histogram with a name, neither where it is none.
func (h *histograms) of(name string) histogram {
	switch name {
	case EventLoopLagInstrument:
		return histogram{float: &h.lag}
	case EventLoopRunQueueInstrument:
		return histogram{integer: &h.runQueue}
	case GCPauseInstrument:
		return histogram{float: &h.gcPause}
	case DriverAdmissionInstrument:
		return histogram{float: &h.admission}
	case DriverWriteDurationInstrument:
		return histogram{float: &h.writeDuration}
	case DriverWriteBytesInstrument:
		return histogram{integer: &h.writeBytes}
	case DriverMaterializeInstrument:
		return histogram{float: &h.materialize}
	case RolloutInputItemsInstrument:
		return histogram{integer: &h.inputItems}
	case RolloutOutputItemsInstrument:
		return histogram{integer: &h.outputItems}
	case RolloutTurnsInstrument:
		return histogram{integer: &h.turns}
	case RolloutToolCallsInstrument:
		return histogram{integer: &h.toolCalls}
	}
	return histogram{}
}

// newHistograms makes the histograms of the catalogue. It goes on past one that
// fails, and returns those failures joined.
func newHistograms(meter metric.Meter, failures *failures) (*histograms, error) {
	made := new(histograms)
	made.admission.recorded = new(recordedTotals)
	var failed []error
	for _, s := range catalogue.Signals {
		if s.Kind != catalogue.Histogram {
			continue
		}
		if err := made.of(s.Name).make(s, meter, failures); err != nil {
			failed = append(failed, fmt.Errorf("making %s: %w", s.Name, err))
		}
	}
	return made, errors.Join(failed...)
}

// make has the meter make the histogram of a row of the catalogue.
func (h histogram) make(s catalogue.Signal, meter metric.Meter, failures *failures) (err error) {
	description, unit := metric.WithDescription(s.Description), metric.WithUnit(s.Unit)
	boundaries := metric.WithExplicitBucketBoundaries(s.Boundaries...)
	if h.float != nil {
		h.float.name, h.float.failures = s.Name, failures
		h.float.to, err = meter.Float64Histogram(s.Name, description, unit, boundaries)
		return err
	}
	h.integer.name, h.integer.failures = s.Name, failures
	h.integer.to, err = meter.Int64Histogram(s.Name, description, unit, boundaries)
	return err
}

// enabled reports whether a recording would go anywhere: the API's no-op and a
// global provider that nobody has set say no, as does an SDK without a reader.
func (h *histograms) enabled() bool {
	for _, s := range catalogue.Signals {
		switch one := h.of(s.Name); {
		case one.float != nil && one.float.enabled(), one.integer != nil && one.integer.enabled():
			return true
		}
	}
	return false
}

// recorder is where durations, sizes and counts go: over a ring to the histograms
// of one provider.
type recorder struct {
	histograms
	ring *ring.Ring[recording] // of what rollouts record

	// sampled is that of the samplers: with one ring for both, a busy driver would
	// leave them no room, and to wait for it would show as the process's lag.
	sampled *ring.Ring[recording]
}

// newRecorder returns one whose rings pass values on until stop.
func newRecorder(to *histograms) *recorder {
	return &recorder{
		histograms: *to,
		ring:       ring.New(recording.record),
		sampled:    ring.New(recording.record),
	}
}

// errStuck is why samples are not recorded.
var errStuck = errors.New("the provider has not taken the last 1,024")

// passOn returns when everything that was recorded before has reached the
// provider, or says that it has not within patience.
func (r *recorder) passOn(patience time.Duration) (all bool) {
	return r.sampled.PassOn(patience) && r.ring.PassOn(patience)
}

// recordingPatience is how long what was recorded waits where nobody collects.
const recordingPatience = 10 * time.Second

// hasten sees to it that what was recorded reaches the provider in time: a driver's
// as it comes, since the page shows admissions so.
func (r *recorder) hasten(driving bool) {
	now := monotonic.Now()
	r.sampled.Hasten(now, recordingPatience)
	if driving {
		r.ring.Hasten(now, 0)
	} else {
		r.ring.Hasten(now, recordingPatience)
	}
}

// stop ends the passing on, and returns when it has ended, or at a deadline.
func (r *recorder) stop(deadline time.Time) {
	first, second := r.ring.Stop(), r.sampled.Stop()
	_ = await(first, deadline) && await(second, deadline)
}

// admitted returns how many admissions were recorded, and their waits in all.
func (r *recorder) admitted() (admissions int64, waited time.Duration) {
	recorded := r.admission.recorded
	return recorded.count.Load(), time.Duration(recorded.sum.Load()) // millionths of a millisecond
}

// recording is one value for one of two histograms.
type recording struct {
	ctx     context.Context
	float   *floatHistogram
	integer *intHistogram
	bits    uint64                 // of the float, or the integer
	options *[]metric.RecordOption // nil for none; a pointer, or the slice would be copied with each value
}

// recordingOf is a value on its way to a histogram.
func recordingOf(to *floatHistogram, value float64, options *[]metric.RecordOption) recording {
	return recording{ctx: context.Background(), float: to, bits: math.Float64bits(value), options: options}
}

// countOf is a count on its way to a histogram.
func countOf(to *intHistogram, n int64, options *[]metric.RecordOption) recording {
	return recording{ctx: context.Background(), integer: to, bits: uint64(n), options: options}
}

// duration records a rollout's duration that is not negative, in milliseconds.
func (r *recorder) duration(ctx context.Context, to *floatHistogram, took time.Duration) {
	if took >= 0 {
		r.ring.Put(recording{ctx: ctx, float: to, bits: math.Float64bits(milliseconds(took))})
	}
}

// count records a rollout's count that is not negative.
func (r *recorder) count(ctx context.Context, to *intHistogram, n int64) {
	if n >= 0 {
		r.ring.Put(recording{ctx: ctx, integer: to, bits: uint64(n)})
	}
}

// record hands the value to the histogram's provider.
func (v recording) record() {
	var options []metric.RecordOption
	if v.options != nil {
		options = *v.options
	}
	if v.float != nil {
		v.float.record(v.ctx, math.Float64frombits(v.bits), options...)
	} else {
		v.integer.record(v.ctx, int64(v.bits), options...)
	}
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

// lagEdges are the boundaries of the exported histogram of lags.
var lagEdges = func() (edges []time.Duration) {
	for _, boundary := range signalOf(EventLoopLagInstrument).Boundaries {
		edges = append(edges, time.Duration(boundary*float64(time.Millisecond)))
	}
	return edges
}()

// signalOf returns the row of the catalogue with a name.
func signalOf(name string) catalogue.Signal {
	i := slices.IndexFunc(catalogue.Signals, func(s catalogue.Signal) bool { return s.Name == name })
	return catalogue.Signals[i]
}
