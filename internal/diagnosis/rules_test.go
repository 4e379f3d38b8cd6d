package diagnosis

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/number"
)

// quietWindow is a window of 10 s in which nothing is slow, on 4 processors of
// which the process may use 3.
func quietWindow() *Window {
	w := &Window{
		At: windowBegan.Add(10 * time.Second), Length: 10 * time.Second,
		Processors: 4, CPUs: 3, CPU: number.Known(1), Steal: number.Known(0),
		Descriptors: number.Known(20), DescriptorLimit: number.Known(1000),
	}
	for cause := range All() {
		w.Load[cause] = number.Known(0)
	}
	return w
}

// loaded is a quiet window with the given loads.
func loaded(loads map[Cause]float64, changes ...func(*Window)) *Window {
	w := quietWindow()
	for cause, load := range loads {
		w.Load[cause] = number.Known(load)
	}
	for _, change := range changes {
		change(w)
	}
	return w
}

// The ways in which each cause is just to blame.
func saturated(w *Window) { w.MedianRunnable, w.CPU = 1.5*w.Processors, known(0.75*w.CPUs) }
func contended(w *Window) {
	w.Load[CPUContended], w.CPU, w.DelayPerSlice = known(w.CPUs/2), known(w.CPUs/2), known(0.0005)
}
func downstream(w *Window) { w.Load[Downstream], w.OutboundWait = known(8), 100*time.Millisecond }

func admission(w *Window) { w.Load[Admission], w.AdmissionWait = known(1), 100*time.Millisecond }
func waiting(w *Window) {
	w.Load[Wait], w.Waiting, w.Owed, w.RequestWait = known(8), 8, 16, 100*time.Millisecond
}
func outOfConnections(w *Window) {
	w.Load[Wait], w.Pooled, w.PoolWait = known(8), 8, 100*time.Millisecond
}

func known(x float64) number.Number { return number.Known(x) }

func below(x float64) float64 { return math.Nextafter(x, 0) }

func TestQuietWindowHoldsNothing(t *testing.T) {
	assert.Empty(t, quietWindow().Holding())
	assert.Empty(t, (&Window{Processors: 1, CPUs: 1}).Holding(), "nothing is measured")
}

func TestRulesComeInTheOrderOfBlame(t *testing.T) {
	var names []string
	for cause := range All() {
		names = append(names, cause.Name())
	}
	assert.Equal(t, []string{
		"cpu_throttled", "stop_the_world", "gc", "cpu_contended", "cpu_saturated", "output_write", "lock",
		"descriptors", "memory", "downstream", "admission", "blocked_thread", "wait",
	}, names)
	for i, test := range heldAlone() {
		for _, other := range heldAlone()[i+1:] {
			w := quietWindow()
			// The one that is behind first, so that the other has the last word where
			// both set the same field.
			other.hold(w)
			test.hold(w)
			held := w.Holding()
			assert.Equal(t, test.cause, held.First(), "beside %s: %v", other.cause, held.List())
		}
	}
}

// heldAlone has a way for each cause to hold alone, in the order of the rules.
func heldAlone() []struct {
	cause Cause
	hold  func(*Window)
} {
	type row = struct {
		cause Cause
		hold  func(*Window)
	}
	at := func(cause Cause, load float64) row {
		return row{cause, func(w *Window) { w.Load[cause] = number.Known(load) }}
	}
	return []row{
		at(CPUThrottled, 0.1),
		at(StopTheWorld, 0.4),
		at(GC, 1.4),
		{CPUContended, func(w *Window) { contended(w); w.MedianRunnable = 0 }},
		{CPUSaturated, func(w *Window) { saturated(w); w.Load[CPUContended] = known(0) }},
		at(OutputWrite, 0.9),
		at(Lock, 2),
		at(Descriptors, 0.9),
		at(Memory, 0.9),
		{Downstream, downstream},
		{Admission, admission},
		at(BlockedThread, 8),
		{Wait, waiting},
	}
}

