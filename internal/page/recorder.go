package page

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/number"
)

// Recorder gathers samples into seconds and windows. It does so whether or not
// somebody looks, and a sample allocates nothing. A nil one keeps nothing.
type Recorder struct {
	*History // of its own: within what has pointers the collector would look at all of it

	lagEdges []time.Duration
	since    atomic.Pointer[beginning] // of the verdict; nil before the first window

	mu     sync.Mutex       // only tried: a sampler may be stuck with it, and another go on
	last   time.Time        // of the last sample
	before diagnosis.Sample // the one at which the open second began
	second Second
	sums   inFlightSums
}

// beginning says when a verdict began.
type beginning struct {
	verdict diagnosis.Cause
	at      time.Time
}

// inFlightSums add up what was in flight at each sample.
type inFlightSums struct{ inFlight, outbound, resident, active, waiting int64 }

// Held is what the process holds at the end of a window.
type Held struct{ Memory, Threads number.Number }

// holdUp is the time between two samples, beyond twice their interval, from which
// on the sampler was held up: what happened in it is known in sum only.
const holdUp = 2 * time.Second

// NewRecorder returns one that counts lags in buckets with these edges, at most
// LagBuckets-1: an edge is the greatest lag of its bucket.
func NewRecorder(lagEdges []time.Duration) *Recorder {
	return &Recorder{History: new(History), lagEdges: lagEdges}
}

// Begin opens the first second. Of the sample it takes the time and the totals:
// what was counted before is not shown.
func (r *Recorder) Begin(s *diagnosis.Sample) {
	if r == nil || !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	r.last = s.At
	r.open(s)
}

// Add takes one sample. The first one that lies a second after the last second's
// end closes the next. The interval is the one at which samples are meant to come.
func (r *Recorder) Add(s *diagnosis.Sample, interval time.Duration) {
	if r == nil || !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	second := &r.second
	second.Samples++
	second.Lag[r.lagBucket(s.Lag)]++
	second.LongestLag = max(second.LongestLag, s.Lag)
	second.Gap = second.Gap || s.At.Sub(r.last) > holdUp+2*interval
	second.Pauses += s.Pauses.Count
	second.Paused += s.Pauses.Sum
	second.LongestPause = max(second.LongestPause, s.Pauses.Longest)
	r.last = s.At
	r.sums.inFlight += s.Requests
	r.sums.outbound += s.Outbound
	r.sums.resident += s.Resident
	r.sums.active += s.Active
	r.sums.waiting += s.Waiting
	if s.At.Sub(r.before.At) >= time.Second {
		r.close(s)
	}
}

// open begins a second at a sample.
func (r *Recorder) open(s *diagnosis.Sample) {
	r.before = *s
	r.second, r.sums = Second{}, inFlightSums{}
}

// close ends the open second at a sample, adds it to the history, and opens the
// next.
func (r *Recorder) close(s *diagnosis.Sample) {
	second, before := &r.second, &r.before
	second.At = InstantOf(s.At)
	second.Length = s.At.Sub(before.At)
	mean := func(sum int64) float64 { return float64(sum) / float64(second.Samples) }
	second.InFlight, second.Outbound = mean(r.sums.inFlight), mean(r.sums.outbound)
	for class, n := range s.Responses {
		second.Responses[class] = n - before.Responses[class]
	}
	second.Driving = s.Driving
	if second.Driving {
		second.Resident, second.Active, second.Waiting = mean(r.sums.resident), mean(r.sums.active), mean(r.sums.waiting)
		second.Offered = s.Offered - before.Offered
		second.Admissions = s.Admissions - before.Admissions
		second.Waited = s.Waited - before.Waited
	}
	r.AddSecond(second)
	r.open(s)
}

// lagBucket is where a lag belongs, as the exported histogram has it.
func (r *Recorder) lagBucket(lag time.Duration) int {
	bucket := 0
	for bucket < len(r.lagEdges) && lag > r.lagEdges[bucket] {
		bucket++
	}
	return bucket
}

// AddWindow adds a window with its verdict, and what the process holds at its end.
func (r *Recorder) AddWindow(w *diagnosis.Window, verdict diagnosis.Cause, held Held) {
	if r == nil || !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	if before := r.since.Load(); before == nil || before.verdict != verdict {
		r.since.Store(&beginning{verdict, w.At.Add(-w.Length)})
	}
	row := Window{
		At:          InstantOf(w.At),
		Length:      w.Length,
		Verdict:     verdict,
		Processors:  Number(w.Processors),
		CPUs:        Number(w.CPUs),
		CPU:         shown(w.CPU),
		Memory:      shown(held.Memory),
		Threads:     shown(held.Threads),
		Descriptors: Unmeasured,
	}
	if w.Load[diagnosis.Descriptors].IsKnown() {
		row.Descriptors = shown(w.Descriptors)
	}
	for cause, load := range w.Load {
		row.Load[cause] = shown(load)
	}
	r.History.AddWindow(&row)
}

// shown is what the page shows of a reading.
func shown(n number.Number) Number { return Number(n.Or(math.NaN())) }

// Since returns when a verdict began, also where that is longer ago than the
// history goes; zero where it is not the present one.
func (r *Recorder) Since(verdict string) time.Time {
	if r == nil {
		return time.Time{}
	}
	if now := r.since.Load(); now != nil && now.verdict.Name() == verdict {
		return now.at
	}
	return time.Time{}
}
