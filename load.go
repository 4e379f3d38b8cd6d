package observer

import (
	"errors"
	"math"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// sample is what the sampler of the oldest loop saw at one moment.
type sample struct {
	at  time.Time
	lag time.Duration
	queues
}

// queues are the goroutines that wait, by what the runtime knows of them.
type queues struct {
	runnable maybe // ready but not running
	notInGo  maybe // in system calls or C code
}

// mayWait reports whether a goroutine may be waiting for a processor.
func (q queues) mayWait() bool { return !q.runnable.known || q.runnable.value > 0 }

// maybe is a reading that may have failed.
type maybe struct {
	value float64
	known bool
}

// known is a reading that has not failed.
func known(value float64) maybe { return maybe{value, true} }

// growth returns how much a total grew, if both readings are known. A total that
// fell has begun anew.
func (m maybe) growth(before maybe) maybe {
	if !m.known || !before.known {
		return maybe{}
	}
	return known(max(0, m.value-before.value))
}

// over divides a reading.
func (m maybe) over(divisor float64) maybe {
	m.value /= divisor
	return m
}

// window holds the load of each cause over one stretch of time, and what the
// rules and their evidence need beside. It does not change once it is made.
type window struct {
	at     time.Time
	length time.Duration

	load       map[Cause]float64 // no entry where the cause could not be measured
	processors float64           // P: GOMAXPROCS
	cpus       float64           // C: the smaller of P and what the process may use
	cpu        float64           // CPU time of the process, in seconds per second
	cpuKnown   bool

	medianRunnable float64
	lagShare       float64 // the sum of max(0, lag - lagAllowance) over the length
	worstLag       time.Duration

	throttledPeriods int64
	gcLimited        bool // the collector's CPU limiter was on
	outboundWait     time.Duration
	active           float64 // rollouts, on average
	steal            float64 // share of the machine's time that the hypervisor took
	stealKnown       bool

	descriptors, descriptorLimit float64
	memory                       memoryUse
}

// loads adds samples up to windows.
type loads struct {
	every   time.Duration // the length of a window, or a little more
	process processSource
	machine machineSource
	failed  func(cause string, err error)

	mu       sync.Mutex // the samplers take turns; no callback takes it
	began    time.Time
	sums     sampleSums
	before   standing
	gc       float64 // the load of gc in the window before
	runtime  runtimeReader
	failures []failedReading // to be reported
}

type failedReading struct {
	cause string
	err   error
}

// begin opens a window.
func (l *loads) begin(now time.Time) {
	defer l.report() // once the lock is free: see log
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gc = 0
	l.open(now, l.read())
}

// add takes one sample, and returns the window that it completes, if it does.
func (l *loads) add(s sample) *window {
	l.mu.Lock()
	l.sums.add(s)
	if s.at.Sub(l.began) < l.every {
		l.mu.Unlock()
		return nil
	}
	defer l.report() // once the lock is free: see log
	defer l.mu.Unlock()
	now := l.read()
	w := newWindow(l.began, s.at, l.before, now, &l.sums)
	w.smoothGC(l.gc, now.cycles-l.before.cycles, now.collecting)
	l.gc = w.load[CauseGC]
	l.open(s.at, now)
	return w
}

// report reports the readings that failed.
func (l *loads) report() {
	l.mu.Lock()
	failed := l.failures
	l.failures = nil
	l.mu.Unlock()
	for _, f := range failed {
		l.failed(f.cause, f.err)
	}
}

// open begins a window; l.mu is held.
func (l *loads) open(at time.Time, now standing) {
	l.began, l.before = at, now
	l.sums = sampleSums{}
	driverTotals.openWindow(at)
}

// sampleSums are the samples of the window that is open.
type sampleSums struct {
	samples                            float64
	runnable, notInGo                  float64
	runnableKnown, notInGoKnown        float64 // samples that knew them
	queue                              queueLengths
	waiting, outbound, writing, active int64
	lagExcess, worstLag                time.Duration
}

// add counts one sample, with what waits in this process at that time.
func (sums *sampleSums) add(s sample) {
	sums.samples++
	if s.runnable.known {
		sums.runnable += s.runnable.value
		sums.runnableKnown++
		sums.queue.add(s.runnable.value)
	}
	if s.notInGo.known {
		sums.notInGo += s.notInGo.value
		sums.notInGoKnown++
	}
	sums.waiting += driverTotals.waiting.now()
	sums.writing += driverTotals.writing.now()
	sums.active += driverTotals.active.Load()
	sums.outbound += requestTotals.outbound.now()
	sums.lagExcess += max(0, s.lag-lagAllowance)
	sums.worstLag = max(sums.worstLag, s.lag)
}

// queueLengths counts run queues by their length, for the median. Samples at
// the wrong moment make the mean a poor witness: the median is robust to them.
type queueLengths struct {
	counts [4097]uint32 // the last one is for all that are longer
}

func (q *queueLengths) add(length float64) {
	q.counts[int(min(max(length, 0), float64(len(q.counts)-1)))]++
}

func (q *queueLengths) median(samples float64) float64 {
	below := 0.0
	for length, count := range q.counts {
		below += float64(count)
		if below > 0 && below >= samples/2 {
			return float64(length)
		}
	}
	return 0
}

// standing is what everything stood at, at one moment: totals of the process's
// life, and levels.
type standing struct {
	processors, cpus float64

	// Totals, in seconds.
	cpu, runDelay, throttled     maybe
	collector, stopped, locked   maybe
	steal, machine               maybe // ticks
	throttledPeriods             int64
	throttlingFailed             bool  // for another reason than that there is none
	cycles, limited              int64 // collections; the last one at which the limiter was on
	collecting                   bool  // a collection may be under way
	outboundEnded                int64
	written                      time.Duration // see DriverMetrics.written
	descriptors, descriptorLimit maybe
	memory                       memoryUse
}

// read takes a reading of everything; l.mu is held. What fails is to be
// reported, unless this platform has no such thing, and leaves its cause
// unmeasured.
func (l *loads) read() standing {
	var s standing
	r := &l.runtime
	r.read()
	s.processors = max(1, r.value(gomaxprocs).value)
	s.collector = r.sum(gcAssistCPU, gcDedicatedCPU, gcPauseCPU)
	s.stopped = r.histogramSum(otherPauses)
	s.locked = r.value(mutexWait)
	s.cycles = int64(r.value(collectionCycles).value)
	s.limited = int64(r.value(limiterEnabled).value)
	s.collecting = mayBeCollecting(r.value(heapLive).value, r.value(heapGoal).value, r.value(heapObjects).value)
	s.memory = r.memoryUse()

	user, system, err := l.process.cpuTime()
	s.cpu = l.reading("own CPU time", user+system, err)
	delay, err := l.machine.runDelay()
	s.runDelay = l.reading(string(CauseCPUContended), delay.Seconds(), err)
	throttled, periods, err := l.machine.throttled()
	s.throttled = l.reading(string(CauseCPUThrottled), throttled.Seconds(), err)
	s.throttlingFailed = err != nil && !errors.Is(err, errors.ErrUnsupported)
	s.throttledPeriods = periods
	limit, err := l.machine.cpuLimit()
	l.reading("CPU limit", limit, err)
	s.cpus = min(s.processors, float64(runtime.NumCPU()), limit)
	ticks, err := l.machine.time()
	s.steal = l.reading("steal", float64(ticks.Steal), err)
	s.machine = maybe{float64(ticks.Total), err == nil}
	group, err := l.machine.memory()
	l.reading(string(CauseMemory), 0, err)
	s.memory.groupUsed, s.memory.groupLimit, s.memory.groupFailed = group.Used, group.Limit, err != nil
	descriptors, err := l.process.openDescriptors()
	s.descriptors = l.reading(string(CauseDescriptors), float64(descriptors), err)
	descriptorLimit, err := l.machine.descriptorLimit()
	s.descriptorLimit = l.reading("descriptor limit", float64(descriptorLimit), err)

	if s.runDelay.known {
		lastRunDelay.raise(s.runDelay.value)
	}
	if s.throttled.known {
		lastThrottled.raise(s.throttled.value)
	}
	s.outboundEnded = requestTotals.outbound.ended.Load()
	s.written = time.Duration(driverTotals.written.Load())
	return s
}

func (l *loads) reading(cause string, value float64, err error) maybe {
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		l.failures = append(l.failures, failedReading{cause, err})
	}
	return maybe{value, err == nil}
}

