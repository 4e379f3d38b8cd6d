package observer

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
	_ = survive.Await(first, deadline) && survive.Await(second, deadline)
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
func recordingOf(ctx context.Context, to *floatHistogram, value float64, options *[]metric.RecordOption) recording {
	return recording{ctx: ctx, float: to, bits: math.Float64bits(value), options: options}
}

// countOf is a count on its way to a histogram.
func countOf(ctx context.Context, to *intHistogram, n int64, options *[]metric.RecordOption) recording {
	return recording{ctx: ctx, integer: to, bits: uint64(n), options: options}
}

// duration records a rollout's duration that is not negative, in milliseconds.
func (r *recorder) duration(ctx context.Context, to *floatHistogram, took time.Duration) {
	if took >= 0 {
		r.ring.Put(recordingOf(ctx, to, milliseconds(took), nil))
	}
}

// count records a rollout's count that is not negative.
func (r *recorder) count(ctx context.Context, to *intHistogram, n int64) {
	if n >= 0 {
		r.ring.Put(countOf(ctx, to, n, nil))
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
