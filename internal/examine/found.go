package examine

import (
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
	why   string // there are none
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
	(*f)[cause] = foundSites{all, at, why}
}

// recently reports whether a cause was looked at so short a time ago that its sites
// stand.
func (f found) recently(cause diagnosis.Cause, now time.Time) bool {
	last, known := f[cause]
	return known && now.Sub(last.at) < sitesLast
}
