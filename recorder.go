package observer

import (
	"time"

	"github.com/gym-observer/observer/internal/record"
)

// recorder is where durations, sizes and counts go: over rings to the histograms of
// one provider.
type recorder struct {
	histograms
	*record.Rings
}

// newRecorder returns one whose rings pass values on until Stop.
func newRecorder(to *histograms) *recorder { return &recorder{*to, record.NewRings()} }

// admitted returns how many admissions were recorded, and their waits in all.
func (r *recorder) admitted() (admissions int64, waited time.Duration) {
	recorded := r.admission.Totals
	return recorded.Count.Load(), time.Duration(recorded.Sum.Load()) // millionths of a millisecond
}