func TestEachRuleHoldsFromItsThresholdOn(t *testing.T) {
	for _, test := range heldAlone() {
		w := quietWindow()
		test.hold(w)
		assert.Equal(t, SetOf(test.cause), w.Holding())
	}

	type row struct {
		name string
		w    *Window
		held []Cause
	}
	var table []row
	// Rules that look at one load alone.
	for cause, threshold := range map[Cause]float64{
		CPUThrottled: 0.1, StopTheWorld: 0.1 * 4, GC: 0.35 * 4, Lock: 2,
		OutputWrite: 0.9, BlockedThread: 8, Descriptors: 0.9, Memory: 0.9,
	} {
		table = append(table,
			row{cause.Name() + " below", loaded(map[Cause]float64{cause: below(threshold)}), nil},
			row{cause.Name() + " at", loaded(map[Cause]float64{cause: threshold}), []Cause{cause}},
			row{cause.Name() + " above", loaded(map[Cause]float64{cause: 10 * threshold}), []Cause{cause}},
			row{cause.Name() + " unmeasured", func() *Window { w := quietWindow(); w.Load[cause] = number.Number{}; return w }(), nil})
	}
	set := func(change func(*Window)) *Window { return loaded(nil, change) }
	wanted := wantedAtLeast * quietWindow().CPUs
	table = append(table, []row{
		{"the collector's limiter was on", set(func(w *Window) { w.GCLimited, w.Load[GC] = true, known(0.2*4) }), []Cause{GC}},
		{"the collector's limiter was on once, and something else is slow", set(func(w *Window) {
			w.GCLimited, w.Load[GC], w.Load[Lock] = true, known(0.14*4), known(27)
		}), []Cause{Lock}},

		{"contended at", set(contended), []Cause{CPUContended}},
		{"contended, less than half of the time", set(func(w *Window) { contended(w); w.CPU = known(1.201 * w.CPU.Or(0)) }), nil},
		{"contended, not felt", set(func(w *Window) { contended(w); w.DelayPerSlice = known(below(0.0005)) }), nil},
		{"contended, felt in the lag alone", set(func(w *Window) { contended(w); w.DelayPerSlice, w.LagShare = number.Number{}, 0.01 }), []Cause{CPUContended}},
		{"contended, hardly felt in the lag", set(func(w *Window) { contended(w); w.DelayPerSlice, w.LagShare = number.Number{}, below(0.01) }), nil},
		{"contended beside idle CPUs", set(func(w *Window) { contended(w); w.Idle = known(0.5) }), nil},
		{"contended beside CPUs that are idle for a part", set(func(w *Window) { contended(w); w.Idle = known(below(0.5)) }), []Cause{CPUContended}},
		{"starved in an open loop", set(func(w *Window) {
			contended(w)
			w.CPU, w.MedianRunnable, w.DelayPerSlice, w.LagShare = known(1.79), 50, known(0.0002), 0.2
		}), []Cause{CPUContended, CPUSaturated}},
		{"a storm of its own", set(func(w *Window) {
			contended(w)
			w.CPU, w.MedianRunnable, w.DelayPerSlice, w.LagShare = known(0.6*3), 50, known(0.0002), 0.2
		}), []Cause{CPUSaturated}},
		{"page faults", set(func(w *Window) {
			contended(w)
			w.CPU, w.MedianRunnable, w.DelayPerSlice, w.LagShare = known(0.2*3), 50, known(0.0001), 0.3
		}), []Cause{Unknown}},
		{"contended, less than a quarter of the CPUs", set(func(w *Window) { contended(w); w.Load[CPUContended], w.CPU = known(below(0.75)), known(0.1) }), nil},
		{"contended, a quarter of the CPUs", set(func(w *Window) { contended(w); w.Load[CPUContended], w.CPU = known(0.75), known(0.1) }), []Cause{CPUContended}},
		{"contended, did not get to run", set(func(w *Window) { contended(w); w.Load[CPUContended], w.CPU = known(3), known(0) }), []Cause{CPUContended}},
		{"contended, as much as the run queue", set(func(w *Window) {
			contended(w)
			w.Load[CPUContended], w.CPU, w.MedianRunnable = known(3), known(2), 6 // factor 2.5 each
		}), []Cause{CPUContended, CPUSaturated}},
		{"contended, less than the run queue", set(func(w *Window) {
			contended(w)
			w.Load[CPUContended], w.CPU, w.MedianRunnable = known(3), known(2), 7
		}), []Cause{CPUSaturated}},
		{"contended behind a short run queue", set(func(w *Window) {
			contended(w)
			w.Load[CPUContended], w.CPU, w.MedianRunnable = known(1.9), known(1.9), 5 // factor 2 against 2.25, which is no saturation
		}), nil},

		{"saturated at", set(saturated), []Cause{CPUSaturated}},
		{"saturated, short queue", set(func(w *Window) { saturated(w); w.MedianRunnable-- }), nil},
		{"saturated, idle processors", set(func(w *Window) { saturated(w); w.CPU = known(below(w.CPU.Or(0))) }), nil},
		{"saturated, and others have some of the CPUs", set(func(w *Window) { saturated(w); w.CPU = known(1.5); w.Load[CPUContended] = known(wanted - 1.5) }), []Cause{CPUSaturated}},
		{"a queue of bursts, with some idle CPUs", set(func(w *Window) { saturated(w); w.CPU = known(1.5); w.Load[CPUContended] = known(wanted - 1.501) }), nil},
		{"saturated, and the hypervisor has some of the CPUs", set(func(w *Window) {
			saturated(w)
			w.CPU, w.Load[CPUContended], w.Steal = known(1), known(wanted/2-1), known(0.5)
		}), []Cause{CPUSaturated}},
		{"saturated, long mean of a short median", set(func(w *Window) { w.Load[CPUSaturated], w.CPU = known(1000), known(3) }), nil},
		{"saturated, a herd of timers", set(func(w *Window) { w.MedianRunnable, w.CPU = 1000, known(0.2) }), nil},
		{"saturated in bursts", set(func(w *Window) { w.MostlyRunnable, w.LagShare = known(6), 0.1 }), []Cause{CPUSaturated}},
		{"saturated in bursts that the sampler saw once each", set(func(w *Window) {
			w.MostlyRunnable, w.LateRunnable, w.LateCPU, w.LagShare = known(0), known(6), known(0.75*w.CPUs), 0.1
		}), []Cause{CPUSaturated}},
		{"late behind a short queue", set(func(w *Window) {
			w.MostlyRunnable, w.LateRunnable, w.LateCPU, w.LagShare = known(6), known(below(6)), known(w.CPUs), 0.1
		}), []Cause{Unknown}},
		{"late while the CPUs did something else, as after a stop", set(func(w *Window) {
			w.MostlyRunnable, w.LateRunnable, w.LateCPU, w.LagShare = known(6), known(30), known(below(0.75*w.CPUs)), 0.1
		}), []Cause{Unknown}},
		{"late behind bursts, but not for long", set(func(w *Window) {
			w.LateRunnable, w.LateCPU, w.LagShare = known(30), known(w.CPUs), below(0.1)
		}), nil},
		{"saturated in short bursts", set(func(w *Window) { w.MostlyRunnable, w.LagShare = known(below(6)), 0.1 }), []Cause{Unknown}},
		{"a herd that is gone at once", set(func(w *Window) { w.MostlyRunnable, w.LagShare = known(18), below(0.1) }), nil},
		{"stopped, and then all at once", set(func(w *Window) { w.Load[CPUSaturated], w.MostlyRunnable, w.LagShare = known(6), known(0), 0.5 }), []Cause{Unknown}},
		{"saturated while the run delay is unmeasured", set(func(w *Window) { saturated(w); w.Load[CPUContended] = number.Number{} }), []Cause{CPUSaturated}},

		{"downstream at", set(downstream), []Cause{Downstream}},
		{"downstream, few", set(func(w *Window) { downstream(w); w.Load[Downstream] = known(below(8)) }), nil},
		{"downstream, quick", set(func(w *Window) { downstream(w); w.OutboundWait-- }), nil},
		{"downstream of half of the rollouts", set(func(w *Window) { downstream(w); w.Active = 16 }), []Cause{Downstream}},
		{"downstream of less than half of the rollouts", set(func(w *Window) { downstream(w); w.Active = 16.1 }), nil},
		{"downstream of other rollouts' work", set(func(w *Window) { downstream(w); w.Active, w.Load[BlockedThread] = 100, known(50) }), []Cause{BlockedThread}},

		{"downstream of a driver with a small limit", set(func(w *Window) { downstream(w); w.Load[Downstream], w.Active = known(0.5), 1 }), []Cause{Downstream}},
		{"downstream of a driver that hardly calls", set(func(w *Window) { downstream(w); w.Load[Downstream], w.Active = known(below(0.5)), 0.5 }), nil},

		{"short writes of many rollouts", set(func(w *Window) { w.Load[OutputWrite], w.Active = known(2.1), 128 }), nil},
		{"writes of half of the rollouts", set(func(w *Window) { w.Load[OutputWrite], w.Active = known(2), 4 }), []Cause{OutputWrite}},
		{"writes under a lock", set(func(w *Window) { w.Load[OutputWrite], w.Load[Lock], w.Active = known(1), known(33), 64 }), []Cause{OutputWrite, Lock}},

		{"admission at", set(admission), []Cause{Admission}},
		{"admission, few", set(func(w *Window) { admission(w); w.Load[Admission] = known(below(1)) }), nil},
		{"admission, quick", set(func(w *Window) { admission(w); w.AdmissionWait-- }), nil},

		{"wait at", set(waiting), []Cause{Wait}},
		{"wait, few", set(func(w *Window) { waiting(w); w.Waiting = below(8) }), nil},
		{"wait, quick", set(func(w *Window) { waiting(w); w.RequestWait-- }), nil},
		{"wait of less than half of what is owed", set(func(w *Window) { waiting(w); w.Owed = 16.1 }), nil},
		{"wait, not looked for", set(func(w *Window) { waiting(w); w.Load[Wait], w.Waiting = number.Number{}, 0 }), nil},
		{"out of connections", set(outOfConnections), []Cause{Wait}},
		{"out of connections, few", set(func(w *Window) { outOfConnections(w); w.Pooled = below(8) }), nil},
		{"out of connections, for a short time each", set(func(w *Window) { outOfConnections(w); w.PoolWait-- }), nil},
		{"out of connections, and the limit is full for it", set(func(w *Window) { admission(w); outOfConnections(w); w.Active, w.Pooled = 4, 2 }), []Cause{Wait}},
		{"out of connections, but that is not where the rollouts are", set(func(w *Window) { admission(w); outOfConnections(w); w.Active = 16.1 }), []Cause{Admission}},
		{"out of connections, and one rollout is hardly there", set(func(w *Window) { admission(w); outOfConnections(w); w.Active, w.Pooled = 0.9, below(0.5) }), []Cause{Admission}},
		{"calls that wait for a connection are not the requests that wait by design", set(func(w *Window) { waiting(w); outOfConnections(w); w.Waiting, w.PoolWait = 1, 99*time.Millisecond }), nil},

		{"unknown at", set(func(w *Window) { w.LagShare = 0.1 }), []Cause{Unknown}},
		{"unknown below", set(func(w *Window) { w.LagShare = below(0.1) }), nil},
		{"unknown only alone", set(func(w *Window) { w.LagShare, w.Load[Lock] = 5, known(2) }), []Cause{Lock}},
		{"unknown although nothing is measured", &Window{Processors: 1, CPUs: 1, LagShare: 1}, []Cause{Unknown}},
	}...)
	for _, test := range table {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.held, test.w.Holding().List())
		})
	}
}

