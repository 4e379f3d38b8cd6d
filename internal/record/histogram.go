// Package record has the way of durations, sizes and counts to the histograms of one
// provider: over rings, so that whoever records waits for nobody. It knows neither
// which histograms there are nor what is recorded.
package record

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/catalogue"
	"github.com/gym-observer/observer/internal/survive"
)

// Float records finite values into one histogram. The zero value records nothing.
type Float struct {
	To       metric.Float64Histogram
	Name     string
	Failures *survive.Failures

	Totals *Totals // nil where the page does not show them
}

// Totals are what a histogram has taken: a provider does not tell.
type Totals struct {
	Count, Sum atomic.Int64 // the sum in millionths of the unit
}

// Make has the meter make the histogram of a row of the catalogue.
func (h *Float) Make(s catalogue.Signal, meter metric.Meter, failures *survive.Failures) (err error) {
	h.Name, h.Failures = s.Name, failures
	h.To, err = meter.Float64Histogram(s.Name, metric.WithDescription(s.Description), metric.WithUnit(s.Unit),
		metric.WithExplicitBucketBoundaries(s.Boundaries...))
	return err
}

// Record drops what is not finite, since one NaN would poison the histogram's
// sum for ever, and survives a panic of the provider.
func (h *Float) Record(ctx context.Context, value float64, options ...metric.RecordOption) {
	if h.To == nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	defer h.Failures.Survive(h.Name)
	if h.Totals != nil {
		h.Totals.Count.Add(1)
		h.Totals.Sum.Add(int64(value * 1e6))
	}
	h.To.Record(survive.ContextOrBackground(ctx), value, options...)
}

// Enabled reports whether a recording would go anywhere.
func (h *Float) Enabled() bool { return h.To != nil && h.To.Enabled(context.Background()) }

// Int records counts into one histogram. The zero value records nothing.
type Int struct {
	To       metric.Int64Histogram
	Name     string
	Failures *survive.Failures
}

// Make has the meter make the histogram of a row of the catalogue.
func (h *Int) Make(s catalogue.Signal, meter metric.Meter, failures *survive.Failures) (err error) {
	h.Name, h.Failures = s.Name, failures
	h.To, err = meter.Int64Histogram(s.Name, metric.WithDescription(s.Description), metric.WithUnit(s.Unit),
		metric.WithExplicitBucketBoundaries(s.Boundaries...))
	return err
}

// Record drops a negative value and survives a panic of the provider.
func (h *Int) Record(ctx context.Context, value int64, options ...metric.RecordOption) {
	if h.To == nil || value < 0 {
		return
	}
	defer h.Failures.Survive(h.Name)
	h.To.Record(survive.ContextOrBackground(ctx), value, options...)
}

// Enabled reports whether a recording would go anywhere.
func (h *Int) Enabled() bool { return h.To != nil && h.To.Enabled(context.Background()) }

// Milliseconds is a duration in the unit of most histograms.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
