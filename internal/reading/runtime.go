package reading

import (
	"math"
	"runtime/metrics"

	"github.com/gym-observer/observer/internal/number"
)

// RuntimeTotals is what the Go runtime says of itself at one moment. What this Go
// does not offer is not known.
type RuntimeTotals struct {
	Processors number.Number // GOMAXPROCS

	// Totals, in seconds.
	Collector number.Number // CPU of the collector, without idle marking
	Stopped   number.Number // pauses that are not the collector's
	Locked    number.Number // mutex waits that ended

	Collections number.Number // that have finished
	LimitedAt   number.Number // the collection at which the collector's CPU limiter was last on

	// Bytes.
	HeapLive    number.Number // left alive by the last collection
	HeapGoal    number.Number
	HeapObjects number.Number // on the heap now
	MemoryLimit int64         // GOMEMLIMIT; 0 for none
	NotHeap     int64         // mapped by the runtime, and not heap
}

// Runtime reads the runtime. It allocates nothing after its first use, and is not
// safe for concurrent use.
type Runtime struct {
	samples [len(runtimeMetrics)]metrics.Sample
}

// Read returns what the runtime says now.
func (r *Runtime) Read() RuntimeTotals {
	r.fetch()
	totals := RuntimeTotals{
		Processors:  r.value(gomaxprocs),
		Collector:   r.sum(gcAssistCPU, gcDedicatedCPU, gcPauseCPU),
		Stopped:     r.histogramSum(otherPauses),
		Locked:      r.value(mutexWait),
		Collections: r.value(collectionCycles),
		LimitedAt:   r.value(limiterEnabled),
		HeapLive:    r.value(heapLive),
		HeapGoal:    r.value(heapGoal),
		HeapObjects: r.value(heapObjects),
	}
	if limit := r.value(memoryLimit).Or(0); limit > 0 && limit < math.MaxInt64/2 {
		totals.MemoryLimit = int64(limit)
	}
	notHeap := r.value(memoryTotal).Or(0) - r.value(heapObjects).Or(0) - r.value(heapUnused).Or(0) - r.value(heapFree).Or(0) - r.value(heapReleased).Or(0)
	totals.NotHeap = int64(max(0, notHeap))
	return totals
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
	runtimeMetricCount
)

var runtimeMetrics = [runtimeMetricCount]string{
	gomaxprocs:       "/sched/gomaxprocs:threads",
	gcAssistCPU:      "/cpu/classes/gc/mark/assist:cpu-seconds",
	gcDedicatedCPU:   "/cpu/classes/gc/mark/dedicated:cpu-seconds",
	gcPauseCPU:       "/cpu/classes/gc/pause:cpu-seconds", // and not the histogram times P, which contains the stopping phase
	otherPauses:      "/sched/pauses/total/other:seconds",
	mutexWait:        "/sync/mutex/wait/total:seconds",
	collectionCycles: collectionsMetric,
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

func (r *Runtime) fetch() {
	for i, name := range runtimeMetrics {
		r.samples[i].Name = name
	}
	metrics.Read(r.samples[:])
}

func (r *Runtime) value(i int) number.Number { return numberOf(r.samples[i].Value) }

// numberOf returns a number of the runtime's. It is not known where this Go does
// not offer it.
func numberOf(v metrics.Value) number.Number {
	switch v.Kind() {
	case metrics.KindUint64:
		return number.Known(float64(v.Uint64()))
	case metrics.KindFloat64:
		return number.Known(v.Float64())
	}
	return number.Number{}
}

func (r *Runtime) sum(indices ...int) number.Number {
	total := number.Known(0)
	for _, i := range indices {
		total = total.Plus(r.value(i))
	}
	return total
}

// histogramSum adds up the values in a histogram, each as the middle of its
// bucket.
func (r *Runtime) histogramSum(i int) number.Number {
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
