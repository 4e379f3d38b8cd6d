// Package examine decides in which windows to look for the lines where a cause is in
// the code, has that done, and keeps what was found.
//
// An [Examiner] takes snapshots of the goroutines by itself, and profiles where it was
// given [Profiles]. It is told of each sample and of the end of each window; what it
// found goes into the window's reading and is asked for by verdict. How a stack is read
// is internal/sites's, which rule holds internal/diagnosis's. It knows no totals, no
// options and no exported type: what is in flight comes as three numbers, and the sites
// leave as they were found.
package examine

import (
	"fmt"
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/number"
	"github.com/gym-observer/observer/internal/sites"
)

// snapshotsPerWindow show where goroutines wait. Eight to twelve bring the line
// that most wait at to the top; more cost and add nothing.
const snapshotsPerWindow = 10

// Examiner looks for the lines where a cause is in the code: in the window after one
// in which it held, since a verdict needs two windows anyhow. Nothing runs while
// nothing holds. Its zero value takes no profiles. All of it but [Examiner.Stop]
// belongs to whoever samples for the process.
type Examiner struct {
	Off      bool        // nothing is looked for
	Profiles *Profiles   // nil where none are to be taken
	Marks    sites.Marks // by which a snapshot tells whose goroutine a stack is

	reader *sites.Reader // made when it is first needed
	taker  sites.Taker
	turns  sites.Turns

	// Of the open window.
	moments []time.Time // of the snapshots that are still to be taken
	survey  sites.Survey
	asked   bool // because requests wait, whether or not a cause held
	refused error
	taken   int // snapshots in all

	// pooled is how many outbound requests waited for a connection of this process's
	// own pool, in the last window that was looked at.
	pooled float64

	// found are the sites of each cause as they were last found.
	found found
}

// Begin opens a window that none comes before: what was planned for another, of a
// loop that has ended, is not to be taken in it.
func (e *Examiner) Begin() {
	e.survey, e.refused, e.moments = sites.Survey{}, nil, nil
	e.pooled, e.asked, e.found = 0, false, nil
}

// Look takes a snapshot, if it is time for one. It then asks what is in flight.
func (e *Examiner) Look(now time.Time, inFlight func() sites.Now) {
	if len(e.moments) == 0 || now.Before(e.moments[0]) {
		return
	}
	e.moments = e.moments[1:]
	counts := inFlight()
	e.refused = e.taker.Look(func(stacks []sites.Stack) { e.survey.Add(e.reader.Read(stacks, counts)) })
	if e.refused != nil {
		e.moments = nil
		return
	}
	e.taken++
}

// Pooled is how many outbound requests wait for a connection of this process's own
// pool, as far as snapshots of this window or the last one have shown.
func (e *Examiner) Pooled() int64 {
	if e.survey.Snapshots() > 0 {
		return int64(e.survey.Pooled())
	}
	return int64(e.pooled)
}

// Tell adds what the snapshots of a window have found to its reading.
func (e *Examiner) Tell(r *diagnosis.Reading) {
	if e.survey.Snapshots() == 0 {
		return
	}
	r.MutexWaiters = number.Known(e.survey.Load(sites.Locks))
	r.RequestsWaiting = number.Known(e.survey.Waiting())
	r.WaitsOutside = e.survey.Outside() > e.survey.Waiting()/2
	r.Children = r.Children.Max(number.Known(e.survey.Load(sites.Children)))
}

// EndWindow keeps what was found, and decides what to look for in the next window.
func (e *Examiner) EndWindow(w *diagnosis.Window, every time.Duration) {
	if e.Off {
		return
	}
	held := w.Holding()
	e.found.endIncidents(held)
	if e.survey.Snapshots() > 0 || e.refused != nil {
		for _, cause := range held.List() {
			if subject, ok := subjects[cause]; ok {
				e.found.keep(cause, w.At, e.survey.Sites(subject), e.refused)
			}
		}
		e.found.keepWords(diagnosis.None, w.At, e.unblamed())
		if e.asked {
			e.turns.Looked(held.Has(diagnosis.Wait))
		}
	}
	if !w.AsksForWaits() {
		delete(e.found, diagnosis.None) // what waited and is not to blame
	}
	e.pooled = e.survey.Pooled()
	e.survey, e.refused, e.moments = sites.Survey{}, nil, nil
	e.taker.Begin()

	e.asked = e.turns.Due(w.AsksForWaits())
	if e.asked || e.pooled >= 1 || w.AsksForLocks() || e.wanted(held, w.At) {
		e.plan(w.At, every)
	}
	if e.Profiles != nil {
		e.makeReader()
		e.Profiles.endWindow(e.reader, &e.found, held.First(), w.At)
	}
}

