// Package observable has the observables of the catalogue: one row a signal, with its
// instrument, what reads it while the exporter collects, and the attribute sets of its
// points. It knows nothing of where values come from: a source is a function.
package observable

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/catalogue"
	"github.com/gym-observer/observer/internal/count"
)

// Source reads one signal: from a collection C, into a point.
type Source[C any] func(C, Point) error

// Row is one signal that is read, with its instrument, which one of the last two
// fields holds.
type Row[C any] struct {
	Name string
	Read Source[C]

	fractional bool
	integer    metric.Int64Observable
	float      metric.Float64Observable
}

// Rows makes the observables of the catalogue. It goes on past one that fails, and
// returns those failures joined.
func Rows[C any](meter metric.Meter, sources map[string]Source[C]) (made []Row[C], err error) {
	var failed []error
	for _, s := range catalogue.Signals {
		if s.Kind == catalogue.Histogram {
			continue
		}
		if one, err := rowOf(s, meter, sources[s.Name]); err != nil {
			failed = append(failed, fmt.Errorf("making %s: %w", s.Name, err))
		} else {
			made = append(made, one)
		}
	}
	return made, errors.Join(failed...)
}

func rowOf[C any](s catalogue.Signal, meter metric.Meter, read Source[C]) (made Row[C], err error) {
	made = Row[C]{Name: s.Name, Read: read, fractional: s.Fractional}
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

// Instrument is what the callback is registered for.
func (r *Row[C]) Instrument() metric.Observable {
	if r.float != nil {
		return r.float
	}
	return r.integer
}

// Point is where the row's values of one collection go.
func (r *Row[C]) Point(to metric.Observer) Point { return Point{to, r.integer, r.float, r.fractional} }

// Point takes the values of one signal in one collection.
type Point struct {
	to         metric.Observer
	integer    metric.Int64Observable
	float      metric.Float64Observable
	fractional bool
}

// Observe observes an integer.
func (p Point) Observe(value int64, options ...metric.ObserveOption) {
	p.to.ObserveInt64(p.integer, value, options...)
}

// ObserveFloat observes a fractional value.
func (p Point) ObserveFloat(value float64, options ...metric.ObserveOption) {
	p.to.ObserveFloat64(p.float, value, options...)
}

// ObserveUnless leaves the point out where its reading failed: there is no
// invented zero. It returns the failure.
func (p Point) ObserveUnless(failed error, value int64) error {
	if failed == nil {
		p.Observe(value)
	}
	return failed
}

// Repeat observes the last value of a counter. Without it, a delta reader would
// be given the whole total again after one cycle without a point.
func (p Point) Repeat(counter *count.Ratchet, options ...metric.ObserveOption) {
	value, ok := counter.Last()
	switch {
	case !ok:
	case p.fractional:
		p.ObserveFloat(value, options...)
	default:
		p.Observe(int64(value), options...)
	}
}
