package sites

import (
	"math/rand/v2"
	"time"
)

// The rule of the verdict "wait". Each threshold stands in a gap that was
// measured on programs of both sorts:
//
//	                                          waiting       mean
//	sick, 27 programs                         11.7 to 20    0.126 to 2.5 s
//	half-used pool                            6.2 to 7.2    0.024 s
//	long poll, 100 events a second, 300 owed  5.6           3.0 s
//	worker pool, fan-out, batch               3.0 to 5.6    0.013 to 2.5 s
//	streams, downloads, uploads, other polls  0 to 0.5      2 s and more
const (
	minWaiting = 8.0                    // between 7.2 and 11.7
	minMean    = 100 * time.Millisecond // between 0.024 s and 0.126 s, for the pool that has 7.2
	minPart    = 0.5                    // of what is owed: between 5.6 of 300 and 11.7 of 12
)

// Mean is how long a request takes: what is owed over those that ended a second
// (Little's law), or the window where none ended.
func Mean(owed, ended float64, window time.Duration) time.Duration {
	if ended <= 0 {
		return window
	}
	return time.Duration(min(owed/ended*float64(window), 1e18)) // some 30 years; more would not fit
}

// Asked reports whether the counters alone allow the verdict. Only then is a
// snapshot worth its cost. Owed is the mean number of requests in flight, less
// those that stream and those that wait by design.
func Asked(owed float64, mean time.Duration) bool {
	return owed >= minWaiting && mean >= minMean
}

// Waits reports whether the verdict holds: requests that are owed wait, waiting
// of them on average.
func Waits(owed, waiting float64, mean time.Duration) bool {
	waiting = min(waiting, owed)
	return Asked(owed, mean) && waiting >= minWaiting && waiting >= minPart*owed
}

// Turns says in which windows to look, where the counters allow the verdict and
// snapshots acquitted: after 2, 4, … 64 windows, or a server of long polls would
// be looked at for ever. The zero value looks at once.
type Turns struct {
	pause, left int
}

// maxPause is ten minutes with windows of 10 s: what an outage of an hour can
// lose, and a hundredth of what looking in every window costs.
const maxPause = 64

// Due is to be called once a window, and reports whether to look in it. Without
// asked nobody looks, and the pause goes on.
func (t *Turns) Due(asked bool) bool {
	t.left = max(0, t.left-1)
	return asked && t.left == 0
}

// Looked notes what came of a look: the verdict held, or not.
func (t *Turns) Looked(held bool) {
	if held {
		t.pause, t.left = 0, 0
		return
	}
	t.pause = min(max(2, 2*t.pause), maxPause)
	t.left = t.pause
}

// Moments are n moments of a window to take snapshots at, one in each nth part
// of it at random. At regular ones snapshots march in step with clients that do
// something every second.
func Moments(n int, window time.Duration) []time.Duration {
	moments := make([]time.Duration, n)
	for i := range moments {
		part := float64(window) / float64(n)
		moments[i] = time.Duration((float64(i) + rand.Float64()) * part)
	}
	return moments
}
