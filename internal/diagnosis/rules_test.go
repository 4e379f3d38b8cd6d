package diagnosis

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

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
func saturated(w *Window)  { w.MedianRunnable, w.CPU = 1.5*w.Processors, known(0.75*w.CPUs) }
func contended(w *Window)  { w.Load[CPUContended], w.CPU = known(w.CPUs/2), known(w.CPUs/2) }
func downstream(w *Window) { w.Load[Downstream], w.OutboundWait = known(8), 100*time.Millisecond }

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
		"cpu_throttled", "stop_the_world", "gc", "cpu_contended", "cpu_saturated", "output_write",
		"lock", "downstream", "admission", "blocked_thread", "descriptors", "memory",
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
		{Downstream, downstream},
		at(Admission, 1),
		at(BlockedThread, 8),
		at(Descriptors, 0.9),
		at(Memory, 0.9),
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
		OutputWrite: 0.9, Admission: 1, BlockedThread: 8, Descriptors: 0.9, Memory: 0.9,
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
		{"the collector's limiter was on", set(func(w *Window) { w.GCLimited = true }), []Cause{GC}},

		{"contended at", set(contended), []Cause{CPUContended}},
		{"contended, less than half of the time", set(func(w *Window) { contended(w); w.CPU = known(1.001 * w.CPU.Or(0)) }), nil},
		{"contended, less than a quarter of the CPUs", set(func(w *Window) { w.Load[CPUContended], w.CPU = known(below(0.75)), known(0.1) }), nil},
		{"contended, a quarter of the CPUs", set(func(w *Window) { w.Load[CPUContended], w.CPU = known(0.75), known(0.1) }), []Cause{CPUContended}},
		{"contended, did not get to run", set(func(w *Window) { w.Load[CPUContended], w.CPU = known(3), known(0) }), []Cause{CPUContended}},
		{"contended, as much as the run queue", set(func(w *Window) {
			w.Load[CPUContended], w.CPU, w.MedianRunnable = known(3), known(1), 12 // factor 4 each
		}), []Cause{CPUContended, CPUSaturated}},
		{"contended, less than the run queue", set(func(w *Window) {
			w.Load[CPUContended], w.CPU, w.MedianRunnable = known(3), known(1), 13
		}), []Cause{CPUSaturated}},
		{"contended behind a short run queue", set(func(w *Window) {
			w.Load[CPUContended], w.CPU, w.MedianRunnable = known(1.5), known(1.5), 5 // factor 2 against 2.25, which is no saturation
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
		{"saturated while the run delay is unmeasured", set(func(w *Window) { saturated(w); w.Load[CPUContended] = number.Number{} }), []Cause{CPUSaturated}},

		{"downstream at", set(downstream), []Cause{Downstream}},
		{"downstream, few", set(func(w *Window) { downstream(w); w.Load[Downstream] = known(below(8)) }), nil},
		{"downstream, quick", set(func(w *Window) { downstream(w); w.OutboundWait-- }), nil},
		{"downstream of half of the rollouts", set(func(w *Window) { downstream(w); w.Active = 16 }), []Cause{Downstream}},
		{"downstream of less than half of the rollouts", set(func(w *Window) { downstream(w); w.Active = 16.1 }), nil},
		{"downstream of other rollouts' work", set(func(w *Window) { downstream(w); w.Active, w.Load[BlockedThread] = 100, known(50) }), []Cause{BlockedThread}},

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
		CPUThrottled: {throttledAtLeast}, StopTheWorld: {stoppedAtLeast}, GC: {gcAtLeast},
		CPUContended: {delayAtLeast}, CPUSaturated: {queueAtLeast, busyAtLeast, wantedAtLeast}, Lock: {lockAtLeast},
		OutputWrite: {writeAtLeast}, Downstream: {outboundAtLeast, outboundWaitAtLeast.Milliseconds()},
		Admission: {admissionAtLeast}, BlockedThread: {blockedAtLeast},
		Descriptors: {shareAtLeast}, Memory: {shareAtLeast},
	}
	for cause := range All() {
		require.NotEmpty(t, numbers[cause], cause)
		for _, number := range numbers[cause] {
			assert.Contains(t, strings.Fields(cause.Condition()), fmt.Sprint(number), cause)
		}
		assert.NotEmpty(t, cause.Advice())
		assert.True(t, strings.HasSuffix(cause.Advice(), "."), "%s: the advice is a sentence", cause)
		assert.Equal(t, cause == Descriptors || cause == Memory, cause.IsShare(), cause)
	}
	assert.Contains(t, Unknown.Condition(), fmt.Sprint(lagAllowance.Milliseconds(), " ms"))
	assert.Contains(t, strings.Fields(Unknown.Condition()), fmt.Sprint(lagAtLeast))
}

func TestEvidenceHasTheNumbers(t *testing.T) {
	w := loaded(map[Cause]float64{
		CPUThrottled: 0.48, StopTheWorld: 1.84, GC: 1.1, CPUContended: 2.25, CPUSaturated: 130.44,
		Lock: 37.2, OutputWrite: 3, Downstream: 32, Admission: 28, BlockedThread: 30.1,
	}, func(w *Window) {
		w.ThrottledPeriods, w.CPU, w.MedianRunnable, w.Steal = 77, known(0.75), 129, known(0.125)
		w.OutboundWait, w.Active = 1234567*time.Microsecond, 40
		w.Descriptors, w.DescriptorLimit = known(950), known(1000)
		w.Memory = MemoryUse{HeapLive: 480 << 20, GoUsed: 490 << 20, GoLimit: 512 << 20}
	})
	sentences := map[Cause]string{
		CPUThrottled:  "the CPU quota stopped the process for 0.48 s per second, in 77 of its periods; it may use 3 CPUs",
		StopTheWorld:  "pauses that are not the collector's took 46 % of the time",
		GC:            "the collector used 1.1 of 4 processors; 480 MiB of heap live under a GOMEMLIMIT of 512 MiB",
		CPUContended:  "2.25 threads were ready without a processor while 0.75 ran, on 3 CPUs with GOMAXPROCS 4; the hypervisor took 12 %",
		CPUSaturated:  "130.4 goroutines were ready without a processor (median 129) for 4 processors; the process used 0.75 CPUs",
		Lock:          "37.2 goroutines waited for a mutex",
		OutputWrite:   "3.0 output writes were under way",
		Downstream:    "32.0 outbound requests waited for their response headers, 1.235s each; 40.0 rollouts were active",
		Admission:     "28.0 rollouts waited for admission while 40.0 were active",
		BlockedThread: "30.1 goroutines were in system calls or C code",
		Descriptors:   "950 of 1000 file descriptors are open",
		Memory:        "490 MiB of a GOMEMLIMIT of 512 MiB are live or not heap",
	}
	for cause := range All() {
		assert.Equal(t, sentences[cause], rows[cause].evidence(w), cause)
	}

	w.GCLimited, w.Memory.GoLimit, w.Steal, w.Active, w.CPUs = true, 0, number.Number{}, 0, 0.25
	assert.Equal(t, "the collector used 1.1 of 4 processors, and its CPU limiter was on; 480 MiB of heap live", gcEvidence(w))
	assert.Equal(t, "2.25 threads were ready without a processor while 0.75 ran, on 0.25 CPUs with GOMAXPROCS 4", rows[CPUContended].evidence(w))
	assert.Equal(t, "32.0 outbound requests waited for their response headers, 1.235s each", rows[Downstream].evidence(w))
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
	const a, b, none, unknown = GC, CPUSaturated, None, Unknown
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
			var j Judge
			before := none
			for i, held := range test.held {
				changed := j.agree(SetOf(held...))
				assert.Equal(t, test.verdicts[i], j.verdict, "after window %d", i+1)
				assert.Equal(t, j.verdict != before, changed, "after window %d", i+1)
				before = j.verdict
			}
		})
	}
}

