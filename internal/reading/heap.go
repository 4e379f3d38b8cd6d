package reading

import (
	"errors"
	"fmt"
	"math"
	"runtime/metrics"
	"sync/atomic"
)

const collectionsMetric = "/gc/cycles/total:gc-cycles"

// HeapTotals are the collector's totals at one moment. They are not safe for
// concurrent use.
type HeapTotals struct {
	samples [4]metrics.Sample // by the constants below
}

// What Get returns.
const (
	Collections = iota // that have finished
	Allocated          // objects
	Freed              // objects
	Finalizers         // queued
)

var heapMetrics = [...]string{Collections: collectionsMetric, Allocated: "/gc/heap/allocs:objects", Freed: "/gc/heap/frees:objects", Finalizers: "/gc/finalizers/queued:finalizers"}

// Read fetches all of them at once. It allocates nothing.
func (t *HeapTotals) Read() { t.readFirst(len(t.samples)) }

// ReadAllocated fetches what SinceCollection notices.
func (t *HeapTotals) ReadAllocated() { t.readFirst(Allocated + 1) }

func (t *HeapTotals) readFirst(n int) {
	for i := range n {
		t.samples[i].Name = heapMetrics[i]
	}
	metrics.Read(t.samples[:n])
}

// Get returns one of the totals as it was last read.
func (t *HeapTotals) Get(i int) (int64, error) {
	value := t.samples[i].Value
	if value.Kind() != metrics.KindUint64 {
		return 0, UnknownMetric(heapMetrics[i])
	}
	return int64(min(value.Uint64(), math.MaxInt64)), nil
}

// SinceCollection remembers how many objects had been allocated when a new
// collection was last noticed. Samplers and callbacks of several readers notice
// it, whoever comes first, so that none needs a lock. In a process that had
// collected before Start, the first base is Start itself: the runtime does not
// say how much was allocated when an earlier collection ended.
type SinceCollection struct {
	base atomic.Pointer[collectionBase]
}

type collectionBase struct{ cycle, allocated int64 }

// Notice returns how many objects were allocated since the last collection. The
// error says which total this Go runtime does not know.
func (s *SinceCollection) Notice(t *HeapTotals) (int64, error) {
	cycle, err1 := t.Get(Collections)
	allocated, err2 := t.Get(Allocated)
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	return s.since(cycle, allocated), nil
}

func (s *SinceCollection) since(cycle, allocated int64) int64 {
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

// UnknownMetric is the error of a reading that this Go runtime does not offer.
func UnknownMetric(name string) error {
	return fmt.Errorf("runtime metric %s: %w by this Go version", name, errors.ErrUnsupported)
}
