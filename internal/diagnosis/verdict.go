package diagnosis

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

	// Also are the other causes whose rule held: victims, or a second cause.
	Also Set

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
	outcome := &Outcome{Window: w, Verdict: j.verdict, Changed: changed, shown: j.shown}
	if j.verdict != None {
		outcome.Also = j.shown.Holding().Without(j.verdict)
	}
	return outcome
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

// Level is that of the log line about the verdict. Evidence is captured from Warn
// on: what is information has no other evidence than its sentence.
func (o *Outcome) Level() slog.Level {
	if o.Verdict == Wait && o.shown.WaitsOutside {
		return slog.LevelInfo // it is another server's or process's doing, as Downstream is
	}
	return o.Verdict.Level()
}

// Sentence says the verdict with its numbers and where it is in the code, which
// may be empty, what to do about it, and what else holds: cause and victim cannot
// always be told apart from inside.
func (o *Outcome) Sentence(where string) string {
	r := &rows[o.Verdict]
	sentence := r.name + ": " + r.evidence(o.shown)
	if where != "" {
		sentence += "; " + where
	}
	if r.advice != "" {
		sentence += ". " + r.advice
	}
	if o.Also == 0 {
		return sentence
	}
	var others []string
	for _, c := range o.Also.List() {
		if rows[c].share {
			others = append(others, fmt.Sprintf("%s %.0f %%", rows[c].name, 100*o.shown.load(c)))
		} else {
			others = append(others, fmt.Sprintf("%s %.1f", rows[c].name, o.shown.load(c)))
		}
	}
	return strings.TrimSuffix(sentence, ".") + "; also: " + strings.Join(others, ", ")
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
// order of the rules. One that nobody looked for, because what was counted acquits
// it, is not among them.
func (w *Window) Unmeasured() (causes []Cause) {
	for c := range All() {
		spared := rows[c].spared
		if !w.Load[c].IsKnown() && (spared == nil || !spared(w)) {
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
