package observer

import (
	"testing"
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/reading"
	"github.com/gym-observer/observer/internal/response"
	"github.com/gym-observer/observer/internal/sites"
)

// Examined is an observer whose windows pass as fast as a test wants. What waits in
// the process really waits; only the clock of the sampler is the test's, so that a
// minute without snapshots takes none of the test's time. The code that waits stands
// in the tests from outside: a line of this package is never the application's.
type Examined struct {
	*manual
	at time.Time
}

// Examine observes the process until the test ends.
func Examine(t testing.TB, options ...Option) *Examined {
	m := manually(t, append([]Option{WithWindow(time.Second)}, options...)...)
	return &Examined{m, m.loop.Now()}
}

// samplesPerWindow is that of an interval of 50 ms in a window of a second.
const samplesPerWindow = 20

// Windows lets so many windows pass, and returns the diagnosis of the last.
func (e *Examined) Windows(n int) Diagnosis {
	every := e.sampler.windows.Every
	for range n * samplesPerWindow {
		e.at = e.at.Add(every / samplesPerWindow)
		e.sampler.take(e.at, 0, reading.Queues{}, every/samplesPerWindow)
	}
	return e.sampler.current()
}

// Snapshots is how many were taken in all.
func (e *Examined) Snapshots() int { return e.sampler.examiner.Taken() }

// InFlight are the requests in flight, and those out of the process.
func (e *Examined) InFlight() (served, outbound, streams int64) {
	return totals.requests.inFlight(), totals.requests.outbound.Now(), response.Streaming()
}

// Suffer has a window end in which a cause held.
func (e *Examined) Suffer(cause Cause) {
	e.sampler.examiner.EndWindow(windowWith(map[diagnosis.Cause]float64{theCause(cause): 1000}), time.Second)
}

// Named are the sites of a verdict, as they are known now.
func (e *Examined) Named(cause Cause) (found []Site, where string) {
	all, where := e.sampler.examiner.Of(theCause(cause), e.at)
	return publicSites(all), where
}

func theCause(cause Cause) diagnosis.Cause {
	for c := range diagnosis.All() {
		if causeOf(c) == cause {
			return c
		}
	}
	return diagnosis.None
}

// TheMarks are the functions by which a snapshot tells whose goroutine a stack is.
func TheMarks() sites.Marks { return sites.MarksOf(scopeName) }

// LogOf are the lines that were logged and contain all words.
func (e *Examined) LogOf(words ...string) []string { return e.log.Of(words...) }

// Release stops observing, which the end of the test does, too.
func (e *Examined) Release() { e.holder.Release() }

// Begin begins anew, as the loop of another Start does.
func (e *Examined) Begin() { e.sampler.begin(e.at) }