// Causes drag others along: the run queue grows while the collector works.
func TestCauseComesBeforeItsVictims(t *testing.T) {
	victims := func(w *Window) {
		saturated(w)
		w.Load[Lock], w.Load[Admission], w.Load[BlockedThread] = known(50), known(30), known(20)
		w.AdmissionWait = time.Second
		w.LagShare = 0.7
	}
	for cause, load := range map[Cause]float64{CPUThrottled: 0.4, StopTheWorld: 2, GC: 2} {
		held := loaded(map[Cause]float64{cause: load}, victims).Holding()
		assert.Equal(t, SetOf(cause, CPUSaturated, Lock, Admission, BlockedThread), held)
	}
}

// P goroutines that compute all the time leave a queue of up to P, and fewer
// than 1.5 P clients in a closed loop leave one below 0.5 P beside those that
// run. More than that is a queue.
func TestClosedLoopIsSaturatedOnlyWithMoreThanItsShareOfClients(t *testing.T) {
	for _, processors := range []float64{1, 2, 8, 96} {
		for queue := range int(3 * processors) {
			w := &Window{Processors: processors, CPUs: processors, CPU: known(processors), MedianRunnable: float64(queue)}
			w.Load[CPUSaturated] = known(float64(queue))
			held := w.Holding()
			if float64(queue) < 1.5*processors {
				assert.Empty(t, held, "%d in the queue of %v processors", queue, processors)
			} else {
				assert.Equal(t, SetOf(CPUSaturated), held, "%d in the queue of %v processors", queue, processors)
			}
		}
	}
}

