package count

import (
	"math"
	"sync/atomic"
)

// Ratchet holds the last value of a counter that is read from elsewhere. It never
// goes down, whatever the source of the counter does. The zero value has no last
// value.
type Ratchet struct {
	above atomic.Uint64 // the bits of the value, plus one: the bits of floats that are not negative order as the floats do
}

// Raise makes value the last one, if it is greater than that.
func (r *Ratchet) Raise(value float64) {
	if value < 0 || math.IsNaN(value) || math.IsInf(value, +1) {
		return
	}
	value += 0 // the zero that has a sign becomes the one that has none: its bits are above all others
	bits := math.Float64bits(value) + 1
	for last := r.above.Load(); bits > last; last = r.above.Load() {
		if r.above.CompareAndSwap(last, bits) {
			return
		}
	}
}

// Last returns the last value, if there is one.
func (r *Ratchet) Last() (value float64, ok bool) {
	bits := r.above.Load()
	if bits == 0 {
		return 0, false
	}
	return math.Float64frombits(bits - 1), true
}

// Forget makes it as if there had been no value, for tests of a process's first
// reading, and returns what puts the value back.
func (r *Ratchet) Forget() (restore func()) {
	bits := r.above.Swap(0)
	return func() { r.above.Store(bits) }
}
