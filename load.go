package observer

import (
	"errors"
	"math"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/number"
)

// queues are the goroutines that wait, by what the runtime knows of them.
type queues struct {
	runnable number.Number // ready but not running
	notInGo  number.Number // in system calls or C code
}

// mayWait reports whether a goroutine may be waiting for a processor.
func (q queues) mayWait() bool { return q.runnable.Or(1) > 0 }

// takeSample reads, beside what the sampler has measured, what is in flight in
// this process.
func takeSample(at time.Time, lag time.Duration, queues queues) diagnosis.Sample {
	return diagnosis.Sample{
		At: at, Lag: lag,
		Runnable: queues.runnable, NotInGo: queues.notInGo,
		Requests: requestTotals.servedNow(),
		Outbound: requestTotals.outbound.now(),
		Resident: driverTotals.resident.now(),
		Active:   driverTotals.active.Load(),
		Waiting:  driverTotals.waiting.now(),
		Writing:  driverTotals.writing.now(),
		Driving:  driverTotals.driving.Load(),
	}
}

// loads adds samples up to windows.
type loads struct {
	every   time.Duration // the length of a window, or a little more
	process processSource
	machine machineSource
	failed  func(cause string, err error)

	mu       sync.Mutex // the samplers take turns; no callback takes it
	series   diagnosis.Series
	runtime  runtimeReader
	failures []failedReading // to be reported
}

type failedReading struct {
	cause string
	err   error
}

// begin opens a window that none comes before.
func (l *loads) begin(now time.Time) {
	defer l.report() // once the lock is free: see log
	l.mu.Lock()
	defer l.mu.Unlock()
	l.series.Begin(now, l.read())
	driverTotals.openWindow(now)
}

// add takes one sample, and returns the window that it completes, if it does.
func (l *loads) add(s *diagnosis.Sample) *diagnosis.Window {
	l.mu.Lock()
	if l.series.Add(s) < l.every {
		l.mu.Unlock()
		return nil
	}
	defer l.report() // once the lock is free: see log
	defer l.mu.Unlock()
	w := l.series.End(s.At, l.read())
	driverTotals.openWindow(s.At)
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

// read takes a reading of everything; l.mu is held. What fails is to be
// reported, unless this platform has no such thing, and leaves its cause
// unmeasured.
func (l *loads) read() diagnosis.Reading {
	var s diagnosis.Reading
	r := &l.runtime
	r.read()
	s.Processors = max(1, r.value(gomaxprocs).Or(0))
	s.Collector = r.sum(gcAssistCPU, gcDedicatedCPU, gcPauseCPU)
	s.Stopped = r.histogramSum(otherPauses)
	s.Locked = r.value(mutexWait)
	s.Collections = int64(r.value(collectionCycles).Or(0))
	s.LimitedAt = int64(r.value(limiterEnabled).Or(0))
	s.HeapLive, s.HeapGoal, s.HeapObjects = r.value(heapLive).Or(0), r.value(heapGoal).Or(0), r.value(heapObjects).Or(0)
	s.Memory = r.memoryUse()

	user, system, err := l.process.cpuTime()
	s.CPU = l.reading("own CPU time", user+system, err)
	delay, err := l.machine.runDelay()
	s.RunDelay = l.reading(diagnosis.CPUContended.Name(), delay.Seconds(), err)
	throttled, periods, err := l.machine.throttled()
	s.Throttled = l.reading(diagnosis.CPUThrottled.Name(), throttled.Seconds(), err)
	s.ThrottlingFailed = err != nil && !errors.Is(err, errors.ErrUnsupported)
	s.ThrottledPeriods = periods
	limit, err := l.machine.cpuLimit()
	l.reading("CPU limit", limit, err)
	s.CPUs = min(s.Processors, float64(runtime.NumCPU()), limit)
	ticks, err := l.machine.time()
	s.Steal = l.reading("steal", float64(ticks.Steal), err)
	s.Machine = number.If(err == nil, float64(ticks.Total))
	group, err := l.machine.memory()
	l.reading(diagnosis.Memory.Name(), 0, err)
	s.Memory.GroupUsed, s.Memory.GroupLimit, s.Memory.GroupFailed = group.Used, group.Limit, err != nil
	descriptors, err := l.process.openDescriptors()
	s.Descriptors = l.reading(diagnosis.Descriptors.Name(), float64(descriptors), err)
	descriptorLimit, err := l.machine.descriptorLimit()
	s.DescriptorLimit = l.reading("descriptor limit", float64(descriptorLimit), err)

	if delay, ok := s.RunDelay.Get(); ok {
		lastRunDelay.raise(delay)
	}
	if throttled, ok := s.Throttled.Get(); ok {
		lastThrottled.raise(throttled)
	}
	s.OutboundEnded = requestTotals.outbound.ended.Load()
	s.Written = time.Duration(driverTotals.written.Load())
	return s
}

func (l *loads) reading(cause string, value float64, err error) number.Number {
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		l.failures = append(l.failures, failedReading{cause, err})
	}
	return number.If(err == nil, value)
}

// runtimeReader reads what a window needs of the runtime. It allocates nothing
// after its first use.
type runtimeReader struct {
	samples [len(windowMetrics)]metrics.Sample
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
	metrics.Read(r.samples[:])
}

func (r *runtimeReader) value(i int) number.Number { return reading(r.samples[i].Value) }

// reading returns a number of the runtime's. It is not known where this Go does
// not offer it.
func reading(v metrics.Value) number.Number {
	switch v.Kind() {
	case metrics.KindUint64:
		return number.Known(float64(v.Uint64()))
	case metrics.KindFloat64:
		return number.Known(v.Float64())
	}
	return number.Number{}
}

func (r *runtimeReader) sum(indices ...int) number.Number {
	total := number.Known(0)
	for _, i := range indices {
		total = total.Plus(r.value(i))
	}
	return total
}

// histogramSum adds up the values in a histogram, each as the middle of its
// bucket.
func (r *runtimeReader) histogramSum(i int) number.Number {
	if r.samples[i].Value.Kind() != metrics.KindFloat64Histogram {
		return number.Number{}
	}
	h := r.samples[i].Value.Float64Histogram()
	sum := 0.0
	for bucket, count := range h.Counts {
		if count > 0 {
			sum += float64(count) * bucketValue(h.Buckets[bucket], h.Buckets[bucket+1])
		}
	}
	return number.Known(sum)
}

// memoryUse returns how near the process is to GOMEMLIMIT. It counts the live
// heap and not the mapped one: a healthy process fills its limit with garbage
// by design, before it collects.
func (r *runtimeReader) memoryUse() diagnosis.MemoryUse {
	bytes := func(i int) int64 { return int64(min(r.value(i).Or(0), math.MaxInt64/2)) }
	use := diagnosis.MemoryUse{HeapLive: bytes(heapLive)}
	if limit := r.value(memoryLimit).Or(0); limit > 0 && limit < math.MaxInt64/2 {
		use.GoLimit = int64(limit)
		notHeap := bytes(memoryTotal) - bytes(heapObjects) - bytes(heapUnused) - bytes(heapFree) - bytes(heapReleased)
		use.GoUsed = use.HeapLive + max(0, notHeap)
	}
	return use
}
