package examine

import (
	"slices"
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/sites"
)

// sitesLast is how long the sites of a verdict stand before they are looked for
// anew, where the verdict does not itself rest on snapshots.
const sitesLast = time.Minute

// found are the sites of each cause as they were last found, by snapshots or by
// profiles. It belongs to whoever samples for the process.
type found map[diagnosis.Cause]foundSites

// foundSites are the sites of a cause.
type foundSites struct {
	sites []sites.Site
	at    time.Time
	why   string // there are none, or what is said in their place

	absent int // windows in a row in which the cause did not hold
}

// incidentEnds is how many windows in a row a cause is absent when its incident is over:
// the verdict outlives it by at most two.
const incidentEnds = 3

// endIncidents is told what held in a window. What was found of a cause that does not
// hold any more is not of the next incident. One profile of the processor is good for
// all of its causes, which take turns on a crowded machine.
func (f found) endIncidents(held diagnosis.Set) {
	for cause, last := range f {
		last.absent++
		if cause == diagnosis.None || held.Has(cause) || ofProcessor(cause) && slices.ContainsFunc(causesOfProcessor[:], held.Has) {
			last.absent = 0
		}
		f[cause] = last
		if last.absent >= incidentEnds {
			delete(f, cause)
		}
	}
}

// keepWords takes what is to be said of a verdict without sites.
func (f *found) keepWords(cause diagnosis.Cause, at time.Time, words string) {
	if *f == nil {
		*f = make(found)
	}
	(*f)[cause] = foundSites{at: at, why: words}
}

// keep takes what was found of a cause, or why nothing could be.
func (f *found) keep(cause diagnosis.Cause, at time.Time, all []sites.Site, refused error) {
	if *f == nil {
		*f = make(found)
	}
	why := ""
	if refused != nil && len(all) == 0 {
		why = refused.Error()
	}
	(*f)[cause] = foundSites{sites: all, at: at, why: why}
}

// recently reports whether a cause was looked at so short a time ago that its sites
// stand.
func (f found) recently(cause diagnosis.Cause, now time.Time) bool {
	last, known := f[cause]
	return known && now.Sub(last.at) < sitesLast
}