// newWindow turns what two readings and the samples between them say into loads.
// It is arithmetic alone.
func newWindow(began, ended time.Time, before, after standing, sums *sampleSums) *window {
	length := ended.Sub(began)
	seconds := length.Seconds()
	cpu := after.cpu.growth(before.cpu).over(seconds)
	w := &window{
		at:               ended,
		length:           length,
		load:             make(map[Cause]float64),
		processors:       after.processors,
		cpus:             after.cpus,
		cpu:              cpu.value,
		cpuKnown:         cpu.known,
		medianRunnable:   sums.queue.median(sums.runnableKnown),
		lagShare:         sums.lagExcess.Seconds() / seconds,
		worstLag:         sums.worstLag,
		throttledPeriods: max(0, after.throttledPeriods-before.throttledPeriods),
		gcLimited:        after.limited > before.limited,
		descriptors:      after.descriptors.value,
		descriptorLimit:  after.descriptorLimit.value,
		memory:           after.memory,
	}
	set := func(cause Cause, load maybe) {
		if load.known {
			w.load[cause] = load.value
		}
	}
	mean := func(sum, samples float64) maybe {
		if samples == 0 {
			return maybe{}
		}
		return known(sum / samples)
	}

	set(CauseCPUSaturated, mean(sums.runnable, sums.runnableKnown))
	set(CauseBlockedThread, mean(sums.notInGo, sums.notInGoKnown))
	throttled := after.throttled.growth(before.throttled).over(seconds)
	set(CauseCPUThrottled, throttled)
	delay := after.runDelay.growth(before.runDelay).over(seconds)
	// What the quota stopped is in the run delay, in a way that depends on the
	// kernel: then it says nothing of others. Where a quota could not be read,
	// it may have. The rule needs the own CPU, too.
	delay.known = delay.known && cpu.known && throttled.value < throttledBarely && !after.throttlingFailed
	set(CauseCPUContended, delay)
	set(CauseGC, after.collector.growth(before.collector).over(seconds))
	stopped := after.stopped.growth(before.stopped).over(seconds / w.processors)
	set(CauseStopTheWorld, stopped)
	set(CauseLock, after.locked.growth(before.locked).over(seconds))

	w.active = mean(float64(sums.active), sums.samples).value
	set(CauseAdmission, mean(float64(sums.waiting), sums.samples))
	outbound := mean(float64(sums.outbound), sums.samples)
	set(CauseDownstream, outbound)
	if ended := after.outboundEnded - before.outboundEnded; ended > 0 {
		w.outboundWait = time.Duration(outbound.value / float64(ended) * float64(length)) // Little's law
	} else if outbound.value > 0 {
		w.outboundWait = length // at least
	}
	writing := mean(float64(sums.writing), sums.samples)
	writing.value += max(0, (after.written-before.written).Seconds()/seconds)
	set(CauseOutputWrite, writing)

	set(CauseDescriptors, maybe{
		after.descriptors.value / max(1, after.descriptorLimit.value), // a sandbox may set 0
		after.descriptors.known && after.descriptorLimit.known,
	})
	share, shareKnown := after.memory.share()
	set(CauseMemory, maybe{share, shareKnown})

	machine := after.machine.growth(before.machine)
	w.stealKnown = machine.known && machine.value > 0
	if w.stealKnown {
		w.steal = after.steal.growth(before.steal).value / machine.value
	}
	return w
}