func TestLongestQueueThatIsToldApartSaturatesAnyMachine(t *testing.T) {
	var q queueLengths
	q.add(math.MaxFloat64)
	const processors = 2048
	assert.GreaterOrEqual(t, q.median(1), queueAtLeast*processors)
}

// Each threshold stands in the words that the documentation takes.
func TestConditionsNameTheirThresholds(t *testing.T) {
	numbers := map[Cause][]any{
		CPUThrottled: {throttledAtLeast}, StopTheWorld: {stoppedAtLeast}, GC: {gcAtLeast, gcLimitedAtLeast},
		CPUContended: {delayAtLeast, idleAtLeast, delayShare, starvedBelow, sliceHurts.Seconds() * 1000, sliceStarves.Seconds() * 1000, lagHurts},
		CPUSaturated: {queueAtLeast, busyAtLeast, wantedAtLeast, burstLag}, Lock: {lockAtLeast},
		OutputWrite: {writeAtLeast, lockAtLeast, writeShare},
		Downstream:  {outboundAtLeast, drivenAtLeast, outboundShare, waitAtLeast.Milliseconds()},
		Admission:   {admissionAtLeast, waitAtLeast.Milliseconds()}, BlockedThread: {blockedAtLeast},
		Wait: {requestsAtLeast, owedShare, waitAtLeast.Milliseconds()}, Descriptors: {shareAtLeast}, Memory: {shareAtLeast},
	}
	for cause := range All() {
		require.NotEmpty(t, numbers[cause], cause)
		words := strings.FieldsFunc(cause.Condition(), func(r rune) bool { return r != '.' && !unicode.IsDigit(r) && !unicode.IsLetter(r) })
		for _, number := range numbers[cause] {
			assert.Contains(t, words, fmt.Sprint(number), cause)
		}
		assert.NotEmpty(t, cause.Advice())
		assert.True(t, strings.HasSuffix(cause.Advice(), "."), "%s: the advice is a sentence", cause)
		assert.Equal(t, cause == Descriptors || cause == Memory, cause.IsShare(), cause)
	}
	assert.Contains(t, Unknown.Condition(), fmt.Sprint(lagAllowance.Milliseconds(), " ms"))
	assert.Contains(t, strings.Fields(Unknown.Condition()), fmt.Sprint(lagAtLeast))
}

