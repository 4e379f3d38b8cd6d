package observer

import (
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/cpu"
)

// namePatience is how long a diagnosis waits for the application to name routes.
const namePatience = 100 * time.Millisecond

// maxOldest is how many units of work a diagnosis lists.
const maxOldest = 10

// work is a request or a rollout in flight. What a reader looks at does not change
// while it is listed.
type work struct {
	began time.Duration // since clockBase
	request

	slot *atomic.Pointer[work] // where it is listed, or was when it was used before; its owner's alone
}

const (
	requestWork = "request"
	rolloutWork = "rollout"
)

// kind tells a request from a rollout, which has none.
func (q *request) kind() string {
	if q.router == nil {
		return rolloutWork
	}
	return requestWork
}

// inFlightWork lists the work in flight of this process.
var inFlightWork workTable

// workTable is a set that costs an addition and a removal a few atomic
// operations and no lock: each takes a slot that its number leads to. It grows
// with the work in flight, up to maxChunks, half a mebibyte; what finds no slot
// there is not listed.
//
// The second-best way is a linked list behind a mutex, in order of age by
// itself. It makes every request of every core wait for the same cache line.
//
// What has ended is used again, since an allocation of its size costs a request
// as much as all the rest; but only if nobody reads the table. A reader says so
// before it looks at the slots, and whoever ends looks for readers after it has
// emptied its slot: what a reader has found there is never used again. The
// writer that a handler gets is another matter, see internal/response.
type workTable struct {
	ended   sync.Pool // of *work
	readers atomic.Int32
	count   atomic.Int32 // chunks beyond the first
	_       cpu.CacheLinePad
	first   workChunk
	chunks  [maxChunks - 1]atomic.Pointer[workChunk]
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

// chunk returns the i-th of those that the table has.
func (t *workTable) chunk(i int32) *workChunk {
	if i == 0 {
		return &t.first
	}
	return t.chunks[i-1].Load()
}

// begin lists work that began at a time since clockBase, until end: a request, or
// a rollout where there is no router. Numbers count the work that begins: what
// begins at the same time on several cores is led to different slots.
func (t *workTable) begin(began time.Duration, number int64, router *middleware, r *http.Request) *work {
	w, again := t.ended.Get().(*work)
	if !again {
		w = new(work)
	}
	w.began = began
	if router != nil {
		w.received(router, r)
	}
	t.add(w, number)
	return w
}

// add finds a slot for w, if there is one: the one that it had before, or else by
// its number.
func (t *workTable) add(w *work, number int64) {
	if w.slot != nil && w.slot.CompareAndSwap(nil, w) {
		return
	}
	w.slot = nil
	r := uint64(number) // a random number, as far as slots are concerned
	for {
		beyond := t.count.Load()
		tries := slotTries
		if beyond == maxChunks-1 {
			tries = lastTries
		}
		for range tries {
			r = (r ^ r>>32) * 0x9E3779B97F4A7C15 // the golden ratio leads neighbours far apart
			// The low half, scaled to the number of chunks.
			chunk := t.chunk(int32(r & math.MaxUint32 * uint64(beyond+1) >> 32))
			slot := &chunk[r>>32%slotsPerChunk]
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

// end takes w off the list. Its owner calls it once, and then has it no more.
func (t *workTable) end(w *work) {
	if w.slot != nil {
		w.slot.Store(nil)
	}
	if t.readers.Load() == 0 {
		w.request = request{} // whose strings may be long
		t.ended.Put(w)
	}
}

// each calls f with all that is listed, and when that began. It must not keep w.
func (t *workTable) each(f func(w *work, began time.Duration)) {
	t.readers.Add(1)
	defer t.readers.Add(-1)
	coarse, now := time.Duration(coarseClock.nanos.Load()), sinceBase()
	standing := coarse != 0 && now-coarse > coarseEnough // a hold-up that has not ended
	held := heldUp.Load()
	for i := range t.count.Load() + 1 {
		chunk := t.chunk(i)
		for slot := range chunk {
			if w := chunk[slot].Load(); w != nil {
				began := held.corrected(w)
				if standing && w.kind() == requestWork && w.began == coarse {
					began = now
				}
				f(w, began)
			}
		}
	}
}

// oldest returns the n units of work that have been in flight longest, the
// oldest first.
func (t *workTable) oldest(n int) []Work {
	var found []request
	var begins []time.Duration
	t.each(func(w *work, began time.Duration) {
		i, _ := slices.BinarySearch(begins, began)
		if i < n {
			begins = slices.Insert(begins[:min(len(begins), n-1)], i, began)
			found = slices.Insert(found[:min(len(found), n-1)], i, w.request)
		}
	})
	now := sinceBase()
	var oldest []Work
	names := namesOf(found)
	for i := range found {
		oldest = append(oldest, Work{Kind: found[i].kind(), Name: names[i], Age: max(0, now-begins[i])})
	}
	return oldest
}

// naming holds a token while the application names routes. What hangs there, as a
// router does whose lock a stuck handler holds, is not asked again: a page that
// somebody looks at would leave a goroutine there each second.
var naming = make(chan struct{}, 1)

// namesOf asks for the names of work, which calls the application's code: on a
// goroutine of its own, so that neither a Goexit in it nor a wait can end or hold
// up the sampler. Names that do not come in time stay empty.
func namesOf(listed []request) []string {
	if len(listed) == 0 {
		return nil
	}
	timeout := time.NewTimer(namePatience)
	defer timeout.Stop()
	select {
	case naming <- struct{}{}:
	case <-timeout.C:
		return make([]string, len(listed))
	}
	named := make(chan []string, 1)
	go func() {
		defer func() { <-naming }()
		names := make([]string, len(listed))
		defer func() { named <- names }()
		for i := range listed {
			if listed[i].kind() == requestWork {
				names[i] = listed[i].name()
			}
		}
	}()
	select {
	case names := <-named:
		return names
	case <-timeout.C:
		return make([]string, len(listed))
	}
}

// oldestAge returns the age of the oldest work of a kind, if there is any.
func (t *workTable) oldestAge(kind string) (age time.Duration, any bool) {
	now := sinceBase()
	t.each(func(w *work, began time.Duration) {
		if w.kind() == kind {
			age, any = max(age, now-began), true
		}
	})
	return age, any
}

// coarseClock is the time of the last sample, for requests, which cannot afford
// to look at a clock: this costs them a tenth. It is 0 while nothing advances it
// often enough. Rollouts are few and long, and look.
var coarseClock struct {
	_     cpu.CacheLinePad // read by every core, written by one, ten times a second
	nanos atomic.Int64
	_     cpu.CacheLinePad
}

// coarseEnough is how long the coarse clock may stand still.
const coarseEnough = time.Second

func coarseNow() time.Duration {
	if now := coarseClock.nanos.Load(); now != 0 {
		return time.Duration(now)
	}
	return sinceBase()
}

// holdUps are times for which the coarse clock stood still for too long, because
// the process was stopped or starved: when each began, and when it ended. A
// request that began then may have done so at any moment of it. It counts from
// the end: an age must not be exaggerated, and least by all of a long stop.
type holdUps map[time.Duration]time.Duration

// heldUp holds those that work in flight began in. A map in it never changes.
var heldUp atomic.Pointer[holdUps]

func (h *holdUps) corrected(w *work) time.Duration {
	if h != nil && w.kind() == requestWork {
		if end, found := (*h)[w.began]; found {
			return end
		}
	}
	return w.began
}

// advanceCoarseClock sets the clock to the time of a sample. Samplers take turns.
func advanceCoarseClock(now time.Duration) {
	before := time.Duration(coarseClock.nanos.Swap(int64(now)))
	if before == 0 || now-before <= coarseEnough {
		return
	}
	kept := holdUps{before: now}
	if held := heldUp.Load(); held != nil {
		inFlightWork.each(func(w *work, _ time.Duration) {
			if end, found := (*held)[w.began]; found {
				kept[w.began] = end
			}
		})
	}
	heldUp.Store(&kept)
}

// clockBase is what both clocks count from.
var clockBase = time.Now()

// sinceBase is the present on the monotonic clock, in one word.
func sinceBase() time.Duration { return time.Since(clockBase) }
