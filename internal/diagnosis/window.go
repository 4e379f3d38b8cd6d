package diagnosis

import (
	"time"

	"github.com/gym-observer/observer/internal/number"
)

// Window holds the load of each cause over one stretch of time, and what the
// rules and their evidence need beside. It does not change once it is made.
type Window struct {
	At     time.Time // its end
	Length time.Duration

	Load [NumCauses]number.Number // not known where the cause could not be measured

	Processors float64       // P: GOMAXPROCS
	CPUs       float64       // C: the smaller of P and what the process may use
	CPU        number.Number // CPU time of the process, in seconds per second
	Steal      number.Number // share of the machine's time that the hypervisor took

	DelayPerSlice  number.Number // seconds that a thread waited each time before it got a processor
	Idle           number.Number // share of their time that the CPUs of the affinity mask had nothing to run
	MedianRunnable float64
	MostlyRunnable number.Number // the mean run queue, without its longest sample
	LateRunnable   number.Number // the run queue behind which the sampler had waited; not known where it was not asked for
	LateCPU        number.Number // CPUs that the process used meanwhile; likewise
	LagShare       float64       // the sum of max(0, lag - lagAllowance) over the length
	WorstLag       time.Duration

	ThrottledPeriods int64
	GCLimited        bool // the collector's CPU limiter was on

	// Mean waits, by Little's law: what waits over what ended. Where nothing has
	// ended, the window is the least that it can be.
	OutboundWait  time.Duration
	PoolWait      time.Duration
	AdmissionWait time.Duration
	RequestWait   time.Duration

	Active       float64 // rollouts, on average
	Owed         float64 // requests in flight that somebody waits for: no streams, no expected waits
	Waiting      float64 // of these, those that wait in this process for what no other cause covers
	Pooled       float64 // outbound requests that wait for a connection of this process's own pool
	WaitsOutside bool    // most requests that wait, wait for another server or process

	Descriptors, DescriptorLimit number.Number
	Memory                       MemoryUse
	MemoryStalled                number.Number // seconds per second for which memory.high or the like stopped all threads
}

// span is what a load is computed from: two readings, the samples between them,
// and the time that passed.
type span struct {
	before, after *Reading
	samples       *Samples
	length        time.Duration
}

// perSecond is how fast a total grew, in the total's unit per second.
func (s *span) perSecond(total func(*Reading) number.Number) number.Number {
	return total(s.after).Growth(total(s.before)).Over(s.length.Seconds())
}

// NewWindow turns what two readings and the samples between them say into loads.
func NewWindow(began, ended time.Time, before, after *Reading, samples *Samples) *Window {
	length := ended.Sub(began)
	s := &span{before, after, samples, length}
	w := &Window{
		At:               ended,
		Length:           length,
		Processors:       after.Processors,
		CPUs:             after.CPUs,
		CPU:              s.cpu(),
		Steal:            s.steal(),
		DelayPerSlice:    s.delayPerSlice(),
		Idle:             after.Idle,
		MedianRunnable:   samples.queue.median(samples.runnable.known),
		MostlyRunnable:   samples.runnable.withoutLargest(),
		LateRunnable:     samples.late.queue(),
		LateCPU:          samples.late.cpus(),
		LagShare:         samples.lagExcess.Seconds() / length.Seconds(),
		WorstLag:         samples.worstLag,
		ThrottledPeriods: max(0, after.ThrottledPeriods-before.ThrottledPeriods),
		GCLimited:        after.LimitedAt > before.LimitedAt,
		OutboundWait:     s.meanWait(samples.outbound, before.OutboundEnded, after.OutboundEnded),
		PoolWait:         s.meanWait(samples.pooled, before.OutboundEnded, after.OutboundEnded),
		AdmissionWait:    s.meanWait(samples.waiting, before.AdmissionEnded, after.AdmissionEnded),
		RequestWait:      s.meanWait(samples.served, before.RequestsEnded, after.RequestsEnded),
		Active:           samples.mean(samples.active).Or(0),
		Owed:             samples.mean(samples.served).Or(0),
		Waiting:          s.waiting().Or(0),
		Pooled:           samples.mean(samples.pooled).Or(0),
		WaitsOutside:     after.WaitsOutside,
		Descriptors:      after.Descriptors,
		DescriptorLimit:  after.DescriptorLimit,
		Memory:           after.Memory,
		MemoryStalled:    s.perSecond(func(r *Reading) number.Number { return r.Memory.Stalled }),
	}
	for c := range All() {
		w.Load[c] = rows[c].load(s)
	}
	return w
}

// load is that of a cause for its rule: 0 where it was not measured, which blames
// nobody.
func (w *Window) load(c Cause) float64 { return w.Load[c].Or(0) }

// smoothCollector mends the load of the collector in a window without a finished
// collection: the runtime counts a collection's CPU when it ends, so that a long
// one would read as nothing and then as too much. The load of the window before
// goes on if that was high and a collection may be under way, as far as the
// process used CPU at all.
func (w *Window) smoothCollector(before number.Number, finished int64, collecting bool) {
	load, measured := w.Load[GC].Get()
	if !measured {
		return
	}
	if before := before.Or(0); finished == 0 && collecting && before >= gcGoesOn*w.Processors {
		load = min(before, w.CPU.Or(0))
	}
	w.Load[GC] = number.Known(min(load, w.Processors))
}

// Series makes one window after the other. Its zero value has none open.
type Series struct {
	began     time.Time
	before    Reading
	samples   Samples
	collector number.Number // the load of gc in the window before
	asking    int           // for how many windows each sample is to have the CPU time
}

// Begin opens a window that none comes before.
func (s *Series) Begin(at time.Time, reading Reading) {
	*s = Series{began: at, before: reading}
}

// Add counts a sample in the open window, and returns how long that has been
// open.
func (s *Series) Add(sample *Sample) time.Duration {
	s.samples.Add(sample)
	return sample.At.Sub(s.began)
}

// AsksForChildren reports whether it is worth its cost to count the child
// processes at the end of the open window: only a load that could be a verdict is.
func (s *Series) AsksForChildren() bool {
	return s.samples.notInGo.number().Or(0) >= blockedAtLeast
}

// AsksForCPU reports whether each sample is to have the CPU time: it tells a burst of
// work from a process that was stopped, and costs with each thread.
func (s *Series) AsksForCPU() bool { return s.asking > 0 }

// End returns the window that ends at a moment with a reading, and opens the
// next.
func (s *Series) End(at time.Time, reading Reading) *Window {
	w := NewWindow(s.began, at, &s.before, &reading, &s.samples)
	w.smoothCollector(s.collector, reading.Collections-s.before.Collections, reading.mayBeCollecting())
	last := s.samples.late
	asking := max(0, s.asking-1)
	if w.LagShare >= burstLag {
		asking = windowsOfCPU
	}
	*s = Series{began: at, before: reading, collector: w.Load[GC], asking: asking}
	s.samples.late = late{at: last.at, cpu: last.cpu}
	return w
}