// throttledBarely is so little throttling that it leaves the run delay readable.
const throttledBarely = 0.01

// smoothGC mends the load of the collector in a window without a finished
// collection: the runtime counts a collection's CPU when it ends, so that a long
// one would read as nothing and then as too much. The load of the window before
// goes on if that was high and a collection may be under way, as far as the
// process used CPU at all.
func (w *window) smoothGC(before float64, finished int64, collecting bool) {
	load, measured := w.load[CauseGC]
	if !measured {
		return
	}
	if finished == 0 && collecting && before >= gcGoesOn*w.processors {
		load = min(before, w.cpu)
	}
	w.load[CauseGC] = min(load, w.processors)
}

// gcGoesOn is the load of P from which on a collection may last for a window.
const gcGoesOn = 0.2

// mayBeCollecting reports whether a collection may be under way, given what the
// last one left alive, the goal, and what is on the heap now, in bytes. The
// runtime does not tell. But by itself it begins none before the heap has grown
// by seven tenths of the way to the goal (minTriggerRatioNum in its pacer).
func mayBeCollecting(live, goal, objects float64) bool {
	return objects >= live+0.7*(goal-live)
}

// runtimeReader reads what a window needs of the runtime. It allocates nothing
// after its first use.
type runtimeReader struct {
	samples [len(windowMetrics)]metrics.Sample
	fetch   func([]metrics.Sample) // nil for metrics.Read; a seam for tests
}

