package observer

import (
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/number"
	"github.com/gym-observer/observer/internal/response"
	"github.com/gym-observer/observer/internal/sites"
)

// snapshotsPerWindow show where goroutines wait. Eight to twelve bring the line
// that most wait at to the top; more cost and add nothing.
const snapshotsPerWindow = 10

// examiner looks for the lines where a cause is in the code: in the window after one
// in which it held, since a verdict needs two windows anyhow. Nothing runs while
// nothing holds. It belongs to whoever samples for the process.
type examiner struct {
	off      bool      // WithSites(false)
	profiles *profiles // nil without WithProfiles

	reader *sites.Reader // made when it is first needed
	taker  sites.Taker
	turns  sites.Turns

	// Of the open window.
	moments []time.Time // of the snapshots that are still to be taken
	survey  sites.Survey
	asked   bool // because requests wait, whether or not a cause held
	refused error
	taken   int // snapshots in all; for tests

	// pooled is how many outbound requests waited for a connection of this process's
	// own pool, in the last window that was looked at.
	pooled float64

	// found are the sites of each cause as they were last found.
	found found
}

// begun opens a window that none comes before: what was planned for another, of a
// loop that has ended, is not to be taken in it.
func (e *examiner) begun() {
	e.survey, e.refused, e.moments = sites.Survey{}, nil, nil
	e.pooled, e.asked, e.found = 0, false, nil
}

// look takes a snapshot, if it is time for one.
func (e *examiner) look(now time.Time) {
	if len(e.moments) == 0 || now.Before(e.moments[0]) {
		return
	}
	e.moments = e.moments[1:]
	requests := &totals.requests
	counts := sites.Now{InFlight: int(requests.inFlight()), Streaming: int(response.Streaming())}
	e.refused = e.taker.Look(func(stacks []sites.Stack) { e.survey.Add(e.reader.Read(stacks, counts)) })
	if e.refused != nil {
		e.moments = nil
		return
	}
	e.taken++
}

// pooledNow is how many outbound requests wait for a connection of this process's own
// pool, as far as snapshots of this window or the last one have shown.
func (e *examiner) pooledNow() int64 {
	if e.survey.Snapshots() > 0 {
		return int64(e.survey.Pooled())
	}
	return int64(e.pooled)
}

// tell adds what the snapshots of a window have found to its reading.
func (e *examiner) tell(r *diagnosis.Reading) {
	if e.survey.Snapshots() == 0 {
		return
	}
	r.MutexWaiters = number.Known(e.survey.Load(sites.Locks))
	r.RequestsWaiting = number.Known(e.survey.Waiting())
	r.WaitsOutside = e.survey.Outside() > e.survey.Waiting()/2
	r.Children = r.Children.Max(number.Known(e.survey.Load(sites.Children)))
}

// endWindow keeps what was found, and decides what to look for in the next window.
func (e *examiner) endWindow(w *diagnosis.Window, every time.Duration) {
	if e.off {
		return
	}
	held := w.Holding()
	if e.survey.Snapshots() > 0 || e.refused != nil {
		for _, cause := range append(held.List(), diagnosis.None) {
			if subject, ok := subjects[cause]; ok {
				e.found.keep(cause, w.At, e.survey.Sites(subject), e.refused)
			}
		}
		if e.asked {
			e.turns.Looked(held.Has(diagnosis.Wait))
		}
	}
	if !w.AsksForWaits() {
		delete(e.found, diagnosis.None) // what waited perhaps by design
	}
	e.pooled = e.survey.Pooled()
	e.survey, e.refused, e.moments = sites.Survey{}, nil, nil
	e.taker.Begin()

	e.asked = e.turns.Due(w.AsksForWaits())
	if e.asked || e.pooled >= 1 || w.AsksForLocks() || e.wanted(held, w.At) {
		e.begin(w.At, every)
	}
	if e.profiles != nil {
		e.makeReader()
		e.profiles.endWindow(e.reader, &e.found, held.First(), w.At)
	}
}

// wanted reports whether the sites of what holds, or may become the verdict, are to
// be looked for.
func (e *examiner) wanted(held diagnosis.Set, now time.Time) bool {
	first := held.First()
	if _, bySnapshots := subjects[first]; !bySnapshots || first == diagnosis.None {
		return false
	}
	if first == diagnosis.Lock || first == diagnosis.Wait {
		return true // whether they go on holding may rest on the snapshots
	}
	return !e.found.recently(first, now)
}

// begin plans the snapshots of the window that opens.
func (e *examiner) begin(now time.Time, every time.Duration) {
	e.makeReader()
	for _, after := range sites.Moments(snapshotsPerWindow, every) {
		e.moments = append(e.moments, now.Add(after))
	}
}

func (e *examiner) makeReader() {
	if e.reader == nil {
		e.reader = sites.NewReader(sites.ReadBuild(), sites.MarksOf(scopeName))
	}
}

// subjects are the goroutines that are counted for each cause that snapshots show.
// Under none, they are those that wait perhaps by design.
var subjects = map[diagnosis.Cause]sites.Subject{
	diagnosis.Lock:          sites.Locks,
	diagnosis.Downstream:    sites.Outbound,
	diagnosis.Admission:     sites.Admissions,
	diagnosis.OutputWrite:   sites.Writes,
	diagnosis.BlockedThread: sites.Calls,
	diagnosis.Wait:          sites.Waiting,
	diagnosis.None:          sites.Perhaps,
}

// of returns the sites of a verdict, and in words where they are or why there are
// none. Those of an older incident are not its.
func (e *examiner) of(verdict diagnosis.Cause, now time.Time) (all []sites.Site, where string) {
	found, known := e.found[verdict]
	lasts := 2 * sitesLast
	if profiled(verdict) {
		lasts = profilesApart + sitesLast
	}
	switch {
	case e.off:
		return nil, ""
	case profiled(verdict) && e.profiles == nil:
		return nil, "observer.WithProfiles would name the line"
	case !known:
		return nil, ""
	case verdict == diagnosis.None:
		return nil, sites.WherePerhaps(found.sites)
	case now.Sub(found.at) > lasts:
		return nil, ""
	}
	return found.sites, sites.Where(found.sites, found.why)
}
