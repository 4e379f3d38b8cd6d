package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Judge turns the causes of one window after the other into a verdict that does
// not flicker. Its zero value has the verdict None.
type Judge struct {
	verdict Cause
	before  Set     // what held in the window before
	shown   *Window // the latest in which the verdict held
}

// Outcome is what one window came to. It does not change.
type Outcome struct {
	Window  *Window
	Verdict Cause
	Changed bool // from the verdict of the window before

	shown *Window // the latest window in which the verdict held, for its sentence
}

// Next judges a window. The verdict changes when the window's first cause held in
// the window before, too, though perhaps behind another: two causes that take
// turns at the top are no reason to name none. A stall that lasted for as long as
// a window is meant to (every) held one window open, and needs no second.
func (j *Judge) Next(w *Window, every time.Duration) *Outcome {
	held := w.Holding()
	changed := j.agree(held)
	if w.WorstLag >= every {
		changed = j.agree(held) || changed
	}
	if changed || j.shown == nil || held.Has(j.verdict) {
		j.shown = w
	}
	return &Outcome{Window: w, Verdict: j.verdict, Changed: changed, shown: j.shown}
}

// agree takes what held in one window, and reports whether the verdict changed.
func (j *Judge) agree(held Set) (changed bool) {
	cause := held.First()
	agreed := j.before.Has(cause) || held == 0 && j.before == 0
	j.before = held
	if !agreed || cause == j.verdict {
		return false
	}
	j.verdict = cause
	return true
}

// Sentence says the verdict with its numbers, and what to do about it.
func (o *Outcome) Sentence() string {
	r := &rows[o.Verdict]
	sentence := r.name + ": " + r.evidence(o.shown)
	if r.advice != "" {
		sentence += ". " + r.advice
	}
	return sentence
}

// Finding is what one cause did in a window.
type Finding struct {
	Cause    Cause
	Load     float64
	Evidence string
}

// Findings returns what was measured of each cause: loads first, by falling load;
// then the shares.
func (w *Window) Findings() []Finding {
	var loads, shares []Finding
	for c := range All() {
		load, measured := w.Load[c].Get()
		switch finding := (Finding{c, load, rows[c].evidence(w)}); {
		case !measured:
		case rows[c].share:
			shares = append(shares, finding)
		default:
			loads = append(loads, finding)
		}
	}
	slices.SortStableFunc(loads, func(a, b Finding) int { return cmp.Compare(b.Load, a.Load) })
	return append(loads, shares...)
}

// Unmeasured returns the causes that could not be measured in the window, in the
// order of the rules.
func (w *Window) Unmeasured() (causes []Cause) {
	for c := range All() {
		if !w.Load[c].IsKnown() {
			causes = append(causes, c)
		}
	}
	return causes
}

func (c Cause) String() string {
	if c < 0 || int(c) >= NumCauses {
		return fmt.Sprintf("cause %d", int(c))
	}
	return c.Name()
}
