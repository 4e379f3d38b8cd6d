package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gym-observer/observer"
)

// Report is what one process says of itself.
type Report struct {
	URL       string             // of its page, without user, password and query
	Name      string             // of the process; "" where the page does not say
	PID       int                // 0 where the page does not say
	Since     time.Time          // when the verdict began; zero where that cannot be told
	Diagnosis observer.Diagnosis // at most 64 entries of each list
	Recent    Recent
}

// Recent is what a process did in the last ten seconds.
type Recent struct {
	Over       time.Duration // how much of them is known; the rest is zero where this is
	Lag        time.Duration // the 99th percentile is at most this long, and at least the boundary before
	InFlight   float64       // mean requests served at once
	Responses  float64       // a second
	Driving    bool          // the process drives rollouts
	Resident   float64       // mean rollouts begun and not ended
	CPU        float64       // mean processors used over the last window; NaN where unmeasured
	Processors float64       // GOMAXPROCS; NaN where unmeasured
}

// recent is how much of a page's history is looked at.
const recent = 10 * time.Second

// Slow reports whether the verdict is that something slows the process down. The
// verdicts none, downstream and admission do not, nor does none at all: the window
// is not complete, or nothing observes.
func (r Report) Slow() bool {
	switch r.Diagnosis.Verdict {
	case "", observer.CauseNone, observer.CauseDownstream, observer.CauseAdmission:
		return false
	}
	return true
}

// Load is that of the verdict: mean units that wait, or for descriptors and memory
// the share in use. It is false where the verdict has none.
func (r Report) Load() (load float64, ok bool) {
	f, ok := r.Finding(r.Diagnosis.Verdict)
	return f.Load, ok
}

// Finding is what a cause did in the last window. It is false where that is not
// known.
func (r Report) Finding(cause observer.Cause) (observer.Finding, bool) {
	i := slices.IndexFunc(r.Diagnosis.Findings, func(f observer.Finding) bool { return f.Cause == cause })
	if i < 0 {
		return observer.Finding{}, false
	}
	return r.Diagnosis.Findings[i], true
}

// MarshalJSON writes the fields of the Diagnosis, with url, process, pid and
// verdict_since before them. What is not known is left out.
func (r Report) MarshalJSON() ([]byte, error) {
	head := struct {
		URL     string     `json:"url"`
		Process string     `json:"process,omitempty"`
		PID     int        `json:"pid,omitempty"`
		Since   *time.Time `json:"verdict_since,omitempty"`
	}{URL: r.URL, Process: r.Name, PID: r.PID}
	if !r.Since.IsZero() {
		head.Since = &r.Since
	}
	first, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	rest, err := json.Marshal(r.Diagnosis)
	if err != nil {
		return nil, err
	}
	return append(append(first[:len(first)-1], ','), rest[1:]...), nil
}

// decode reads a page's JSON.
func decode(body []byte) (Report, error) {
	var d document
	if err := json.Unmarshal(body, &d); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) || len(body) == 0 {
			return Report{}, fmt.Errorf("not JSON (%w)", err)
		}
		return Report{}, fmt.Errorf("not an observer's page: %w", err)
	}
	if d.Verdict == nil || d.Summary == nil {
		return Report{}, errors.New("not an observer's page: it has no verdict")
	}
	r := Report{
		Name:  d.Name,
		PID:   d.PID,
		Since: d.Since,
		Diagnosis: observer.Diagnosis{
			At:         d.At,
			Window:     duration(d.WindowSeconds),
			Verdict:    *d.Verdict,
			Summary:    *d.Summary,
			Findings:   d.Findings,
			Unmeasured: d.Unmeasured,
			Oldest:     d.Oldest,
			Also:       d.Also,
			Sites:      d.Sites,
			Peers:      d.Peers,
		},
		Recent: d.recent(),
	}
	if r.Name == "" {
		r.Name = d.Process
	}
	// As the head of the page has it: "server, process 4711".
	if name, pid, ok := strings.Cut(r.Name, ", process "); ok && r.PID == 0 {
		if n, err := strconv.Atoi(pid); err == nil {
			r.Name, r.PID = name, n
		}
	}
	if r.Since.IsZero() {
		r.Since = d.verdictBegan()
	}
	// A hostile page need not have them in order, and everybody relies on it.
	slices.SortStableFunc(r.Diagnosis.Peers, func(a, b observer.Peer) int { return descending(a.Waiting, b.Waiting) })
	return r, nil
}

