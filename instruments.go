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

	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/catalogue"
	"github.com/gym-observer/observer/internal/survive"
)

// What is made from the catalogue: the table in the README and the dashboards.
//go:generate go test -run TestReadmeTable -update .
//go:generate go -C internal/dashboards run .

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
func newHistograms(meter metric.Meter, failures *survive.Failures) (*histograms, error) {
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
func (h histogram) make(s catalogue.Signal, meter metric.Meter, failures *survive.Failures) (err error) {
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

// floatHistogram records finite values into one histogram. The zero value
// records nothing.
type floatHistogram struct {
	to       metric.Float64Histogram
	name     string
	failures *survive.Failures

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
	defer h.failures.Survive(h.name)
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
	failures *survive.Failures
}

// record drops a negative value and survives a panic of the provider.
func (h *intHistogram) record(ctx context.Context, value int64, options ...metric.RecordOption) {
	if h.to == nil || value < 0 {
		return
	}
	defer h.failures.Survive(h.name)
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
