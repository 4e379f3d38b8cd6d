package page

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
)

// Span is how much of the past the page shows.
const Span = 10 * time.Minute

const (
	// A second takes a little longer than that: it ends with the first sample
	// after it. So does a window, whose length is a second at least.
	rows = int(Span / time.Second)

	// LagBuckets is how many buckets the lag is counted in.
	LagBuckets = 17
)

// Number is NaN where it could not be measured, which JSON shows as null.
type Number float64

// Unmeasured is the Number that is none.
var Unmeasured = Number(math.NaN())

// MarshalJSON writes null for what is not a number.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// Instant is a time on the wall, in nanoseconds since 1970. Rows have this instead
// of a time.Time, since what has no pointers in it the collector need not look at, in
// each of its cycles.
type Instant int64

// InstantOf is the Instant of t.
func InstantOf(t time.Time) Instant { return Instant(t.UnixNano()) }

// Time returns the same in the local time zone.
func (i Instant) Time() time.Time { return time.Unix(0, int64(i)) }

// Second is what was sampled and counted in a little more than one second.
type Second struct {
	At      Instant       // its end
	Length  time.Duration // as measured; what is counted is divided by it to become a rate
	Gap     bool          // the sampler was held up within it
	Samples int64

	Lag        [LagBuckets]int64 // samples by their lag
	LongestLag time.Duration

	// On average over the samples.
	InFlight, Outbound        float64
	Resident, Active, Waiting float64

	// Counted from the end of the second before.
	Responses           [diagnosis.ResponseClasses]int64
	Pauses              int64
	Paused              time.Duration
	LongestPause        time.Duration
	Offered, Admissions int64
	Waited              time.Duration // for their admission, in all
	Driving             bool          // the process drives rollouts: it has the values above
}

// Window is one window of the diagnosis.
type Window struct {
	At               Instant // its end
	Length           time.Duration
	Verdict          diagnosis.Cause
	Processors, CPUs Number
	Load             [diagnosis.NumCauses]Number

	CPU                          Number // seconds per second
	Memory, Threads, Descriptors Number
}

// History keeps the last ten minutes. Its memory is fixed, and has no pointers in
// it. One goroutine adds to it and is never held up by those who read.
type History struct {
	seconds ring[Second]
	windows ring[Window]
}

// AddSecond adds a second, which is copied.
func (h *History) AddSecond(s *Second) { h.seconds.add(s) }

// AddWindow adds a window, which is copied.
func (h *History) AddWindow(w *Window) { h.windows.add(w) }

// position returns that of the newest rows.
func (h *History) position() position {
	return position{h.seconds.newest(), h.windows.newest()}
}

// ring keeps the last values that were added.
//
// Each slot has a lock of its own, which the writer only tries. A reader that
// loses its processor in the middle of a copy, as happens on the very machines
// that this is for, so costs the writer that one slot, and never a wait. One
// lock over all would make readers a cause of lag; a sequence lock would need
// every field to be atomic.
type ring[T row] struct {
	slots [rows]slot[T]
	added uint64 // the writer's alone
	next  int    // likewise
}

type slot[T row] struct {
	mu  sync.Mutex
	row numbered[T]
}

type row interface{ ended() time.Time }

func (s Second) ended() time.Time { return s.At.Time() }
func (w Window) ended() time.Time { return w.At.Time() }

// numbered is a value with its number, from 1 on.
type numbered[T row] struct {
	number uint64
	value  T
}

func (r *ring[T]) add(value *T) {
	r.added++
	for {
		slot := &r.slots[r.next]
		r.next = (r.next + 1) % len(r.slots)
		if slot.mu.TryLock() {
			slot.row = numbered[T]{r.added, *value}
			slot.mu.Unlock()
			return
		}
	}
}

// since returns the values with a greater number than after that ended within
// Span before now, the oldest first. A clock that was set back makes times come
// twice: then the newer values hold.
func (r *ring[T]) since(after uint64, now time.Time) []numbered[T] {
	found := make([]numbered[T], 0, rows)
	for i := range r.slots {
		slot := &r.slots[i]
		slot.mu.Lock()
		row := slot.row
		slot.mu.Unlock()
		if row.number > after {
			found = append(found, row)
		}
	}
	newestFirst := func(a, b numbered[T]) int { return cmp.Compare(b.number, a.number) }
	slices.SortFunc(found, newestFirst)
	// The clock on the wall counts a suspension of the machine, the other does not.
	before, oldest := time.Time{}, now.Round(0).Add(-Span)
	kept := found[:0]
	for _, row := range found {
		ended := row.value.ended()
		if ended.After(oldest) && (before.IsZero() || ended.Before(before)) {
			kept = append(kept, row)
			before = ended
		}
	}
	slices.Reverse(kept)
	return kept
}

// newest returns the number of the newest value, 0 without one.
func (r *ring[T]) newest() (number uint64) {
	for i := range r.slots {
		slot := &r.slots[i]
		slot.mu.Lock()
		number = max(number, slot.row.number)
		slot.mu.Unlock()
	}
	return number
}