func TestHoldingKeepsTheOrderOfTheRules(t *testing.T) {
	w := quietWindow()
	for _, test := range slices.Backward(heldAlone()) {
		test.hold(w)
	}
	w.MedianRunnable, w.LagShare = 100, 1
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

func TestStallAsLongAsAWindowNeedsNoSecondOne(t *testing.T) {
	const every = 10 * time.Second
	late := loaded(nil, func(w *Window) { w.LagShare, w.WorstLag = 0.5, every-1 })
	var j Judge
	assert.Equal(t, None, j.Next(late, every).Verdict)
	j = Judge{}
	late.WorstLag = every
	outcome := j.Next(late, every)
	assert.Equal(t, Unknown, outcome.Verdict)
	assert.True(t, outcome.Changed)
	assert.Contains(t, outcome.Sentence(), "woke up to 10s late")
}

func TestSentenceKeepsTheNumbersOfTheWindowInWhichTheVerdictHeld(t *testing.T) {
	var j Judge
	at := func(load float64) *Outcome { return j.Next(loaded(map[Cause]float64{Lock: load}), time.Minute) }
	at(10)
	assert.Contains(t, at(20).Sentence(), "lock: 20.0 goroutines waited for a mutex. ")
	still := at(0)
	assert.Equal(t, Lock, still.Verdict)
	assert.Contains(t, still.Sentence(), "lock: 20.0 goroutines")
	assert.Equal(t, "none: nothing waits beyond its normal bounds", at(0).Sentence())
}

func TestFindingsAreOrderedByLoadAndSharesComeLast(t *testing.T) {
	w := loaded(map[Cause]float64{Memory: 1.5, Descriptors: 0.01, Lock: 0.5, GC: 0.25, CPUSaturated: 130})
	w.Load[OutputWrite] = number.Number{}
	var order []Cause
	for _, f := range w.Findings() {
		order = append(order, f.Cause)
		assert.Equal(t, w.Load[f.Cause], known(f.Load))
		assert.NotEmpty(t, f.Evidence)
	}
	assert.Equal(t, []Cause{CPUSaturated, Lock, GC, CPUThrottled, StopTheWorld, CPUContended, Downstream, Admission, BlockedThread, Descriptors, Memory}, order)
	assert.Equal(t, []Cause{OutputWrite}, w.Unmeasured())
}
