package observer

import (
	"io/fs"
	"runtime"
	"testing"
	"time"

	"github.com/gym-observer/observer/internal/count"
	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/number"
	"github.com/gym-observer/observer/internal/reading"
)

// What tests from outside need of the inside.

// WithMachine lets the observers of a test run on a machine with these files,
// and with the threads in a directory like /proc/self/task.
func WithMachine(t testing.TB, root fs.FS, tasks string) {
	previous := totals.machine
	t.Cleanup(func() { totals.machine = previous })
	totals.machine = reading.NewMachine(root, tasks)
}

// OnlyOnLinux skips a test of what the kernel lists of each thread.
func OnlyOnLinux(t testing.TB) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells what its threads wait")
	}
}

// WithoutTotals lets a test begin without the kernel's totals that the process
// has read so far.
func WithoutTotals(t testing.TB) {
	for _, r := range []*count.Ratchet{&totals.runDelay, &totals.throttled} {
		t.Cleanup(r.Forget())
	}
}

// PublishWindow lets a window with these loads end now, as the sampler does that
// completes one. Nothing else may sample meanwhile.
func PublishWindow(length time.Duration, loads map[Cause]float64) {
	w := &diagnosis.Window{
		At: time.Now(), Length: length, Processors: 2, CPUs: 2,
		WorstLag: 1500 * time.Millisecond, OutboundWait: length, AdmissionWait: length,
	}
	for cause := range diagnosis.All() {
		load, measured := loads[causeOf(cause)]
		w.Load[cause] = number.If(measured, load)
	}
	publish(&running.Load().sampler, w)
}

// PublishLag does the same with a window in which goroutines woke late, half of
// the time and once by worst, and nothing else was measured.
func PublishLag(length, worst time.Duration) {
	publish(&running.Load().sampler, &diagnosis.Window{
		At: time.Now(), Length: length, Processors: 2, CPUs: 2,
		WorstLag: worst, LagShare: 0.5,
	})
}

// PassOn hands what waits to be recorded to the provider, as a collection does.
func PassOn() { running.Load().sampler.recorder.Load().PassOn(10 * time.Second) }

// WorkListed returns how many units of work are listed as in flight.
func WorkListed() int {
	return totals.requests.listed.Len() + totals.driver.listed.Len()
}

// ForgetPeers gives up the servers that nothing is in flight to, as the end of a
// window does. Nothing may sample meanwhile.
func ForgetPeers() { totals.requests.peers.EndWindow(1, time.Second) }

// publish does with a window what a sample that completes it does.
func publish(s *sampler, w *diagnosis.Window) { s.logChange(s.publish(w)) }
