package observer

import (
	"errors"
	"fmt"
	"math"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// What the runtime says of its collector. None of these stops the world to be
// read, as runtime.ReadMemStats does.
const (
	gcPausesMetric     = "/sched/pauses/total/gc:seconds"
	gcCyclesMetric     = "/gc/cycles/total:gc-cycles"
	gcFreesMetric      = "/gc/heap/frees:objects"
	gcAllocsMetric     = "/gc/heap/allocs:objects"
	gcFinalizersMetric = "/gc/finalizers/queued:finalizers"
)

// maxPausesPerPoll bounds what one poll records: about a millisecond of work.
// What a larger burst leaves over is recorded by the polls after it.
const maxPausesPerPoll = 10_000

// pauseRecorder turns the runtime's histogram of pauses, which is cumulative,
// into the pauses since the last poll.
//
// The second-best source is /cpu/classes/gc/pause:cpu-seconds, which looks more
// exact and leaves out most of the time that stopping the world took: it showed
// 0.18 to 0.69 of the histogram's sum.
type pauseRecorder struct {
	mu     sync.Mutex        // only tried: a sampler may be stuck with it in a provider that blocks
	sample [1]metrics.Sample // names gcPausesMetric
	seen   []uint64          // how many pauses of each bucket are recorded, or lie before begin
}

// begin forgets what happened until now.
func (r *pauseRecorder) begin() {
	if !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	if h, err := r.read(); err == nil { // else poll says it
		r.seen = append(r.seen[:0], h.Counts...) // the runtime reuses its slice
	}
}

// poll calls record with each pause since the last poll, in seconds.
func (r *pauseRecorder) poll(record func(seconds float64)) error {
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

func (r *pauseRecorder) read() (*metrics.Float64Histogram, error) {
	metrics.Read(r.sample[:])
	if r.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return nil, unknownMetric(gcPausesMetric)
	}
	return r.sample[0].Value.Float64Histogram(), nil
}

// newPauses calls record, at most limit times, with a value for each count in h
// that is not in seen, and returns what is seen now. A bucket whose count fell,
// or all of them where their number changed, begin anew and record nothing.
func newPauses(h *metrics.Float64Histogram, seen []uint64, limit int, record func(seconds float64)) []uint64 {
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
			record(value)
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

// heapTotals are the collector's totals at one moment.
type heapTotals struct {
	samples [4]metrics.Sample // by the constants below
}

const (
	cycles = iota
	allocs
	frees
	finalizers
)

var heapMetrics = [...]string{cycles: gcCyclesMetric, allocs: gcAllocsMetric, frees: gcFreesMetric, finalizers: gcFinalizersMetric}

// read fetches all of them at once. It allocates nothing.
func (t *heapTotals) read() { t.readFirst(len(t.samples)) }

// readAllocated fetches what sinceCollection notices.
func (t *heapTotals) readAllocated() { t.readFirst(allocs + 1) }

func (t *heapTotals) readFirst(n int) {
	for i := range n {
		t.samples[i].Name = heapMetrics[i]
	}
	metrics.Read(t.samples[:n])
}

// get returns one of the totals as it was last read.
func (t *heapTotals) get(i int) (int64, error) {
	value := t.samples[i].Value
	if value.Kind() != metrics.KindUint64 {
		return 0, unknownMetric(heapMetrics[i])
	}
	return int64(min(value.Uint64(), math.MaxInt64)), nil
}

// sinceCollection remembers how many objects had been allocated when a new
// collection was last noticed. Samplers and callbacks of several readers notice
// it, whoever comes first, so that none needs a lock. In a process that had
// collected before Start, the first base is Start itself: the runtime does not
// say how much was allocated when an earlier collection ended.
type sinceCollection struct {
	base atomic.Pointer[collectionBase]
}

type collectionBase struct{ cycle, allocated int64 }

// notice returns how many objects were allocated since the last collection. The
// error says which total this Go runtime does not know.
func (s *sinceCollection) notice(t *heapTotals) (int64, error) {
	cycle, err1 := t.get(cycles)
	allocated, err2 := t.get(allocs)
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	return s.since(cycle, allocated), nil
}

func (s *sinceCollection) since(cycle, allocated int64) int64 {
	base := s.base.Load()
	for base == nil || base.cycle < cycle {
		now := &collectionBase{cycle, allocated}
		if cycle == 0 {
			now.allocated = 0 // no collection yet: all that was ever allocated
		}
		if s.base.CompareAndSwap(base, now) {
			return allocated - now.allocated
		}
		base = s.base.Load()
	}
	// Another reader may have noticed a later allocation than this one read.
	return max(allocated-base.allocated, 0)
}

// unknownMetric is the error of a reading that this Go runtime does not offer.
func unknownMetric(name string) error {
	return fmt.Errorf("runtime metric %s: %w by this Go version", name, errors.ErrUnsupported)
}

// ratchet holds the last value of a counter. It never goes down, whatever the
// source of the counter does, and outlives every Start and Stop. The zero value
// has no last value.
type ratchet struct {
	above atomic.Uint64 // the bits of the value, plus one: the bits of floats that are not negative order as the floats do
}

// raise makes value the last one, if it is greater than that.
func (r *ratchet) raise(value float64) {
	if value < 0 || math.IsNaN(value) || math.IsInf(value, +1) {
		return
	}
	bits := math.Float64bits(value) + 1
	for last := r.above.Load(); bits > last; last = r.above.Load() {
		if r.above.CompareAndSwap(last, bits) {
			return
		}
	}
}

// last returns the last value, if there is one.
func (r *ratchet) last() (value float64, ok bool) {
	bits := r.above.Load()
	if bits == 0 {
		return 0, false
	}
	return math.Float64frombits(bits - 1), true
}
