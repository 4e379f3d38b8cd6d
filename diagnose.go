package observer

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/diagnosis"
)

// Cause is a thing that work can wait for, or a verdict without one.
type Cause string

// The causes, as they stand in metrics, logs and JSON.
const (
	CauseNone    Cause = "none"    // nothing waits beyond its normal bounds
	CauseUnknown Cause = "unknown" // it is slow, and nothing that is measured says why

	CauseCPUThrottled  Cause = "cpu_throttled"  // the cgroup's CPU quota stops the process
	CauseStopTheWorld  Cause = "stop_the_world" // pauses that are not the collector's
	CauseGC            Cause = "gc"             // the garbage collector takes the processors
	CauseCPUContended  Cause = "cpu_contended"  // others have the processors
	CauseCPUSaturated  Cause = "cpu_saturated"  // more goroutines want to run than processors can
	CauseLock          Cause = "lock"           // mutexes
	CauseOutputWrite   Cause = "output_write"   // output writes of a rollout driver
	CauseDownstream    Cause = "downstream"     // outbound requests
	CauseAdmission     Cause = "admission"      // the limit of a MeteredAdmission
	CauseBlockedThread Cause = "blocked_thread" // system calls or C code
	CauseDescriptors   Cause = "descriptors"    // RLIMIT_NOFILE is nearly used up
	CauseMemory        Cause = "memory"         // GOMEMLIMIT or the cgroup's limit is nearly used up
)

// Diagnosis says what slows the process down, over one window.
type Diagnosis struct {
	At         time.Time     // the end of the window
	Window     time.Duration // its length as measured: a starved process closes it late
	Verdict    Cause         // held by two windows in a row, or in one with a stall as long; none before
	Summary    string        // one sentence with the verdict's numbers; says so when At is older than two windows
	Findings   []Finding     // loads first, by falling load; then the shares
	Unmeasured []Cause       // what this platform, or this window, cannot measure
	Oldest     []Work        // the oldest requests and rollouts in flight, at most 10
}

// Finding is what one cause did in the window.
type Finding struct {
	Cause    Cause   `json:"cause"`
	Load     float64 `json:"load"` // mean units waiting; for descriptors and memory the share in use
	Evidence string  `json:"evidence"`
	Advice   string  `json:"advice"`
}

// Work is one request or rollout in flight.
type Work struct {
	Kind string        // "request" or "rollout"
	Name string        // the route of a request, where it is known; never its path
	Age  time.Duration // of a request to within a second; one that began while the process was stopped or starved counts from the end of that
}

// Diagnose returns what slows this process down, over the last complete window.
// It is zero while nothing observes, and has only a Summary until the first
// window is complete. It may be called from any goroutine, as often as wanted:
// it measures nothing, it reads what the sampler has measured.
func Diagnose() Diagnosis {
	if p := running.Load(); p != nil {
		return p.current()
	}
	return Diagnosis{}
}

// slowTime is how long each cause was the verdict, in nanoseconds.
var slowTime [diagnosis.NumCauses]atomic.Int64

// causeOptions are the attribute set of each cause. None has no series.
var causeOptions = func() (all [diagnosis.NumCauses][]metric.ObserveOption) {
	for cause := diagnosis.None + 1; int(cause) < diagnosis.NumCauses; cause++ {
		all[cause] = []metric.ObserveOption{attributesOf(attribute.String(CauseAttribute, cause.Name()))}
	}
	return all
}()

// diagnosisOf puts the outcome of a window into words.
func diagnosisOf(o *diagnosis.Outcome, now time.Time, oldest []Work) Diagnosis {
	w := o.Window
	result := Diagnosis{
		At:         w.At,
		Window:     w.Length,
		Verdict:    causeOf(o.Verdict),
		Summary:    o.Sentence(),
		Unmeasured: causesOf(w.Unmeasured()),
		Oldest:     oldest,
	}
	if o.Verdict == diagnosis.None && len(oldest) > 0 && oldest[0].Age >= oldAge {
		result.Summary += fmt.Sprintf("; the oldest work in flight is %s, for %v", oldest[0].describe(), oldest[0].Age.Round(time.Second))
	}
	if age := now.Sub(w.At); age > 2*w.Length {
		result.Summary = fmt.Sprintf("as of %v ago: %s", age.Round(time.Second), result.Summary)
	}
	for _, f := range w.Findings() {
		result.Findings = append(result.Findings, Finding{causeOf(f.Cause), f.Load, f.Evidence, f.Cause.Advice()})
	}
	return result
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

// MarshalJSON writes the fields in snake_case, durations as seconds and times
// as RFC 3339.
func (d Diagnosis) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		At            time.Time `json:"at"`
		WindowSeconds float64   `json:"window_seconds"`
		Verdict       Cause     `json:"verdict"`
		Summary       string    `json:"summary"`
		Findings      []Finding `json:"findings"`
		Unmeasured    []Cause   `json:"unmeasured"`
		Oldest        []Work    `json:"oldest"`
	}{d.At, d.Window.Seconds(), d.Verdict, d.Summary, notNull(d.Findings), notNull(d.Unmeasured), notNull(d.Oldest)})
}

// MarshalJSON writes the fields as those of [Diagnosis].
func (w Work) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Kind       string  `json:"kind"`
		Name       string  `json:"name"`
		AgeSeconds float64 `json:"age_seconds"`
	}{w.Kind, w.Name, w.Age.Seconds()})
}

// notNull lets an empty list be [] in JSON.
func notNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