const (
	gomaxprocs = iota
	gcAssistCPU
	gcDedicatedCPU
	gcPauseCPU
	otherPauses
	mutexWait
	collectionCycles
	limiterEnabled
	heapLive
	heapGoal
	memoryLimit
	memoryTotal
	heapObjects
	heapUnused
	heapFree
	heapReleased
	windowMetricCount
)

var windowMetrics = [windowMetricCount]string{
	gomaxprocs:       "/sched/gomaxprocs:threads",
	gcAssistCPU:      "/cpu/classes/gc/mark/assist:cpu-seconds",
	gcDedicatedCPU:   "/cpu/classes/gc/mark/dedicated:cpu-seconds",
	gcPauseCPU:       "/cpu/classes/gc/pause:cpu-seconds", // and not the histogram times P, which contains the stopping phase
	otherPauses:      "/sched/pauses/total/other:seconds",
	mutexWait:        "/sync/mutex/wait/total:seconds",
	collectionCycles: gcCyclesMetric,
	limiterEnabled:   "/gc/limiter/last-enabled:gc-cycle",
	heapLive:         "/gc/heap/live:bytes",
	heapGoal:         "/gc/heap/goal:bytes",
	memoryLimit:      "/gc/gomemlimit:bytes",
	memoryTotal:      "/memory/classes/total:bytes",
	heapObjects:      "/memory/classes/heap/objects:bytes",
	heapUnused:       "/memory/classes/heap/unused:bytes",
	heapFree:         "/memory/classes/heap/free:bytes",
	heapReleased:     "/memory/classes/heap/released:bytes",
}

func (r *runtimeReader) read() {
	for i, name := range windowMetrics {
		r.samples[i].Name = name
	}
	if r.fetch == nil {
		metrics.Read(r.samples[:])
		return
	}
	r.fetch(r.samples[:])
}

func (r *runtimeReader) value(i int) maybe { return reading(r.samples[i].Value) }

// reading returns a number of the runtime's. It is not known where this Go does
// not offer it.
func reading(v metrics.Value) maybe {
	switch v.Kind() {
	case metrics.KindUint64:
		return known(float64(v.Uint64()))
	case metrics.KindFloat64:
		return known(v.Float64())
	}
	return maybe{}
}

func (r *runtimeReader) sum(indices ...int) maybe {
	total := known(0)
	for _, i := range indices {
		v := r.value(i)
		total = maybe{total.value + v.value, total.known && v.known}
	}
	return total
}

// histogramSum adds up the values in a histogram, each as the middle of its
// bucket.
func (r *runtimeReader) histogramSum(i int) maybe {
	if r.samples[i].Value.Kind() != metrics.KindFloat64Histogram {
		return maybe{}
	}
	h := r.samples[i].Value.Float64Histogram()
	sum := 0.0
	for bucket, count := range h.Counts {
		if count > 0 {
			sum += float64(count) * bucketValue(h.Buckets[bucket], h.Buckets[bucket+1])
		}
	}
	return known(sum)
}

// memoryUse returns how near the process is to GOMEMLIMIT. It counts the live
// heap and not the mapped one: a healthy process fills its limit with garbage
// by design, before it collects.
func (r *runtimeReader) memoryUse() memoryUse {
	bytes := func(i int) int64 { return int64(min(r.value(i).value, math.MaxInt64/2)) }
	use := memoryUse{heapLive: bytes(heapLive)}
	if limit := r.value(memoryLimit); limit.known && limit.value > 0 && limit.value < math.MaxInt64/2 {
		use.goLimit = int64(limit.value)
		notHeap := bytes(memoryTotal) - bytes(heapObjects) - bytes(heapUnused) - bytes(heapFree) - bytes(heapReleased)
		use.goUsed = use.heapLive + max(0, notHeap)
	}
	return use
}
