package observer

import (
	"fmt"
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/sites"
)

// verdict is what one window came to, with all that a diagnosis says of it. It does
// not change.
type verdict struct {
	*diagnosis.Outcome
	sites []Site
	where string // in words
	peers []Peer
}

// diagnosisOf puts the outcome of a window into words.
func diagnosisOf(v *verdict, now time.Time, oldest oldest) Diagnosis {
	w := v.Window
	result := Diagnosis{
		At:         w.At,
		Window:     w.Length,
		Verdict:    causeOf(v.Verdict),
		Summary:    v.Sentence(v.whereInWords()),
		Unmeasured: causesOf(w.Unmeasured()),
		Oldest:     oldest.work,
		Also:       causesOf(v.Also.List()),
		Sites:      v.sites,
		Peers:      v.peers,
	}
	if w := oldest.unexpected; v.Verdict == diagnosis.None && w != nil && w.Age >= oldAge {
		result.Summary += fmt.Sprintf("; the oldest work in flight is %s, for %v", w.describe(), w.Age.Round(time.Second))
	}
	if age := now.Sub(w.At); age > 2*w.Length {
		result.Summary = fmt.Sprintf("as of %v ago: %s", age.Round(time.Second), result.Summary)
	}
	for _, f := range w.Findings() {
		result.Findings = append(result.Findings, Finding{causeOf(f.Cause), f.Load, f.Evidence, f.Cause.Advice()})
	}
	return result
}

// whereInWords is what the sentence says of the place: the servers that are waited
// for, and the lines.
func (v *verdict) whereInWords() string {
	if v.Verdict != diagnosis.Downstream || len(v.peers) == 0 || v.peers[0].Host == "" {
		return v.where
	}
	words := fmt.Sprintf("%.1f of them for %s, %v each", v.peers[0].Waiting, v.peers[0].Host, v.peers[0].Wait.Round(time.Millisecond))
	if v.where != "" {
		words += "; " + v.where
	}
	return words
}

// oldAge is from when on work in flight is named in the sentence of none. Most
// requests are done by then; a rollout of that age is worth a look, too.
const oldAge = 30 * time.Second

// causeOf is the exported name of a cause.
func causeOf(c diagnosis.Cause) Cause { return Cause(c.Name()) }

func causesOf(list []diagnosis.Cause) (causes []Cause) {
	for _, c := range list {
		causes = append(causes, causeOf(c))
	}
	return causes
}

func (w Work) describe() string {
	if w.Name == "" {
		return "a " + w.Kind
	}
	return "a " + w.Kind + " on " + w.Name
}

// publicSites are sites as the diagnosis has them.
func publicSites(all []sites.Site) (public []Site) {
	for _, s := range all {
		public = append(public, Site(s))
	}
	return public
}