// unblamed says in words where requests wait although no rule holds, or why nobody
// knows. The larger part of it may be there by design.
func (e *Examiner) unblamed() string {
	if e.survey.Snapshots() == 0 && e.asked {
		return fmt.Sprintf("requests in flight wait, and where was not looked at: %v", e.refused)
	}
	var waiting []sites.Site
	if e.survey.Waiting() >= 1 {
		waiting = e.survey.Sites(sites.Waiting)
	}
	return sites.WhereUnblamed(waiting, e.survey.Sites(sites.Perhaps))
}

// wanted reports whether the sites of what holds, or may become the verdict, are to
// be looked for.
func (e *Examiner) wanted(held diagnosis.Set, now time.Time) bool {
	first := held.First()
	if _, bySnapshots := subjects[first]; !bySnapshots {
		return false
	}
	if first == diagnosis.Lock || first == diagnosis.Wait {
		return true // whether they go on holding may rest on the snapshots
	}
	return !e.found.recently(first, now)
}

// plan plans the snapshots of the window that opens.
func (e *Examiner) plan(now time.Time, every time.Duration) {
	e.makeReader()
	for _, after := range sites.Moments(snapshotsPerWindow, every) {
		e.moments = append(e.moments, now.Add(after))
	}
}

func (e *Examiner) makeReader() {
	if e.reader == nil {
		e.reader = sites.NewReader(sites.ReadBuild(), e.Marks)
	}
}

// subjects are the goroutines that are counted for each cause that snapshots show.
var subjects = map[diagnosis.Cause]sites.Subject{
	diagnosis.Lock:          sites.Locks,
	diagnosis.Downstream:    sites.Outbound,
	diagnosis.Admission:     sites.Admissions,
	diagnosis.OutputWrite:   sites.Writes,
	diagnosis.BlockedThread: sites.Calls,
	diagnosis.Wait:          sites.Waiting,
}

// Of returns the sites of a verdict, and in words where they are or why there are
// none. Those of an older incident are not its, for which [found.endIncidents] sees.
func (e *Examiner) Of(verdict diagnosis.Cause, now time.Time) (all []sites.Site, where string) {
	found, known := e.found[verdict]
	lasts := 2 * sitesLast
	if profiled(verdict) {
		lasts = profilesApart + sitesLast
	}
	switch {
	case e.Off:
		return nil, ""
	case profiled(verdict) && e.Profiles == nil:
		return nil, "observer.WithProfiles would name the line"
	case !known && ofProcessor(verdict):
		return nil, e.Profiles.next(now)
	case !known:
		return nil, ""
	case verdict == diagnosis.None: // said for as long as what is in flight asks for it
		return nil, found.why
	case now.Sub(found.at) > lasts:
		return nil, ""
	}
	return found.sites, sites.Where(found.sites, found.why)
}

// ProfileOf is the profile that the sites of a verdict come from, as go tool pprof
// reads it; nil where none was taken, or not lately.
func (e *Examiner) ProfileOf(verdict diagnosis.Cause, now time.Time) []byte {
	if _, known := e.found[verdict]; !known || e.Profiles == nil || !ofProcessor(verdict) || now.Sub(e.Profiles.began) > profilesApart+sitesLast {
		return nil
	}
	return e.Profiles.last
}

// Taken is how many snapshots were taken in all.
func (e *Examiner) Taken() int { return e.taken }

// Stop ends a profile that is being taken, and waits for its end until a deadline. A
// loop that could not be waited for may still sample.
func (e *Examiner) Stop(deadline time.Time) {
	if e.Profiles != nil {
		e.Profiles.stop(deadline)
	}
}
