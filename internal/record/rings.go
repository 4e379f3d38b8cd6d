package record

import (
	"context"
	"errors"
	"math"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/monotonic"
	"github.com/gym-observer/observer/internal/ring"
	"github.com/gym-observer/observer/internal/survive"
)

// Rings are what values wait in until they are passed on, until Stop.
type Rings struct {
	Rollouts *ring.Ring[Value] // of what rollouts record

	// Samples is that of the samplers: with one ring for both, a busy driver would
	// leave them no room, and to wait for it would show as the process's lag.
	Samples *ring.Ring[Value]
}

// NewRings returns rings that pass values on until Stop.
func NewRings() *Rings {
	return &Rings{ring.New(Value.record), ring.New(Value.record)}
}

// ErrStuck is why samples are not recorded.
var ErrStuck = errors.New("the provider has not taken the last 1,024")

// PassOn returns when everything that was recorded before has reached the
// provider, or says that it has not within patience.
func (r *Rings) PassOn(patience time.Duration) (all bool) {
	return r.Samples.PassOn(patience) && r.Rollouts.PassOn(patience)
}

// recordingPatience is how long what was recorded waits where nobody collects.
const recordingPatience = 10 * time.Second

// Hasten sees to it that what was recorded reaches the provider in time: a driver's
// as it comes, since the page shows admissions so.
func (r *Rings) Hasten(driving bool) {
	now := monotonic.Now()
	r.Samples.Hasten(now, recordingPatience)
	if driving {
		r.Rollouts.Hasten(now, 0)
	} else {
		r.Rollouts.Hasten(now, recordingPatience)
	}
}

// Stop ends the passing on, and returns when it has ended, or at a deadline.
func (r *Rings) Stop(deadline time.Time) {
	first, second := r.Rollouts.Stop(), r.Samples.Stop()
	_ = survive.Await(first, deadline) && survive.Await(second, deadline)
}

// Value is one value for one of two histograms.
type Value struct {
	ctx     context.Context
	float   *Float
	integer *Int
	bits    uint64                 // of the float, or the integer
	options *[]metric.RecordOption // nil for none; a pointer, or the slice would be copied with each value
}

// OfFloat is a value on its way to a histogram.
func OfFloat(ctx context.Context, to *Float, value float64, options *[]metric.RecordOption) Value {
	return Value{ctx: ctx, float: to, bits: math.Float64bits(value), options: options}
}

// OfInt is a count on its way to a histogram.
func OfInt(ctx context.Context, to *Int, n int64, options *[]metric.RecordOption) Value {
	return Value{ctx: ctx, integer: to, bits: uint64(n), options: options}
}

// Duration records a rollout's duration that is not negative, in milliseconds.
func (r *Rings) Duration(ctx context.Context, to *Float, took time.Duration) {
	if took >= 0 {
		r.Rollouts.Put(OfFloat(ctx, to, Milliseconds(took), nil))
	}
}

// Count records a rollout's count that is not negative.
func (r *Rings) Count(ctx context.Context, to *Int, n int64) {
	if n >= 0 {
		r.Rollouts.Put(OfInt(ctx, to, n, nil))
	}
}

// record hands the value to the histogram's provider.
func (v Value) record() {
	var options []metric.RecordOption
	if v.options != nil {
		options = *v.options
	}
	if v.float != nil {
		v.float.Record(v.ctx, math.Float64frombits(v.bits), options...)
	} else {
		v.integer.Record(v.ctx, int64(v.bits), options...)
	}
}
