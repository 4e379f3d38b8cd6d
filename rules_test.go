package observer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// quietWindow is a window of 10 s in which nothing is slow, on 4 processors of
// which the process may use 3.
func quietWindow() *window {
	w := &window{
		at: windowBegan.Add(10 * time.Second), length: 10 * time.Second,
		load:       make(map[Cause]float64),
		processors: 4, cpus: 3, cpu: 1,
		descriptors: 20, descriptorLimit: 1000,
		stealKnown: true,
	}
	for _, cause := range causes() {
		w.load[cause] = 0
	}
	return w
}

// loaded is a quiet window with the given loads.
func loaded(loads map[Cause]float64, changes ...func(*window)) *window {
	w := quietWindow()
	for cause, load := range loads {
		w.load[cause] = load
	}
	for _, change := range changes {
		change(w)
	}
	return w
}

// The ways in which each cause is just to blame.
func saturated(w *window)  { w.medianRunnable, w.cpu = 1.5*w.processors, 0.75*w.cpus }
func contended(w *window)  { w.load[CauseCPUContended], w.cpu = w.cpus/2, w.cpus/2 }
func downstream(w *window) { w.load[CauseDownstream], w.outboundWait = 8, 100*time.Millisecond }

func below(x float64) float64 { return math.Nextafter(x, 0) }

func TestQuietWindowHoldsNothing(t *testing.T) {
	assert.Empty(t, holding(quietWindow()))
	assert.Empty(t, holding(&window{processors: 1, cpus: 1}), "nothing is measured")
}

func TestRulesComeInTheOrderOfBlame(t *testing.T) {
	assert.Equal(t, []Cause{
		"cpu_throttled", "stop_the_world", "gc", "cpu_contended", "cpu_saturated", "output_write",
		"lock", "downstream", "admission", "blocked_thread", "descriptors", "memory",
	}, causes())
	for i, test := range heldAlone() {
		for _, other := range heldAlone()[i+1:] {
			w := quietWindow()
			// The one that is behind first, so that the other has the last word where
			// both set the same field.
			other.hold(w)
			test.hold(w)
			held := holding(w)
			require.NotEmpty(t, held)
			assert.Equal(t, test.cause, held[0], "beside %s: %v", other.cause, held)
		}
	}
}

// heldAlone has a way for each cause to hold alone, in the order of the rules.
func heldAlone() []struct {
	cause Cause
	hold  func(*window)
} {
	type row = struct {
		cause Cause
		hold  func(*window)
	}
	at := func(cause Cause, load float64) row {
		return row{cause, func(w *window) { w.load[cause] = load }}
	}
	return []row{
		at(CauseCPUThrottled, 0.1),
		at(CauseStopTheWorld, 0.4),
		at(CauseGC, 1.4),
		{CauseCPUContended, func(w *window) { contended(w); w.medianRunnable = 0 }},
		{CauseCPUSaturated, func(w *window) { saturated(w); w.load[CauseCPUContended] = 0 }},
		at(CauseOutputWrite, 0.9),
		at(CauseLock, 2),
		{CauseDownstream, downstream},
		at(CauseAdmission, 1),
		at(CauseBlockedThread, 8),
		at(CauseDescriptors, 0.9),
		at(CauseMemory, 0.9),
	}
}

