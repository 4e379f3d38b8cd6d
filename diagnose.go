package observer

import (
	"encoding/json"
	"time"

	"github.com/gym-observer/observer/internal/wire"
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
	CauseWait          Cause = "wait"           // requests in flight wait for something in this process that no other cause covers
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
	Also       []Cause       // causes whose rule held, too, in the order of the rules: victims, or a second cause
	Sites      []Site        // where the verdict's cause is in the code: who waits, the largest share first, then who holds; at most 5, empty where it cannot be told
	Peers      []Peer        // the servers that outbound requests waited for, the most waited for first, at most 8 and "others"
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
	Age  time.Duration // of a request it is too small by up to one sample interval, or by as long as the sampler was held up; never too great
}

// Site is one place in the code.
type Site struct {
	Kind     string  `json:"kind"`     // what is counted: "wait", "hold", "alloc", "cpu", "heap"
	Function string  `json:"function"` // the application's function, as runtime.Frame has it
	Location string  `json:"location"` // "store/cache.go:42": the file below its module, never a path of the build machine
	In       string  `json:"in"`       // the library function that waits or works: "database/sql.(*DB).conn"; empty where it is the application's own
	Caller   string  `json:"caller"`   // one application frame further out, as Location; empty where there is none
	Load     float64 `json:"load"`     // mean units at this site, in the unit of the cause
	Share    float64 `json:"share"`    // of what was looked at, 0 to 1
}

// Peer is another server, as the outbound requests of the window found it.
type Peer struct {
	Host     string        // host and port, or what WithPeer calls it; "" for all that it hides, "others" for the rest together
	Waiting  float64       // mean outbound requests that waited for it
	Wait     time.Duration // mean wait of one
	InFlight int           // outbound requests to it in flight at the end of the window
}

// MarshalJSON writes the fields in snake_case, durations as seconds and times
// as RFC 3339. A list without entries is [], never null.
func (d Diagnosis) MarshalJSON() ([]byte, error) {
	return json.Marshal(diagnosisJSON{
		At:         d.At,
		Window:     wire.Seconds(d.Window),
		Verdict:    d.Verdict,
		Summary:    d.Summary,
		Findings:   wire.NotNull(d.Findings),
		Unmeasured: wire.NotNull(d.Unmeasured),
		Oldest:     wire.NotNull(d.Oldest),
		Also:       wire.NotNull(d.Also),
		Sites:      wire.NotNull(d.Sites),
		Peers:      wire.NotNull(d.Peers),
	})
}

// UnmarshalJSON reads what MarshalJSON writes, and what [Handler] does: the
// Diagnosis is the same again, durations to the nanosecond. A list without
// entries becomes nil, as Diagnose has it. Names that it does not know are left
// out; what is missing is zero. After an error d is as it was.
func (d *Diagnosis) UnmarshalJSON(text []byte) error {
	var read diagnosisJSON
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*d = Diagnosis{
		At:         read.At,
		Window:     time.Duration(read.Window),
		Verdict:    read.Verdict,
		Summary:    read.Summary,
		Findings:   wire.NotEmpty(read.Findings),
		Unmeasured: wire.NotEmpty(read.Unmeasured),
		Oldest:     wire.NotEmpty(read.Oldest),
		Also:       wire.NotEmpty(read.Also),
		Sites:      wire.NotEmpty(read.Sites),
		Peers:      wire.NotEmpty(read.Peers),
	}
	return nil
}

type diagnosisJSON struct {
	At         time.Time    `json:"at"`
	Window     wire.Seconds `json:"window_seconds"`
	Verdict    Cause        `json:"verdict"`
	Summary    string       `json:"summary"`
	Findings   []Finding    `json:"findings"`
	Unmeasured []Cause      `json:"unmeasured"`
	Oldest     []Work       `json:"oldest"`
	Also       []Cause      `json:"also"`
	Sites      []Site       `json:"sites"`
	Peers      []Peer       `json:"peers"`
}

// MarshalJSON writes the fields as those of [Diagnosis].
func (w Work) MarshalJSON() ([]byte, error) {
	return json.Marshal(workJSON{w.Kind, w.Name, wire.Seconds(w.Age)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (w *Work) UnmarshalJSON(text []byte) error {
	var read workJSON
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*w = Work{read.Kind, read.Name, time.Duration(read.Age)}
	return nil
}

type workJSON struct {
	Kind string       `json:"kind"`
	Name string       `json:"name"`
	Age  wire.Seconds `json:"age_seconds"`
}

// MarshalJSON writes the fields as those of [Diagnosis].
func (p Peer) MarshalJSON() ([]byte, error) {
	return json.Marshal(peerJSON{p.Host, p.Waiting, wire.Seconds(p.Wait), p.InFlight})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Peer) UnmarshalJSON(text []byte) error {
	var read peerJSON
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*p = Peer{read.Host, read.Waiting, time.Duration(read.Wait), read.InFlight}
	return nil
}

type peerJSON struct {
	Host     string       `json:"host"`
	Waiting  float64      `json:"waiting"`
	Wait     wire.Seconds `json:"wait_seconds"`
	InFlight int          `json:"in_flight"`
}