// document is what is read of the page's JSON. It is no observer.Diagnosis, since
// the lists of a stranger have bounds here: of three bytes each, a megabyte would
// have 350,000 entries and unpack to a hundred.
type document struct {
	Now           time.Time               `json:"now"`
	At            time.Time               `json:"at"`
	WindowSeconds float64                 `json:"window_seconds"`
	Verdict       *observer.Cause         `json:"verdict"`
	Since         time.Time               `json:"verdict_since"`
	Summary       *string                 `json:"summary"`
	Findings      first[observer.Finding] `json:"findings"`
	Unmeasured    first[observer.Cause]   `json:"unmeasured"`
	Oldest        first[observer.Work]    `json:"oldest"`
	Also          first[observer.Cause]   `json:"also"`
	Sites         first[observer.Site]    `json:"sites"`
	Peers         first[observer.Peer]    `json:"peers"`
	Process       string                  `json:"process"`
	Name          string                  `json:"name"`
	PID           int                     `json:"pid"`
	History       struct {
		LagBoundaries first[float64] `json:"lag_boundaries_seconds"`
		Seconds       last[second]   `json:"seconds"`
		Windows       last[window]   `json:"windows"`
	} `json:"history"`
}

type second struct {
	At            time.Time      `json:"at"`
	LengthSeconds float64        `json:"length_seconds"`
	Lag           first[float64] `json:"lag"`
	LongestLag    float64        `json:"longest_lag_seconds"`
	InFlight      float64        `json:"in_flight"`
	Responses     struct {
		Informational float64 `json:"1xx"`
		Successful    float64 `json:"2xx"`
		Redirected    float64 `json:"3xx"`
		ClientErrors  float64 `json:"4xx"`
		ServerErrors  float64 `json:"5xx"`
		Other         float64 `json:"other"`
	} `json:"responses"`
	Driver *struct {
		Resident float64 `json:"resident"`
	} `json:"driver"`
}

type window struct {
	At            time.Time      `json:"at"`
	LengthSeconds float64        `json:"length_seconds"`
	Verdict       observer.Cause `json:"verdict"`
	Processors    *float64       `json:"processors"`
	CPU           *float64       `json:"cpu"`
}

// recent sums up the last seconds, by the page's own clock.
func (d *document) recent() Recent {
	r := Recent{CPU: math.NaN(), Processors: math.NaN()}
	var lags []float64
	var longest, length, inFlight, resident, responses float64
	for _, s := range d.History.Seconds {
		if d.Now.Sub(s.At) > recent+time.Second || !(s.LengthSeconds > 0) {
			continue
		}
		length += s.LengthSeconds
		inFlight += s.InFlight * s.LengthSeconds
		for i, n := range s.Lag {
			if i == len(lags) {
				lags = append(lags, 0)
			}
			lags[i] += n
		}
		longest = max(longest, s.LongestLag)
		responses += s.Responses.Informational + s.Responses.Successful + s.Responses.Redirected +
			s.Responses.ClientErrors + s.Responses.ServerErrors + s.Responses.Other
		if s.Driver != nil {
			r.Driving = true
			resident += s.Driver.Resident * s.LengthSeconds
		}
	}
	if length > 0 {
		r.Over = duration(length)
		r.Lag = duration(quantile(0.99, lags, d.History.LagBoundaries, longest))
		r.InFlight, r.Resident, r.Responses = inFlight/length, resident/length, responses/length
	}
	if n := len(d.History.Windows); n > 0 {
		if w := d.History.Windows[n-1]; w.CPU != nil {
			r.CPU = *w.CPU
		}
		if w := d.History.Windows[n-1]; w.Processors != nil {
			r.Processors = *w.Processors
		}
	}
	return r
}

// quantile is the upper boundary of the bucket that has it. Nothing is interpolated:
// a number that stands beside others should be one that holds.
func quantile(q float64, counts, boundaries []float64, longest float64) float64 {
	var all, below float64
	for _, n := range counts {
		all += n
	}
	for i, n := range counts {
		if below += n; below >= q*all && i < len(boundaries) {
			return min(boundaries[i], longest)
		}
	}
	return longest
}

// verdictBegan finds in the history when the verdict did. Where it is the same as
// far back as there is one, that is not known.
func (d *document) verdictBegan() time.Time {
	windows := d.History.Windows
	began := len(windows)
	for began > 0 && windows[began-1].Verdict == *d.Verdict {
		began--
	}
	if began == 0 || began == len(windows) {
		return time.Time{}
	}
	return windows[began-1].At
}

// duration is a number of seconds, at most what a Duration can hold.
func duration(seconds float64) time.Duration {
	switch nanos := math.Round(seconds * 1e9); {
	case math.IsNaN(nanos):
		return 0
	case nanos >= 1<<63:
		return math.MaxInt64
	case nanos < -1<<63:
		return math.MinInt64
	default:
		return time.Duration(nanos)
	}
}

func descending(a, b float64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}
