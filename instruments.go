package observer

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/catalogue"
	"github.com/gym-observer/observer/internal/record"
	"github.com/gym-observer/observer/internal/survive"
)

// What is made from the catalogue: the table in the README and the dashboards.
//go:generate go test -run TestReadmeTable -update .
//go:generate go -C internal/dashboards run .

// histograms are the rows of the catalogue that are recorded as values happen, as
// one meter made them. A row that the meter refused records nothing.
type histograms struct {
	lag, gcPause                          record.Float
	admission, writeDuration, materialize record.Float
	runQueue, writeBytes                  record.Int
	inputItems, outputItems               record.Int
	turns, toolCalls                      record.Int
}

// histogram is one of them: one of the two is set.
type histogram struct {
	float   *record.Float
	integer *record.Int
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
	made.admission.Totals = new(record.Totals)
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
func (h histogram) make(s catalogue.Signal, meter metric.Meter, failures *survive.Failures) error {
	if h.float != nil {
		return h.float.Make(s, meter, failures)
	}
	return h.integer.Make(s, meter, failures)
}

// enabled reports whether a recording would go anywhere: the API's no-op and a
// global provider that nobody has set say no, as does an SDK without a reader.
func (h *histograms) enabled() bool {
	for _, s := range catalogue.Signals {
		switch one := h.of(s.Name); {
		case one.float != nil && one.float.Enabled(), one.integer != nil && one.integer.Enabled():
			return true
		}
	}
	return false
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