// A container on Linux 6.6 or later hears of a quota above it how long it was
// stopped, and no more.
func TestH66EvidenceLeavesOutWhatIsNotKnownOfAQuota(t *testing.T) {
	w := loaded(map[Cause]float64{CPUThrottled: 0.48})
	assert.Equal(t, "the CPU quota stopped the process for 0.48 s per second", throttledEvidence(w))
}

func TestEvidenceHasTheNumbers(t *testing.T) {
	w := loaded(map[Cause]float64{
		CPUThrottled: 0.48, StopTheWorld: 1.84, GC: 1.1, CPUContended: 2.25, CPUSaturated: 130.44,
		Lock: 37.2, OutputWrite: 3, Downstream: 32, Admission: 28, BlockedThread: 30.1, Wait: 11.8,
	}, func(w *Window) {
		w.ThrottledPeriods, w.CPU, w.MedianRunnable, w.Steal = 77, known(0.75), 129, known(0.125)
		w.OutboundWait, w.Active = 1234567*time.Microsecond, 40
		w.AdmissionWait, w.DelayPerSlice = 580*time.Millisecond, known(0.0031)
		w.Waiting, w.Owed, w.RequestWait, w.WaitsOutside = 11.8, 12, 1300*time.Millisecond, true
		w.Descriptors, w.DescriptorLimit = known(950), known(1000)
		w.Memory = MemoryUse{HeapLive: 480 << 20, GoUsed: 490 << 20, GoLimit: 512 << 20}
	})
	sentences := map[Cause]string{
		CPUThrottled:  "the CPU quota stopped the process for 0.48 s per second, in 77 of its periods; it may use 3 CPUs",
		StopTheWorld:  "pauses that are not the collector's took 46 % of the time",
		GC:            "the collector used 1.1 of 4 processors; 480 MiB of heap live under a GOMEMLIMIT of 512 MiB",
		CPUContended:  "2.25 threads were ready without a processor while 0.75 ran, on 3 CPUs with GOMAXPROCS 4; each waited 3.10 ms a time; the hypervisor took 12 %",
		CPUSaturated:  "130.4 goroutines were ready without a processor (median 129) for 4 processors; the process used 0.75 CPUs",
		Lock:          "37.2 goroutines waited for a mutex",
		OutputWrite:   "3.0 output writes were under way",
		Downstream:    "32.0 outbound requests waited for their response headers, 1.235s each; 40.0 rollouts were active",
		Admission:     "28.0 rollouts waited for admission, 580ms each; 32.0 of 40 active wait outbound",
		BlockedThread: "30.1 goroutines were in system calls or C code",
		Wait:          "11.8 of 12.0 requests in flight wait in this process, and take 1.3s each; most of them for another server or process",
		Descriptors:   "950 of 1000 file descriptors are open",
		Memory:        "490 MiB of a GOMEMLIMIT of 512 MiB are live or not heap",
	}
	for cause := range All() {
		assert.Equal(t, sentences[cause], rows[cause].evidence(w), cause)
	}

	w.GCLimited, w.Memory.GoLimit, w.Steal, w.Active, w.CPUs = true, 0, number.Number{}, 0, 0.25
	w.DelayPerSlice, w.MedianRunnable, w.LagShare, w.WorstLag = number.Number{}, 0, 0.2, 420*time.Millisecond
	assert.Equal(t, "the collector used 1.1 of 4 processors, and its CPU limiter was on; 480 MiB of heap live", gcEvidence(w))
	assert.Equal(t, "2.25 threads were ready without a processor while 0.75 ran, on 0.25 CPUs with GOMAXPROCS 4", rows[CPUContended].evidence(w))
	assert.Equal(t, "32.0 outbound requests waited for their response headers, 1.235s each", rows[Downstream].evidence(w))
	assert.Equal(t, "130.4 goroutines were ready without a processor (median 0) for 4 processors; the process used 0.75 CPUs; they came in bursts, and goroutines woke up to 420ms late", rows[CPUSaturated].evidence(w))
	w.Memory.GroupUsed, w.Memory.GroupLimit, w.Memory.GroupHigh, w.MemoryStalled = 60<<20, 40<<20, true, known(0.588)
	assert.Equal(t, "60 MiB of the cgroup's memory.high of 40 MiB are in use, past which the kernel puts the process to sleep; all of it waited for memory for 0.59 s per second", rows[Memory].evidence(w))
}

