package observer

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/cpu"
)

// namePatience is how long a diagnosis waits for the application to name routes.
const namePatience = 100 * time.Millisecond

// maxOldest is how many units of work a diagnosis lists.
const maxOldest = 10

// work is a request or a rollout in flight. It is part of what its owner
// allocates anyway. The fields are set before it is added and never change.
type work struct {
	kind  string        // one of the two below
	began time.Duration // on the coarse clock
	named namer         // nil for work without a name

	slot *atomic.Pointer[work] // where it is listed; its owner's alone
}

const (
	requestWork = "request"
	rolloutWork = "rollout"
)

// namer finds the name of work in flight, from what was copied at its beginning.
type namer interface{ name() string }

// inFlightWork lists the work in flight of this process.
var inFlightWork workTable

// workTable is a set that costs an addition and a removal a few atomic
// operations and no lock: each takes a slot at random. It grows with the work in
// flight, up to maxChunks, half a mebibyte; what finds no slot there is not
// listed.
//
// The second-best way is a linked list behind a mutex, in order of age by
// itself. It makes every request of every core wait for the same cache line.
type workTable struct {
	count  atomic.Int32 // chunks beyond the first
	first  workChunk
	chunks [maxChunks - 1]atomic.Pointer[workChunk]
}

const (
	slotsPerChunk = 1024
	maxChunks     = 64

	// Tries before the table grows: at half full, one addition in 256 does. Where
	// it cannot grow, one in a thousand is not listed at nine tenths full.
	slotTries = 8
	lastTries = 64
)

type workChunk [slotsPerChunk]atomic.Pointer[work]

// add lists w until done. The clock is coarse: see coarseClock.
func (t *workTable) add(w *work) {
	w.began = coarseNow()
	for {
		beyond := t.count.Load()
		tries := slotTries
		if beyond == maxChunks-1 {
			tries = lastTries
		}
		for range tries {
			r := rand.Uint64()
			chunk := &t.first
			if beyond > 0 {
				// The high half, scaled to the number of chunks.
				if i := int32(r >> 32 * uint64(beyond+1) >> 32); i > 0 {
					chunk = t.chunks[i-1].Load()
				}
			}
			slot := &chunk[r%slotsPerChunk]
			if slot.Load() == nil && slot.CompareAndSwap(nil, w) {
				w.slot = slot
				return
			}
		}
		if beyond == maxChunks-1 {
			return
		}
		t.chunks[beyond].CompareAndSwap(nil, new(workChunk))
		t.count.CompareAndSwap(beyond, beyond+1) // whoever comes first: nobody waits for another
	}
}

// done takes w off the list. Its owner calls it once.
func (w *work) done() {
	if w.slot != nil {
		w.slot.Store(nil)
	}
}

// each calls f with all that is listed.
func (t *workTable) each(f func(*work)) {
	for i := range t.count.Load() + 1 {
		chunk := &t.first
		if i > 0 {
			chunk = t.chunks[i-1].Load()
		}
		for slot := range chunk {
			if w := chunk[slot].Load(); w != nil {
				f(w)
			}
		}
	}
}

// oldest returns the n units of work that have been in flight longest, the
// oldest first.
func (t *workTable) oldest(n int) []Work {
	var found []*work
	t.each(func(w *work) {
		if len(found) == n && found[n-1].began <= w.began {
			return
		}
		i, _ := slices.BinarySearchFunc(found, w.began, func(other *work, began time.Duration) int {
			return int(min(max(other.began-began, -1), 1))
		})
		found = slices.Insert(found, i, w)
		found = found[:min(len(found), n)]
	})
	now := exactNow()
	var oldest []Work
	names := namesOf(found)
	for i, w := range found {
		oldest = append(oldest, Work{Kind: w.kind, Name: names[i], Age: max(0, now-w.began)})
	}
	return oldest
}

// namesOf asks for the names of work, which calls the application's code: on a
// goroutine of its own, so that neither a Goexit in it nor a wait can end or hold
// up the sampler. Names that do not come in time stay empty.
func namesOf(listed []*work) []string {
	if len(listed) == 0 {
		return nil
	}
	named := make(chan []string, 1)
	go func() {
		names := make([]string, len(listed))
		defer func() { named <- names }()
		for i, w := range listed {
			if w.named != nil {
				names[i] = w.named.name()
			}
		}
	}()
	timeout := time.NewTimer(namePatience)
	defer timeout.Stop()
	select {
	case names := <-named:
		return names
	case <-timeout.C:
		return make([]string, len(listed))
	}
}

// oldestAge returns the age of the oldest work of a kind, if there is any.
func (t *workTable) oldestAge(kind string) (age time.Duration, any bool) {
	now := exactNow()
	t.each(func(w *work) {
		if w.kind == kind {
			age, any = max(age, now-w.began), true
		}
	})
	return age, any
}

// clockBase is what the two clocks below count from.
var clockBase = time.Now()

// coarseClock is the time of the last sample, for those who cannot afford to
// look at a clock: a request looks here for a tenth of the price. It is 0 while
// nothing advances it often enough.
var coarseClock struct {
	_     cpu.CacheLinePad // read by every core, written by one, ten times a second
	nanos atomic.Int64
	_     cpu.CacheLinePad
}

// coarseEnough is the longest sample interval that may stand in for a clock.
const coarseEnough = time.Second

func coarseNow() time.Duration {
	if now := coarseClock.nanos.Load(); now != 0 {
		return time.Duration(now)
	}
	return exactNow()
}

func exactNow() time.Duration { return time.Since(clockBase) }