func TestEachRuleHoldsFromItsThresholdOn(t *testing.T) {
	for _, test := range heldAlone() {
		w := quietWindow()
		test.hold(w)
		assert.Equal(t, []Cause{test.cause}, holding(w))
	}

	type row struct {
		name string
		w    *window
		held []Cause
	}
	var table []row
	// Rules that look at one load alone.
	for cause, threshold := range map[Cause]float64{
		CauseCPUThrottled: 0.1, CauseStopTheWorld: 0.1 * 4, CauseGC: 0.35 * 4, CauseLock: 2,
		CauseOutputWrite: 0.9, CauseAdmission: 1, CauseBlockedThread: 8, CauseDescriptors: 0.9, CauseMemory: 0.9,
	} {
		table = append(table,
			row{string(cause) + " below", loaded(map[Cause]float64{cause: below(threshold)}), nil},
			row{string(cause) + " at", loaded(map[Cause]float64{cause: threshold}), []Cause{cause}},
			row{string(cause) + " above", loaded(map[Cause]float64{cause: 10 * threshold}), []Cause{cause}},
			row{string(cause) + " unmeasured", func() *window { w := quietWindow(); delete(w.load, cause); return w }(), nil})
	}
	set := func(change func(*window)) *window { return loaded(nil, change) }
	wanted := wantedAtLeast * quietWindow().cpus
	table = append(table, []row{
		{"the collector's limiter was on", set(func(w *window) { w.gcLimited = true }), []Cause{CauseGC}},

		{"contended at", set(contended), []Cause{CauseCPUContended}},
		{"contended, less than half of the time", set(func(w *window) { contended(w); w.cpu *= 1.001 }), nil},
		{"contended, less than a quarter of the CPUs", set(func(w *window) { w.load[CauseCPUContended], w.cpu = below(0.75), 0.1 }), nil},
		{"contended, a quarter of the CPUs", set(func(w *window) { w.load[CauseCPUContended], w.cpu = 0.75, 0.1 }), []Cause{CauseCPUContended}},
		{"contended, did not get to run", set(func(w *window) { w.load[CauseCPUContended], w.cpu = 3, 0 }), []Cause{CauseCPUContended}},
		{"contended, as much as the run queue", set(func(w *window) {
			w.load[CauseCPUContended], w.cpu, w.medianRunnable = 3, 1, 12 // factor 4 each
		}), []Cause{CauseCPUContended, CauseCPUSaturated}},
		{"contended, less than the run queue", set(func(w *window) {
			w.load[CauseCPUContended], w.cpu, w.medianRunnable = 3, 1, 13
		}), []Cause{CauseCPUSaturated}},
		{"contended behind a short run queue", set(func(w *window) {
			w.load[CauseCPUContended], w.cpu, w.medianRunnable = 1.5, 1.5, 5 // factor 2 against 2.25, which is no saturation
		}), nil},

		{"saturated at", set(saturated), []Cause{CauseCPUSaturated}},
		{"saturated, short queue", set(func(w *window) { saturated(w); w.medianRunnable-- }), nil},
		{"saturated, idle processors", set(func(w *window) { saturated(w); w.cpu = below(w.cpu) }), nil},
		{"saturated, and others have some of the CPUs", set(func(w *window) { saturated(w); w.cpu = 1.5; w.load[CauseCPUContended] = wanted - 1.5 }), []Cause{CauseCPUSaturated}},
		{"a queue of bursts, with some idle CPUs", set(func(w *window) { saturated(w); w.cpu = 1.5; w.load[CauseCPUContended] = wanted - 1.501 }), nil},
		{"saturated, and the hypervisor has some of the CPUs", set(func(w *window) {
			saturated(w)
			w.cpu, w.load[CauseCPUContended], w.steal = 1, wanted/2-1, 0.5
		}), []Cause{CauseCPUSaturated}},
		{"saturated, long mean of a short median", set(func(w *window) { w.load[CauseCPUSaturated], w.cpu = 1000, 3 }), nil},
		{"saturated, a herd of timers", set(func(w *window) { w.medianRunnable, w.cpu = 1000, 0.2 }), nil},
		{"saturated while the run delay is unmeasured", set(func(w *window) { saturated(w); delete(w.load, CauseCPUContended) }), []Cause{CauseCPUSaturated}},

		{"downstream at", set(downstream), []Cause{CauseDownstream}},
		{"downstream, few", set(func(w *window) { downstream(w); w.load[CauseDownstream] = below(8) }), nil},
		{"downstream, quick", set(func(w *window) { downstream(w); w.outboundWait-- }), nil},
		{"downstream of half of the rollouts", set(func(w *window) { downstream(w); w.active = 16 }), []Cause{CauseDownstream}},
		{"downstream of less than half of the rollouts", set(func(w *window) { downstream(w); w.active = 16.1 }), nil},
		{"downstream of other rollouts' work", set(func(w *window) { downstream(w); w.active, w.load[CauseBlockedThread] = 100, 50 }), []Cause{CauseBlockedThread}},

		{"unknown at", set(func(w *window) { w.lagShare = 0.1 }), []Cause{CauseUnknown}},
		{"unknown below", set(func(w *window) { w.lagShare = below(0.1) }), nil},
		{"unknown only alone", set(func(w *window) { w.lagShare, w.load[CauseLock] = 5, 2 }), []Cause{CauseLock}},
		{"unknown although nothing is measured", &window{processors: 1, cpus: 1, lagShare: 1}, []Cause{CauseUnknown}},
	}...)
	for _, test := range table {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.held, holding(test.w))
		})
	}
}

