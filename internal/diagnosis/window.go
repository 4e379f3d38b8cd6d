package diagnosis

import (
	"time"

	"github.com/gym-observer/observer/internal/number"
)

// Window holds the load of each cause over one stretch of time, and what the
// rules and their evidence need beside. It does not change once it is made.
type Window struct {
	At     time.Time // its end
	Length time.Duration

	Load [NumCauses]number.Number // not known where the cause could not be measured

	Processors float64       // P: GOMAXPROCS
	CPUs       float64       // C: the smaller of P and what the process may use
	CPU        number.Number // CPU time of the process, in seconds per second
	Steal      number.Number // share of the machine's time that the hypervisor took

	MedianRunnable float64
	LagShare       float64 // the sum of max(0, lag - lagAllowance) over the length
	WorstLag       time.Duration

	ThrottledPeriods int64
	GCLimited        bool // the collector's CPU limiter was on
	OutboundWait     time.Duration
	Active           float64 // rollouts, on average

	Descriptors, DescriptorLimit number.Number
	Memory                       MemoryUse
}

// span is what a load is computed from: two readings, the samples between them,
// and the time that passed.
type span struct {
	before, after *Reading
	samples       *Samples
	length        time.Duration
}

// perSecond is how fast a total grew, in the total's unit per second.
func (s *span) perSecond(total func(*Reading) number.Number) number.Number {
	return total(s.after).Growth(total(s.before)).Over(s.length.Seconds())
}

// NewWindow turns what two readings and the samples between them say into loads.
func NewWindow(began, ended time.Time, before, after *Reading, samples *Samples) *Window {
	length := ended.Sub(began)
	s := &span{before, after, samples, length}
	w := &Window{
		At:               ended,
		Length:           length,
		Processors:       after.Processors,
		CPUs:             after.CPUs,
		CPU:              s.cpu(),
		Steal:            s.steal(),
		MedianRunnable:   samples.queue.median(samples.runnable.known),
		LagShare:         samples.lagExcess.Seconds() / length.Seconds(),
		WorstLag:         samples.worstLag,
		ThrottledPeriods: max(0, after.ThrottledPeriods-before.ThrottledPeriods),
		GCLimited:        after.LimitedAt > before.LimitedAt,
		OutboundWait:     s.outboundWait(),
		Active:           samples.mean(samples.active).Or(0),
		Descriptors:      after.Descriptors,
		DescriptorLimit:  after.DescriptorLimit,
		Memory:           after.Memory,
	}
	for c := range All() {
		w.Load[c] = rows[c].load(s)
	}
	return w
}

// load is that of a cause for its rule: 0 where it was not measured, which blames
// nobody.
func (w *Window) load(c Cause) float64 { return w.Load[c].Or(0) }

// smoothCollector mends the load of the collector in a window without a finished
// collection: the runtime counts a collection's CPU when it ends, so that a long
// one would read as nothing and then as too much. The load of the window before
// goes on if that was high and a collection may be under way, as far as the
// process used CPU at all.
func (w *Window) smoothCollector(before number.Number, finished int64, collecting bool) {
	load, measured := w.Load[GC].Get()
	if !measured {
		return
	}
	if before := before.Or(0); finished == 0 && collecting && before >= gcGoesOn*w.Processors {
		load = min(before, w.CPU.Or(0))
	}
	w.Load[GC] = number.Known(min(load, w.Processors))
}

// gcGoesOn is the load of P from which on a collection may last for a window.
const gcGoesOn = 0.2

// Series makes one window after the other. Its zero value has none open.
type Series struct {
	began     time.Time
	before    Reading
	samples   Samples
	collector number.Number // the load of gc in the window before
}

// Begin opens a window that none comes before.
func (s *Series) Begin(at time.Time, reading Reading) {
	*s = Series{began: at, before: reading}
}

// Add counts a sample in the open window, and returns how long that has been
// open.
func (s *Series) Add(sample *Sample) time.Duration {
	s.samples.Add(sample)
	return sample.At.Sub(s.began)
}

// End returns the window that ends at a moment with a reading, and opens the
// next.
func (s *Series) End(at time.Time, reading Reading) *Window {
	w := NewWindow(s.began, at, &s.before, &reading, &s.samples)
	w.smoothCollector(s.collector, reading.Collections-s.before.Collections, reading.mayBeCollecting())
	*s = Series{began: at, before: reading, collector: w.Load[GC]}
	return w
}
