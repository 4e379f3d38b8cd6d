// Package verdict puts into one sentence what a window came to: the cause with its
// numbers, which is internal/diagnosis's, and the place, which others have found: the
// servers that are waited for, the lines of code, the work that is oldest. It looks for
// none of them, and at no clock.
package verdict

import (
	"fmt"
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/inflight"
	"github.com/gym-observer/observer/internal/sites"
)

// Verdict is what one window came to, with all that is told of it. It does not change.
type Verdict struct {
	*diagnosis.Outcome
	Sites []sites.Site
	Where string // they are, in words
	Peers []inflight.Waited
}

// oldAge is from when on work in flight is named in the sentence of none. Most
// requests are done by then; a rollout of that age is worth a look, too.
const oldAge = 30 * time.Second

// Summary is the sentence, as of a moment at which some work that does not wait by
// design is the oldest; nil for none.
func (v *Verdict) Summary(now time.Time, oldest *inflight.Named) string {
	summary := v.Sentence(v.place())
	if v.Verdict == diagnosis.None && oldest != nil && oldest.Age >= oldAge {
		summary += fmt.Sprintf("; the oldest work in flight is %s, for %v", describe(oldest), oldest.Age.Round(time.Second))
	}
	if age := now.Sub(v.Window.At); age > 2*v.Window.Length {
		summary = fmt.Sprintf("as of %v ago: %s", age.Round(time.Second), summary)
	}
	return summary
}

// place is what the sentence says of the place: the server that most is waited for,
// and the lines.
func (v *Verdict) place() string {
	if v.Verdict != diagnosis.Downstream || len(v.Peers) == 0 || v.Peers[0].Name == "" {
		return v.Where
	}
	words := fmt.Sprintf("%.1f of them for %s, %v each", v.Peers[0].Waiting, v.Peers[0].Name, v.Peers[0].Wait.Round(time.Millisecond))
	if v.Where != "" {
		words += "; " + v.Where
	}
	return words
}

func describe(w *inflight.Named) string {
	if w.Name == "" {
		return "a " + w.Kind
	}
	return "a " + w.Kind + " on " + w.Name
}
