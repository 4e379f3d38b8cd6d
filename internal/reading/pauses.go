package reading

import (
	"cmp"
	"math"
	"runtime/metrics"
	"sync"
)

// PausesMetric is the runtime's histogram of the collector's pauses.
const PausesMetric = "/sched/pauses/total/gc:seconds"

// maxPausesPerPoll bounds what one poll records: about a millisecond of work.
// What a larger burst leaves over is recorded by the polls after it.
const maxPausesPerPoll = 10_000

// Pauses turns the runtime's histogram of pauses, which is cumulative,
// into the pauses since the last poll. Its methods are safe for concurrent use.
//
// The second-best source is /cpu/classes/gc/pause:cpu-seconds, which looks more
// exact and leaves out most of the time that stopping the world took: it showed
// 0.18 to 0.69 of the histogram's sum.
type Pauses struct {
	Metric string // of the runtime's; PausesMetric where it is empty, another one in tests

	mu     sync.Mutex // only tried: samplers take turns, and the one before may be stuck
	sample [1]metrics.Sample
	seen   []uint64 // how many pauses of each bucket are recorded, or lie before Begin
}

// Begin forgets what happened until now.
func (r *Pauses) Begin() {
	if !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	if h, err := r.read(); err == nil { // else Poll says it
		r.seen = append(r.seen[:0], h.Counts...) // the runtime reuses its slice
	}
}

// Poll calls record with each pause since the last poll, in seconds, until that
// returns false: that pause and the rest are left to the next poll.
func (r *Pauses) Poll(record func(seconds float64) bool) error {
	if !r.mu.TryLock() {
		return nil
	}
	defer r.mu.Unlock()
	h, err := r.read()
	if err != nil {
		return err
	}
	r.seen = newPauses(h, r.seen, maxPausesPerPoll, record)
	return nil
}

func (r *Pauses) read() (*metrics.Float64Histogram, error) {
	r.sample[0].Name = cmp.Or(r.Metric, PausesMetric)
	metrics.Read(r.sample[:])
	if r.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return nil, UnknownMetric(r.sample[0].Name)
	}
	return r.sample[0].Value.Float64Histogram(), nil
}

// newPauses calls record, at most limit times, with a value for each count in h
// that is not in seen, and returns what is seen now. A bucket whose count fell,
// or all of them where their number changed, begin anew and record nothing.
func newPauses(h *metrics.Float64Histogram, seen []uint64, limit int, record func(seconds float64) bool) []uint64 {
	if len(seen) != len(h.Counts) {
		return append(seen[:0], h.Counts...)
	}
	for i, count := range h.Counts {
		if count <= seen[i] {
			seen[i] = count
			continue
		}
		value := bucketValue(h.Buckets[i], h.Buckets[i+1])
		for ; seen[i] < count && limit > 0; limit-- {
			if !record(value) {
				return seen
			}
			seen[i]++
		}
	}
	return seen
}

// bucketValue stands for every value in a bucket: its middle. The runtime's
// buckets are at most 25 % wide, so that it is within 12.5 % of each. An edge
// that is infinite never gets into a value.
func bucketValue(lower, upper float64) float64 {
	if math.IsInf(upper, +1) {
		return max(lower, 0)
	}
	return max(lower/2+upper/2, 0) // halved first: the sum of the two could overflow
}
