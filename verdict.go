package observer

import (
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/inflight"
	"github.com/gym-observer/observer/internal/sites"
	"github.com/gym-observer/observer/internal/verdict"
)

// maxOldest is how many units of work a diagnosis lists.
const maxOldest = 10

// namer is the process's: two diagnoses must not both wait for a router that hangs.
var namer = inflight.NewNamer()

// diagnosisOf tells of a verdict, and of the requests and rollouts that are in flight
// now.
func diagnosisOf(v *verdict.Verdict, now time.Time) Diagnosis {
	oldest, unexpected := namer.Oldest(&totals.requests.listed, &totals.driver.listed, maxOldest, namePatience)
	result := Diagnosis{
		At:         v.Window.At,
		Window:     v.Window.Length,
		Verdict:    causeOf(v.Verdict),
		Summary:    v.Summary(now, unexpected),
		Unmeasured: causesOf(v.Window.Unmeasured()),
		Also:       causesOf(v.Also.List()),
		Sites:      publicSites(v.Sites),
	}
	for _, w := range oldest {
		result.Oldest = append(result.Oldest, Work{w.Kind, w.Name, w.Age})
	}
	for _, p := range v.Peers {
		result.Peers = append(result.Peers, Peer{Host: p.Name, Waiting: p.Waiting, Wait: p.Wait, InFlight: p.InFlight})
	}
	for _, f := range v.Window.Findings() {
		result.Findings = append(result.Findings, Finding{causeOf(f.Cause), f.Load, f.Evidence, f.Cause.Advice()})
	}
	return result
}

// causeOf is the exported name of a cause.
func causeOf(c diagnosis.Cause) Cause { return Cause(c.Name()) }

func causesOf(list []diagnosis.Cause) (causes []Cause) {
	for _, c := range list {
		causes = append(causes, causeOf(c))
	}
	return causes
}

// publicSites are sites as the diagnosis has them.
func publicSites(all []sites.Site) (public []Site) {
	for _, s := range all {
		public = append(public, Site{s.Kind, s.Function, s.Location, s.In, s.Caller, s.Load, s.Share})
	}
	return public
}