func TestBytesReadAsAPersonWritesThem(t *testing.T) {
	for bytes, text := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1 << 10: "1 KiB", 1536: "1.5 KiB", 480 << 20: "480 MiB", 999 << 10: "999 KiB",
		1000 << 10: "0.977 MiB", 1023 << 20: "0.999 GiB", 1 << 40: "1 TiB", 1 << 60: "1 EiB", math.MaxInt64: "8 EiB",
	} {
		assert.Equal(t, text, bytesText(bytes))
	}
}

func TestHoldingKeepsTheOrderOfTheRules(t *testing.T) {
	w := quietWindow()
	for _, test := range slices.Backward(heldAlone()) {
		test.hold(w)
	}
	w.MedianRunnable, w.LagShare, w.CPU = 100, 1, known(0.75*w.CPUs)
	others := slices.DeleteFunc(slices.Collect(All()), func(c Cause) bool { return c == CPUContended })
	assert.Equal(t, others, w.Holding().List(), "the run queue slows more than the run delay")
}

func TestSetOfCauses(t *testing.T) {
	var none Set
	assert.Equal(t, None, none.First())
	assert.Nil(t, none.List())
	some := SetOf(Memory, GC, Unknown)
	assert.Equal(t, GC, some.First())
	assert.Equal(t, []Cause{GC, Memory, Unknown}, some.List(), "in the order of the rules")
	assert.True(t, some.Has(Memory))
	assert.False(t, some.Has(Lock))
}

