package diagnosis

import (
	"time"

	"github.com/gym-observer/observer/internal/number"
)

// Sample is what the process looked like at one tick. Whoever samples reads it
// once and hands it to all who want it.
type Sample struct {
	At  time.Time
	Lag time.Duration // how late the sampler woke up

	Runnable number.Number // goroutines ready but not running
	NotInGo  number.Number // goroutines in system calls or C code

	// CPU is the CPU time of the process, in seconds. It is asked for where
	// [Series.AsksForCPU] says so, and not known otherwise.
	CPU number.Number

	// In flight at this moment.
	Requests int64 // served
	Outbound int64 // waiting for their response headers
	Resident int64 // rollouts
	Active   int64 // rollouts that were admitted
	Waiting  int64 // rollouts that wait for the limit
	Writing  int64 // output writes

	// Of these, what waits by design, and is no load.
	ExpectedRequests int64 // that wait for events
	Streams          int64 // whose response has begun to flow, or that are hijacked, without the expected ones
	ExpectedOutbound int64 // that wait for events
	Pooled           int64 // outbound requests that wait for a connection of this process's own pool

	Driving bool // the process drives rollouts: without it their numbers mean nothing

	// Totals of the process's life; what a second saw is their growth.
	Responses  [ResponseClasses]int64 // by class: 1xx to 5xx, then the rest
	Offered    int64                  // rollouts
	Admissions int64                  // rollouts whose wait was recorded
	Waited     time.Duration          // of these, in all

	Pauses Pauses // since the sample before
}

// ResponseClasses are 1xx to 5xx, and what is outside of them.
const ResponseClasses = 6

// Pauses are those of the collector, in one tick.
type Pauses struct {
	Count        int64
	Sum, Longest time.Duration
}

// Add counts one more pause.
func (p *Pauses) Add(length time.Duration) {
	p.Count++
	p.Sum += length
	p.Longest = max(p.Longest, length)
}

// Reading is what everything stood at, at one moment: totals of the process's
// life, and levels. What could not be read is not known, and leaves its cause
// unmeasured.
type Reading struct {
	Processors float64 // GOMAXPROCS, at least 1
	CPUs       float64 // the smaller of that and what the process may use

	// Totals, in seconds.
	CPU       number.Number // user and system time of the process
	RunDelay  number.Number // threads ready without a processor, summed
	Throttled number.Number // the quota stopped the process
	Collector number.Number // CPU of the collector, without idle marking
	Stopped   number.Number // pauses that are not the collector's
	Locked    number.Number // mutex waits that ended

	Timeslices       number.Number // how often a thread was given a processor
	ThrottledPeriods int64

	// ThrottlingUnseen says that there may have been a quota, since the reading
	// before, that could not be seen: Throttled is true as far as it goes, and
	// nobody knows what of the run delay is the quota's.
	ThrottlingUnseen bool

	// Idle is the share of their time that the CPUs of the affinity mask had
	// nothing to run, since the reading before.
	Idle number.Number

	// Totals, in ticks of all processors.
	Steal   number.Number // taken by the hypervisor
	Machine number.Number // all

	Collections int64   // that have finished
	LimitedAt   int64   // the collection at which the collector's CPU limiter was last on
	HeapLive    float64 // bytes that the last collection left alive
	HeapGoal    float64 // bytes
	HeapObjects float64 // bytes on the heap now

	OutboundEnded  int64         // outbound requests that have their response headers, without the expected ones
	RequestsEnded  int64         // requests served, without the expected ones and those that streamed
	AdmissionEnded int64         // waits for the limit that ended, one way or the other
	Written        time.Duration // the parts of recorded output writes that lie in the window

	Descriptors, DescriptorLimit number.Number
	Memory                       MemoryUse

	// Children are the child processes that live. They are asked for where
	// [Series.AsksForChildren] says so, and not known otherwise.
	Children number.Number

	// What snapshots of the goroutines have found in the window; not known where
	// none was taken.
	MutexWaiters    number.Number // goroutines that wait for a mutex, on average
	RequestsWaiting number.Number // requests that wait in this process for what no other cause covers, on average
	WaitsOutside    bool          // most of these wait for another server, a database for one, or for a child process
}

// mayBeCollecting reports whether a collection may be under way. The runtime does
// not tell. But by itself it begins none before the heap has grown by seven tenths
// of the way from what is live to the goal (minTriggerRatioNum in its pacer).
func (r *Reading) mayBeCollecting() bool {
	return r.HeapObjects >= r.HeapLive+0.7*(r.HeapGoal-r.HeapLive)
}