// Causes drag others along: the run queue grows while the collector works.
func TestCauseComesBeforeItsVictims(t *testing.T) {
	victims := func(w *window) {
		saturated(w)
		w.load[CauseLock], w.load[CauseAdmission], w.load[CauseBlockedThread] = 50, 30, 20
		w.lagShare = 0.7
	}
	for cause, load := range map[Cause]float64{CauseCPUThrottled: 0.4, CauseStopTheWorld: 2, CauseGC: 2} {
		held := holding(loaded(map[Cause]float64{cause: load}, victims))
		assert.Equal(t, []Cause{cause, CauseCPUSaturated, CauseLock, CauseAdmission, CauseBlockedThread}, held)
	}
}

// P goroutines that compute all the time leave a queue of up to P, and fewer
// than 1.5 P clients in a closed loop leave one below 0.5 P beside those that
// run. More than that is a queue.
func TestClosedLoopIsSaturatedOnlyWithMoreThanItsShareOfClients(t *testing.T) {
	for _, processors := range []float64{1, 2, 8, 96} {
		for queue := range int(3 * processors) {
			held := holding(&window{
				processors: processors, cpus: processors, cpu: processors,
				medianRunnable: float64(queue), load: map[Cause]float64{CauseCPUSaturated: float64(queue)},
			})
			if float64(queue) < 1.5*processors {
				assert.Empty(t, held, "%d in the queue of %v processors", queue, processors)
			} else {
				assert.Equal(t, []Cause{CauseCPUSaturated}, held, "%d in the queue of %v processors", queue, processors)
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
		CauseCPUThrottled: {throttledAtLeast}, CauseStopTheWorld: {stoppedAtLeast}, CauseGC: {gcAtLeast},
		CauseCPUContended: {delayAtLeast}, CauseCPUSaturated: {queueAtLeast, busyAtLeast, wantedAtLeast}, CauseLock: {lockAtLeast},
		CauseOutputWrite: {writeAtLeast}, CauseDownstream: {outboundAtLeast, outboundWaitAtLeast.Milliseconds()},
		CauseAdmission: {admissionAtLeast}, CauseBlockedThread: {blockedAtLeast},
		CauseDescriptors: {shareAtLeast}, CauseMemory: {shareAtLeast},
	}
	for _, r := range rules {
		require.NotEmpty(t, numbers[r.cause], r.cause)
		for _, number := range numbers[r.cause] {
			assert.Contains(t, strings.Fields(r.condition), fmt.Sprint(number), r.cause)
		}
		assert.NotEmpty(t, r.advice)
		assert.True(t, strings.HasSuffix(r.advice, "."), "%s: the advice is a sentence", r.cause)
		assert.Equal(t, r.cause == CauseDescriptors || r.cause == CauseMemory, r.share, r.cause)
	}
}

func TestEvidenceHasTheNumbers(t *testing.T) {
	w := loaded(map[Cause]float64{
		CauseCPUThrottled: 0.48, CauseStopTheWorld: 1.84, CauseGC: 1.1, CauseCPUContended: 2.25, CauseCPUSaturated: 130.44,
		CauseLock: 37.2, CauseOutputWrite: 3, CauseDownstream: 32, CauseAdmission: 28, CauseBlockedThread: 30.1,
	}, func(w *window) {
		w.throttledPeriods, w.cpu, w.medianRunnable, w.steal = 77, 0.75, 129, 0.125
		w.outboundWait, w.active = 1234567*time.Microsecond, 40
		w.descriptors, w.descriptorLimit = 950, 1000
		w.memory = memoryUse{heapLive: 480 << 20, goUsed: 490 << 20, goLimit: 512 << 20}
	})
	sentences := map[Cause]string{
		CauseCPUThrottled:  "the CPU quota stopped the process for 0.48 s per second, in 77 of its periods; it may use 3 CPUs",
		CauseStopTheWorld:  "pauses that are not the collector's took 46 % of the time",
		CauseGC:            "the collector used 1.1 of 4 processors; 480 MiB of heap live under a GOMEMLIMIT of 512 MiB",
		CauseCPUContended:  "2.25 threads were ready without a processor while 0.75 ran, on 3 CPUs with GOMAXPROCS 4; the hypervisor took 12 %",
		CauseCPUSaturated:  "130.4 goroutines were ready without a processor (median 129) for 4 processors; the process used 0.75 CPUs",
		CauseLock:          "37.2 goroutines waited for a mutex",
		CauseOutputWrite:   "3.0 output writes were under way",
		CauseDownstream:    "32.0 outbound requests waited for their response headers, 1.235s each; 40.0 rollouts were active",
		CauseAdmission:     "28.0 rollouts waited for admission while 40.0 were active",
		CauseBlockedThread: "30.1 goroutines were in system calls or C code",
		CauseDescriptors:   "950 of 1000 file descriptors are open",
		CauseMemory:        "490 MiB of a GOMEMLIMIT of 512 MiB are live or not heap",
	}
	for _, r := range rules {
		assert.Equal(t, sentences[r.cause], r.evidence(w), r.cause)
	}

	w.gcLimited, w.memory.goLimit, w.stealKnown, w.active, w.cpus = true, 0, false, 0, 0.25
	assert.Equal(t, "the collector used 1.1 of 4 processors, and its CPU limiter was on; 480 MiB of heap live", gcEvidence(w))
	for _, r := range rules {
		switch r.cause {
		case CauseCPUContended:
			assert.Equal(t, "2.25 threads were ready without a processor while 0.75 ran, on 0.25 CPUs with GOMAXPROCS 4", r.evidence(w))
		case CauseDownstream:
			assert.Equal(t, "32.0 outbound requests waited for their response headers, 1.235s each", r.evidence(w))
		}
	}
}

func TestBytesReadAsAPersonWritesThem(t *testing.T) {
	for bytes, text := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1 << 10: "1 KiB", 1536: "1.5 KiB", 480 << 20: "480 MiB", 999 << 10: "999 KiB",
		1000 << 10: "0.977 MiB", 1023 << 20: "0.999 GiB", 1 << 40: "1 TiB", 1 << 60: "1 EiB", math.MaxInt64: "8 EiB",
	} {
		assert.Equal(t, text, bytesText(bytes))
	}
}

func TestVerdictChangesWhenTwoWindowsAgree(t *testing.T) {
	const a, b, none, unknown = CauseGC, CauseCPUSaturated, CauseNone, CauseUnknown
	type windows = [][]Cause
	for _, test := range []struct {
		name     string
		held     windows
		verdicts []Cause
	}{
		{"none from the first", windows{{}, {}}, []Cause{none, none}},
		{"one window", windows{{a}, {}, {}}, []Cause{none, none, none}},
		{"two windows", windows{{a}, {a}, {a}}, []Cause{none, a, a}},
		{"from the very first", windows{{a}, {a}}, []Cause{none, a}},
		{"back to none after two", windows{{a}, {a}, {}, {}}, []Cause{none, a, a, none}},
		{"a gap of one window", windows{{a}, {a}, {}, {a}, {}, {a}}, []Cause{none, a, a, a, a, a}},
		{"every other window", windows{{a}, {}, {a}, {}, {a}}, []Cause{none, none, none, none, none}},
		{"one cause after the other", windows{{a}, {a}, {b}, {b}}, []Cause{none, a, a, b}},
		{"causes that take turns agree in none", windows{{a}, {b}, {a}, {b}}, []Cause{none, none, none, none}},
		{"causes that take turns keep the verdict", windows{{a}, {a}, {b}, {a}, {b}}, []Cause{none, a, a, a, a}},
		{"one that held behind another", windows{{a, b}, {b}}, []Cause{none, b}},
		{"one that comes in front", windows{{b}, {b}, {a, b}, {a, b}}, []Cause{none, b, b, a}},
		{"one in front now and then", windows{{b}, {a, b}, {b}, {a, b}, {b}}, []Cause{none, none, b, b, b}},
		{"one that stays behind is no verdict", windows{{a, b}, {a, b}}, []Cause{none, a}},
		{"unknown is a verdict like any other", windows{{unknown}, {unknown}, {a}, {unknown}, {}, {}}, []Cause{none, unknown, unknown, unknown, unknown, none}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var h hysteresis
			before := none
			for i, held := range test.held {
				changed := h.next(held)
				assert.Equal(t, test.verdicts[i], h.verdict, "after window %d", i+1)
				assert.Equal(t, h.verdict != before, changed, "after window %d", i+1)
				before = h.verdict
			}
		})
	}
}

func TestHoldingKeepsTheOrderOfTheRules(t *testing.T) {
	w := quietWindow()
	for _, test := range slices.Backward(heldAlone()) {
		test.hold(w)
	}
	w.medianRunnable, w.lagShare = 100, 1
	assert.Equal(t, slices.DeleteFunc(causes(), func(c Cause) bool { return c == CauseCPUContended }), holding(w),
		"the run queue slows more than the run delay")
}
