package sites

import (
	"math/rand/v2"
	"time"
)

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
