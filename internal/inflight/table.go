// Package inflight lists the work that is in flight: requests that are served,
// requests that are made, and rollouts. Whoever begins or ends one pays a few
// atomic operations and no lock; whoever wants to know the oldest looks through
// the list.
package inflight

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/gym-observer/observer/internal/monotonic"
)

// Work is one unit of work in flight. What a reader looks at does not change
// while it is listed.
type Work struct {
	Request

	began atomic.Int64          // on the monotonic clock; 0 until it has been looked at
	slot  *atomic.Pointer[Work] // where it is listed, or was when it was used before; its owner's alone
}

// Request is what is known of a request; it is empty for a rollout. Of one that
// is made it is the host alone.
type Request struct {
	Router                      Router
	Method, Host, Path, RawPath string
	Expected                    bool // it waits for events by design
}

// Router tells what a request is called. It is asked while the request is in
// flight, and calls the application's code.
type Router interface {
	NameOf(*Request) string
}

// Table is a set of work that costs an addition and a removal a few atomic
// operations and no lock: each takes a slot that its number leads to. It grows
// with the work in flight, up to maxChunks, half a mebibyte; what finds no slot
// there is not listed. The zero value is empty.
//
// The second-best way is a linked list behind a mutex, in order of age by
// itself. It makes every request of every core wait for the same cache line.
//
// What has ended is used again, since an allocation of its size costs a request
// as much as all the rest; but only if nobody reads the table. A reader says so
// before it looks at the slots, and whoever ends looks for readers after it has
// emptied its slot: what a reader has found there is never used again.
//
// # When work began
//
// Reading the clock costs a request as much as a fifth of all that the middleware
// does. So while somebody looks at the table often (see [Table.SeenOften]), work
// has no time of its own: the first reader that finds it notes the present. A
// sampler reads ten times a second, so that an age is too small by at most that, or
// by as long as the sampler was held up; and never too great, also when the process
// was stopped or starved meanwhile.
//
// Two other ways were measured. The clock for each request is exact, and costs 45
// to 55 ns of about 250 on a machine where a load costs 2. A clock that the sampler
// advances and each request copies costs as little as this one, but stands still
// while the process is stopped: it took a table of those times, and 75 lines.
type Table struct {
	ended     sync.Pool // of *Work
	readers   atomic.Int32
	count     atomic.Int32 // chunks beyond the first
	seenOften atomic.Bool
	_         cpu.CacheLinePad
	first     chunk
	chunks    [maxChunks - 1]atomic.Pointer[chunk]
}

const (
	slotsPerChunk = 1024
	maxChunks     = 64

	// Tries before the table grows: at half full, one addition in 256 does. Where
	// it cannot grow, one in a thousand is not listed at nine tenths full.
	slotTries = 8
	lastTries = 64
)

type chunk [slotsPerChunk]atomic.Pointer[Work]

// chunkAt returns the i-th of those that the table has.
func (t *Table) chunkAt(i int32) *chunk {
	if i == 0 {
		return &t.first
	}
	return t.chunks[i-1].Load()
}

// SeenOften says whether somebody calls [Table.See] about as often as ages are to
// be right. Otherwise work is given its time when it begins.
func (t *Table) SeenOften(often bool) { t.seenOften.Store(often) }

// New returns work that is to be filled in and then listed. It begins now.
func (t *Table) New() *Work {
	w, again := t.ended.Get().(*Work)
	if !again {
		w = new(Work)
	}
	if !t.seenOften.Load() {
		w.Began()
	}
	return w
}

// Began gives work that is not listed yet the present as its beginning, whoever
// looks at the table and when.
func (w *Work) Began() { w.began.Store(int64(monotonic.Now())) }

// List lists w until [Table.End]. Numbers count the work that begins: what begins
// at the same time on several cores is led to different slots.
func (t *Table) List(w *Work, number int64) {
	// The slot that it had before needs no search, and its cache line may still be
	// this core's.
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
			chunk := t.chunkAt(int32(r & math.MaxUint32 * uint64(beyond+1) >> 32))
			slot := &chunk[r>>32%slotsPerChunk]
			if slot.Load() == nil && slot.CompareAndSwap(nil, w) {
				w.slot = slot
				return
			}
		}
		if beyond == maxChunks-1 {
			return
		}
		t.chunks[beyond].CompareAndSwap(nil, new(chunk))
		t.count.CompareAndSwap(beyond, beyond+1) // whoever comes first: nobody waits for another
	}
}

// End takes w off the list. Its owner calls it once, and then has it no more.
func (t *Table) End(w *Work) {
	if w.slot != nil {
		w.slot.Store(nil)
	}
	if t.readers.Load() == 0 {
		w.Request = Request{}    // whose strings may be long
		if w.began.Load() != 0 { // a look is a tenth of a store
			w.began.Store(0)
		}
		t.ended.Put(w)
	}
}

// See gives what nobody has looked at yet the present as its beginning.
func (t *Table) See() { t.each(func(*Work, time.Duration) {}) }

// each calls f with all that is listed, and how old it is. It must not keep the
// work.
func (t *Table) each(f func(w *Work, age time.Duration)) {
	t.readers.Add(1)
	defer t.readers.Add(-1)
	now := monotonic.Now()
	for i := range t.count.Load() + 1 {
		chunk := t.chunkAt(i)
		for slot := range chunk {
			w := chunk[slot].Load()
			if w == nil {
				continue
			}
			began := w.began.Load()
			if began == 0 {
				// The present, and not the time at which this look at the table began: a
				// reader may be held up in the middle of it, and find what is younger.
				w.began.CompareAndSwap(0, int64(monotonic.Now())) // another reader may have come first
				began = w.began.Load()
			}
			f(w, monotonic.Between(time.Duration(began), now))
		}
	}
}
