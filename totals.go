package observer

import (
	"sync/atomic"

	"golang.org/x/sys/cpu"

	"github.com/gym-observer/observer/internal/count"
	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/kernel"
	"github.com/gym-observer/observer/internal/reading"
)

// totals is all that lives as long as the process, across every Start and Stop: a
// counter never goes down, and what is in flight began whenever it did. It is a
// value and no pointer, so that a request finds it at an address that never
// changes. (Two counts of streams are in internal/response, which says why; namer and
// livePage live as long, and count nothing.)
var totals = lifelong{machine: reading.NewMachine(kernel.Files("/"), "/proc/self/task")}

type lifelong struct {
	// observing is whether something observes the process. It is the one thing
	// that a request or a rollout looks at while nothing does.
	observing atomic.Bool
	_         cpu.CacheLinePad

	requests RequestMetrics
	driver   DriverMetrics

	// The last values of the counters that are read from elsewhere: the first two
	// by each collection, the next three from the runtime, and the last two from
	// the kernel, once a window.
	cpuUser, cpuSystem                    count.Ratchet
	collections, collected, uncollectable count.Ratchet
	throttled, runDelay                   count.Ratchet

	// slowTime is how long each cause was the verdict, in nanoseconds.
	slowTime [diagnosis.NumCauses]atomic.Int64

	// machine is that on which the process runs. Two of the counters are made of
	// its totals.
	machine reading.Machine
}

// Requests returns the request counters of the process, or nil while nothing
// observes it. It costs one atomic load, so it is to be called at each request;
// a pointer kept from before a Stop still counts.
func Requests() *RequestMetrics {
	if !totals.observing.Load() {
		return nil
	}
	return &totals.requests
}

// Driver returns the rollout counters of the process, or nil while nothing
// observes it. It costs one atomic load; a pointer kept from before a Stop still
// counts, but records no durations and sizes.
func Driver() *DriverMetrics {
	if !totals.observing.Load() {
		return nil
	}
	return &totals.driver
}
