// Package count counts what a process serves, makes and drives: what is in flight,
// responses by status, cancellations by route, and totals that are read from
// elsewhere. Counting is a few atomic additions, with no lock but the one that a
// new route takes once; whoever exports reads the counts when it collects. The
// zero value of each type is ready.
package count

import (
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// InFlight counts what has begun and what has ended. One gauge that goes up and
// down would cost the same and not tell how many have ended.
type InFlight struct {
	// Requests write these on whichever core serves them, so that each has a cache
	// line of its own.
	_     cpu.CacheLinePad
	begun atomic.Int64
	_     cpu.CacheLinePad
	ended atomic.Int64
	_     cpu.CacheLinePad
}

// Begin counts one as begun, and returns how many have begun with it.
func (f *InFlight) Begin() (number int64) { return f.begun.Add(1) }

// End counts one as ended.
func (f *InFlight) End() { f.ended.Add(1) }

// Ended returns how many have ended.
func (f *InFlight) Ended() int64 { return f.ended.Load() }

// Now returns how many are in flight.
func (f *InFlight) Now() int64 { return f.NowBeside(0) }

// NowBeside returns how many are in flight where others have ended that are
// counted elsewhere, and were read before this call. What has ended is read
// first: the other way round, something that begins and ends in between would
// make the difference negative.
func (f *InFlight) NowBeside(endedElsewhere int64) int64 {
	ended := f.ended.Load() + endedElsewhere
	return f.begun.Load() - ended
}

// During counts one as in flight until the function that it returns is first
// called.
func (f *InFlight) During() (end func()) {
	f.Begin()
	var ended atomic.Bool
	return func() {
		if ended.CompareAndSwap(false, true) {
			f.End()
		}
	}
}
