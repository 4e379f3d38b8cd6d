package observer

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/observable"
	"github.com/gym-observer/observer/internal/reading"
	"github.com/gym-observer/observer/internal/record"
)

// generation is the attribute of the collector's points. The slices are what
// variadic calls take without an allocation.
var (
	generation        = observable.Attributes(attribute.Int(GCGenerationAttribute, 0))
	generationRecord  = []metric.RecordOption{generation}
	generationObserve = []metric.ObserveOption{generation}
)

// gcRecorder polls what the runtime says of its collector, at each sample. None of
// that stops the world to be read, as runtime.ReadMemStats does.
type gcRecorder struct {
	pauses    reading.Pauses
	heap      reading.HeapTotals      // belongs to whoever samples for the process
	allocated reading.SinceCollection // collections of the exporter notice it, too
}

// begin forgets the pauses until now.
func (g *gcRecorder) begin() { g.pauses.Begin() }

// poll records the pauses since the last poll, and returns them. A pause for which
// the ring has no room is left to the next poll, and so are those after it: all is
// then false.
func (g *gcRecorder) poll(to *recorder) (pauses diagnosis.Pauses, all bool, err error) {
	g.noticeCollection()
	all = true
	err = g.pauses.Poll(func(seconds float64) bool {
		all = to.Samples.TryPut(record.OfFloat(context.Background(), &to.gcPause, seconds*1000, &generationRecord))
		if all {
			pauses.Add(time.Duration(seconds * float64(time.Second)))
		}
		return all
	})
	return pauses, all, err
}

// noticeCollection keeps count of what is allocated since the last collection. Its
// error comes back at each export, which reports it.
func (g *gcRecorder) noticeCollection() {
	g.heap.ReadAllocated()
	_, _ = g.allocated.Notice(&g.heap)
}