func TestEveryCauseHasARow(t *testing.T) {
	named := make(map[string]Cause)
	for cause := range Cause(NumCauses) {
		assert.NotContains(t, named, cause.Name())
		named[cause.Name()] = cause
		assert.NotEmpty(t, cause.Condition(), cause)
		assert.NotNil(t, rows[cause].evidence, cause)
	}
	assert.NotContains(t, named, "")
	for cause := range All() {
		assert.NotNil(t, rows[cause].load, cause)
		assert.NotNil(t, rows[cause].holds, cause)
	}
	assert.LessOrEqual(t, NumCauses, 32, "a Set has a bit for each")
}

// The rows were measured.
func TestWaitHoldsForTheSickAlone(t *testing.T) {
	window := func(owed, waiting float64, mean time.Duration) *Window {
		w := quietWindow()
		w.Owed, w.RequestWait, w.Waiting = owed, mean, min(waiting, owed) // as [NewWindow] has it
		w.Load[Wait] = known(w.Waiting)
		return w
	}
	for name, c := range map[string]struct {
		owed, waiting float64
		mean          time.Duration
		want          bool
	}{
		"the least sick":             {12, 11.7, 126 * time.Millisecond, true},
		"the most sick":              {20, 20, 2500 * time.Millisecond, true},
		"a half-used pool":           {8.5, 7.2, 24 * time.Millisecond, false},
		"a half-used pool, slower":   {8.5, 7.2, time.Second, false},
		"a pool that is quick":       {20, 20, 24 * time.Millisecond, false},
		"long polls":                 {300, 5.6, 3 * time.Second, false},
		"long polls, a few of which": {300, 12, 3 * time.Second, false},
		"a worker pool":              {10, 5.6, 2500 * time.Millisecond, false},
		"streams":                    {0, 300, 10 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := window(c.owed, c.waiting, c.mean)
			assert.Equal(t, c.want, w.Holding().Has(Wait))
			if c.want {
				assert.True(t, w.AsksForWaits())
			}
		})
	}
	assert.False(t, window(7.9, 0, time.Minute).AsksForWaits())
	assert.False(t, window(300, 0, 99*time.Millisecond).AsksForWaits())
	assert.True(t, window(8, 0, 100*time.Millisecond).AsksForWaits())
}

func TestMeanWaitIsLittlesLaw(t *testing.T) {
	s := span{samples: &Samples{count: 1}, length: 10 * time.Second}
	assert.Equal(t, 100*time.Millisecond, s.meanWait(20, 0, 2000))
	assert.Equal(t, s.length, s.meanWait(20, 0, 0), "none ended")
	assert.Equal(t, 200*time.Second, s.meanWait(20, 0, 1))
	assert.Positive(t, s.meanWait(math.MaxInt64, 0, 1))
}
