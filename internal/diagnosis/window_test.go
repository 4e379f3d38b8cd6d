package diagnosis

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/number"
)

// windowBegan is when the windows of these tests begin. They take 4 s.
var windowBegan = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const windowLength = 4 * time.Second

// atRest is a Reading of a process with 2 processors, of which everything is
// known.
func atRest() Reading {
	return Reading{
		Processors: 2, CPUs: 2,
		CPU: number.Known(100), RunDelay: number.Known(50), Throttled: number.Known(20),
		Collector: number.Known(30), Stopped: number.Known(1), Locked: number.Known(70),
		Steal: number.Known(1000), Machine: number.Known(100_000),
		ThrottledPeriods: 12, Collections: 40, LimitedAt: 3, OutboundEnded: 500, Written: time.Minute,
		Descriptors: number.Known(50), DescriptorLimit: number.Known(200),
		Memory: MemoryUse{HeapLive: 1 << 20},
	}
}

// grow lets a total grow, where it is known.
func grow(n *number.Number, by float64) { *n = n.Plus(number.Known(by)) }

// totalsOf are the totals of a reading that may not be known.
func totalsOf(r *Reading) []*number.Number {
	return []*number.Number{&r.CPU, &r.RunDelay, &r.Throttled, &r.Collector, &r.Stopped, &r.Locked, &r.Steal, &r.Machine}
}

// loadsOf are the loads that were measured in a window.
func loadsOf(w *Window) map[Cause]float64 {
	loads := make(map[Cause]float64)
	for cause := range All() {
		if load, measured := w.Load[cause].Get(); measured {
			loads[cause] = load
		}
	}
	return loads
}

// samplesAtRest are four samples that found nothing.
func samplesAtRest() *Samples {
	sums := new(Samples)
	for range 4 {
		sums.Add(&Sample{Runnable: number.Known(0), NotInGo: number.Known(0)})
	}
	return sums
}

// windowOf is the window in which change happened to a process at rest.
func windowOf(change func(before, after *Reading, sums *Samples)) *Window {
	before, after, sums := atRest(), atRest(), samplesAtRest()
	grow(&after.Machine, 800)
	change(&before, &after, sums)
	return NewWindow(windowBegan, windowBegan.Add(windowLength), &before, &after, sums)
}

func TestNothingWaitsInAProcessAtRest(t *testing.T) {
	w := windowOf(func(_, _ *Reading, _ *Samples) {})
	assert.Equal(t, map[Cause]float64{
		CPUSaturated: 0, CPUContended: 0, CPUThrottled: 0, GC: 0, StopTheWorld: 0,
		Lock: 0, BlockedThread: 0, Admission: 0, Downstream: 0, OutputWrite: 0,
		Descriptors: 0.25, Memory: 0, // and nobody looked for requests that wait
	}, loadsOf(w))
	assert.Equal(t, windowBegan.Add(windowLength), w.At)
	assert.Equal(t, windowLength, w.Length)
	assert.True(t, w.Steal.IsKnown())
	assert.False(t, w.GCLimited)
	assert.Equal(t, number.Known(0), w.CPU)
	assert.Empty(t, w.Holding())
}

func TestEachLoadIsWaitingTimePerSecond(t *testing.T) {
	for _, test := range []struct {
		cause  Cause
		change func(_, after *Reading, sums *Samples)
		want   float64
	}{
		{CPUSaturated, func(_, _ *Reading, sums *Samples) { sums.runnable.sum = 14 }, 3.5},
		{CPUContended, func(_, after *Reading, _ *Samples) { grow(&after.RunDelay, 6) }, 1.5},
		{CPUThrottled, func(_, after *Reading, _ *Samples) { grow(&after.Throttled, 2) }, 0.5},
		{GC, func(_, after *Reading, _ *Samples) { grow(&after.Collector, 3) }, 0.75},
		{StopTheWorld, func(_, after *Reading, _ *Samples) { grow(&after.Stopped, 1) }, 0.5}, // two processors stand still
		{Lock, func(_, after *Reading, _ *Samples) { grow(&after.Locked, 40) }, 10},
		{BlockedThread, func(_, _ *Reading, sums *Samples) { sums.notInGo.sum = 34 }, 8.5},
		{Admission, func(_, _ *Reading, sums *Samples) { sums.waiting = 6 }, 1.5},
		{Downstream, func(_, _ *Reading, sums *Samples) { sums.outbound = 36 }, 9},
		{OutputWrite, func(_, after *Reading, sums *Samples) { sums.writing = 4; after.Written += 6 * time.Second }, 2.5},
		{Descriptors, func(_, after *Reading, _ *Samples) { after.Descriptors = number.Known(190) }, 0.95},
		{Memory, func(_, after *Reading, _ *Samples) { after.Memory = MemoryUse{GoUsed: 3 << 20, GoLimit: 4 << 20} }, 0.75},
	} {
		t.Run(test.cause.Name(), func(t *testing.T) {
			want := loadsOf(windowOf(func(_, _ *Reading, _ *Samples) {}))
			w := windowOf(test.change)
			want[test.cause] = test.want
			if test.cause == CPUThrottled {
				delete(want, CPUContended) // see below
			}
			assert.Equal(t, want, loadsOf(w))
		})
	}
}

func TestWindowKeepsWhatTheEvidenceNeeds(t *testing.T) {
	w := windowOf(func(_, after *Reading, sums *Samples) {
		after.Processors, after.CPUs = 4, 1.5
		grow(&after.CPU, 6)
		after.ThrottledPeriods += 7
		after.LimitedAt = 41
		grow(&after.Steal, 200)
		sums.active = 10
		sums.Add(&Sample{Lag: 70 * time.Millisecond})
		sums.Add(&Sample{Lag: 20 * time.Millisecond})
		sums.Add(&Sample{Lag: 420 * time.Millisecond})
		sums.Add(&Sample{Lag: 5 * time.Millisecond})
	})
	assert.Equal(t, 4.0, w.Processors)
	assert.Equal(t, 1.5, w.CPUs)
	assert.Equal(t, number.Known(1.5), w.CPU)
	assert.EqualValues(t, 7, w.ThrottledPeriods)
	assert.True(t, w.GCLimited)
	assert.Equal(t, number.Known(0.25), w.Steal)
	assert.Equal(t, 1.25, w.Active)
	assert.Equal(t, 420*time.Millisecond, w.WorstLag)
	assert.InDelta(t, 0.45/4, w.LagShare, 1e-9, "50 ms and 400 ms beyond what each sample may take")
	assert.Equal(t, number.Known(50), w.Descriptors)
	assert.Equal(t, number.Known(200), w.DescriptorLimit)
}

func TestUnmeasuredCauseHasNoLoad(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Reading) // of either end of the window, or of both
		want   []Cause
	}{
		{"run delay", func(s *Reading) { s.RunDelay = number.Number{} }, []Cause{CPUContended}},
		{"own CPU", func(s *Reading) { s.CPU = number.Number{} }, []Cause{CPUContended}},
		{"throttling", func(s *Reading) { s.Throttled = number.Number{} }, []Cause{CPUThrottled}},
		{"collector", func(s *Reading) { s.Collector = number.Number{} }, []Cause{GC}},
		{"pauses", func(s *Reading) { s.Stopped = number.Number{} }, []Cause{StopTheWorld}},
		{"mutexes", func(s *Reading) { s.Locked = number.Number{} }, []Cause{Lock}},
		{"steal", func(s *Reading) { s.Machine = number.Number{} }, nil},
	} {
		for end, change := range map[string]func(before, after *Reading, _ *Samples){
			"before": func(before, _ *Reading, _ *Samples) { test.change(before) },
			"after":  func(_, after *Reading, _ *Samples) { test.change(after) },
			"both":   func(before, after *Reading, _ *Samples) { test.change(before); test.change(after) },
		} {
			t.Run(test.name+" "+end, func(t *testing.T) {
				w := windowOf(change)
				assert.ElementsMatch(t, test.want, w.Unmeasured())
				assert.Zero(t, w.CPU.Or(0), "no CPU was used, or nothing is known of it")
				assert.Zero(t, w.Steal.Or(0))
				assert.Equal(t, test.name != "steal", w.Steal.IsKnown())
				assert.Empty(t, w.Holding(), "what is unmeasured blames nobody")
			})
		}
	}

	t.Run("samples", func(t *testing.T) {
		w := windowOf(func(_, _ *Reading, sums *Samples) {
			*sums = Samples{}
			sums.Add(&Sample{})
		})
		assert.ElementsMatch(t, []Cause{CPUSaturated, BlockedThread}, w.Unmeasured())
	})
	t.Run("descriptors", func(t *testing.T) {
		w := windowOf(func(_, after *Reading, _ *Samples) { after.Descriptors = number.Number{} })
		assert.ElementsMatch(t, []Cause{Descriptors}, w.Unmeasured())
	})
	t.Run("descriptor limit", func(t *testing.T) {
		w := windowOf(func(_, after *Reading, _ *Samples) { after.DescriptorLimit = number.Number{} })
		assert.ElementsMatch(t, []Cause{Descriptors}, w.Unmeasured())
	})
}

func TestSamplesThatFailedDoNotDiluteTheMean(t *testing.T) {
	w := windowOf(func(_, _ *Reading, sums *Samples) {
		*sums = Samples{}
		sums.Add(&Sample{Runnable: number.Known(6), NotInGo: number.Known(2)})
		sums.Add(&Sample{})
		sums.Add(&Sample{Runnable: number.Known(8)})
	})
	assert.Equal(t, number.Known(7), w.Load[CPUSaturated])
	assert.Equal(t, number.Known(2), w.Load[BlockedThread])
}

func TestThrottlingMakesTheRunDelayUnreadable(t *testing.T) {
	for _, test := range []struct {
		throttled float64 // seconds in the window
		measured  bool
	}{{0, true}, {0.03, true}, {0.05, false}, {2, false}} {
		w := windowOf(func(_, after *Reading, _ *Samples) {
			grow(&after.Throttled, test.throttled)
			grow(&after.RunDelay, 4)
		})
		assert.Equal(t, number.If(test.measured, 1), w.Load[CPUContended], "throttled for %v s of 4", test.throttled)
	}
}

func TestTotalThatFellCountsAsNothing(t *testing.T) {
	w := windowOf(func(_, after *Reading, _ *Samples) {
		for _, total := range totalsOf(after) {
			*total = total.Over(2)
		}
		after.ThrottledPeriods, after.Collections, after.LimitedAt, after.OutboundEnded, after.Written = 0, 0, 0, 0, 0
	})
	for cause, load := range loadsOf(w) {
		if cause != Descriptors {
			assert.Zero(t, load, cause)
		}
	}
	assert.Equal(t, number.Known(0), w.CPU)
	assert.Zero(t, w.ThrottledPeriods)
	assert.False(t, w.Steal.IsKnown(), "a share of a time that went back")
	assert.Empty(t, w.Unmeasured())
}

func TestMedianOfTheRunQueue(t *testing.T) {
	for _, test := range []struct {
		lengths []float64
		want    float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{0, 0, 900}, 0},
		{[]float64{3, 900, 4, 900, 5}, 5},
		{[]float64{2, 8}, 2}, // the lower one: what half of the samples reach
		{[]float64{-1, -1, -1}, 0},
		{[]float64{1e12, 1e12, 0}, 4096}, // as long as is told apart
	} {
		var q queueLengths
		for _, length := range test.lengths {
			q.add(length)
		}
		assert.Equal(t, test.want, q.median(float64(len(test.lengths))), "%v", test.lengths)
	}
}

func TestMeanWaitOfOutboundRequestsIsLittlesLaw(t *testing.T) {
	for _, test := range []struct {
		name     string
		inFlight int64 // at each of the four samples
		ended    int64
		want     time.Duration
	}{
		{"none", 0, 0, 0},
		{"none in flight", 0, 400, 0},
		{"eight at once, 40 a second", 8, 160, 200 * time.Millisecond},
		{"one at a time, 10 a second", 1, 40, 100 * time.Millisecond},
		{"one that ended", 1, 1, windowLength},
		{"none has ended: the window at least", 32, 0, windowLength},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := windowOf(func(_, after *Reading, sums *Samples) {
				sums.outbound = 4 * test.inFlight
				after.OutboundEnded += test.ended
			})
			assert.Equal(t, test.want, w.OutboundWait)
		})
	}
}

func TestCollectorsLoadGoesOnWhileACollectionLasts(t *testing.T) {
	for _, test := range []struct {
		name     string
		before   float64 // the load of the window before
		load     float64
		cpu      float64
		finished int64
		between  bool // two collections
		want     float64
	}{
		{"a collection finished", 1.2, 0.9, 2, 1, false, 0.9},
		{"none finished after a quiet window", 0.39, 0, 2, 0, false, 0},
		{"none finished after a busy window", 0.4, 0, 2, 0, false, 0.4},
		{"none finished and less CPU used than before", 1.2, 0, 0.7, 0, false, 0.7},
		{"none finished and idle after a storm", 1.2, 0, 0.01, 0, false, 0.01},
		{"a long one that is counted when it ends", 0, 5.5, 2, 1, false, 2},
		{"none under way, and busy with something else after a storm", 1.2, 0, 2, 0, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &Window{Processors: 2, CPU: number.Known(test.cpu)}
			w.Load[GC] = number.Known(test.load)
			w.smoothCollector(number.Known(test.before), test.finished, !test.between)
			assert.Equal(t, number.Known(test.want), w.Load[GC])
		})
	}
	t.Run("unmeasured stays so", func(t *testing.T) {
		w := &Window{Processors: 2, CPU: number.Known(2)}
		w.smoothCollector(number.Known(2), 0, true)
		assert.False(t, w.Load[GC].IsKnown())
	})
}

func TestMemoryShareIsThatOfTheNearestLimit(t *testing.T) {
	for _, test := range []struct {
		name  string
		use   MemoryUse
		share float64
		known bool
		text  string
	}{
		{"no limit", MemoryUse{GroupUsed: 5 << 20}, 0, true, "there is no memory limit"},
		{"GOMEMLIMIT", MemoryUse{GoUsed: 3 << 20, GoLimit: 4 << 20}, 0.75, true, "3 MiB of a GOMEMLIMIT of 4 MiB are live or not heap"},
		{"the cgroup", MemoryUse{GroupUsed: 3 << 30, GroupLimit: 2 << 30}, 1.5, true, "3 GiB of the cgroup's 2 GiB are in use"},
		{"both, GOMEMLIMIT nearer", MemoryUse{GoUsed: 3, GoLimit: 4, GroupUsed: 1, GroupLimit: 4}, 0.75, true,
			"3 B of a GOMEMLIMIT of 4 B are live or not heap; 1 B of the cgroup's 4 B are in use"},
		{"both, the cgroup nearer", MemoryUse{GoUsed: 1, GoLimit: 4, GroupUsed: 2, GroupLimit: 4}, 0.5, true,
			"1 B of a GOMEMLIMIT of 4 B are live or not heap; 2 B of the cgroup's 4 B are in use"},
		{"memory.high", MemoryUse{GroupUsed: 60 << 20, GroupLimit: 40 << 20, GroupHigh: true}, 1.5, true,
			"60 MiB of the cgroup's memory.high of 40 MiB are in use, past which the kernel puts the process to sleep"},
		{"a cgroup that cannot be read", MemoryUse{GroupFailed: true}, 0, false, "there is no memory limit"},
		{"GOMEMLIMIT in a cgroup that cannot be read", MemoryUse{GoUsed: 1, GoLimit: 4, GroupFailed: true}, 0.25, true,
			"1 B of a GOMEMLIMIT of 4 B are live or not heap"},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, number.If(test.known, test.share), test.use.share())
			assert.Equal(t, test.text, memoryEvidence(&Window{Memory: test.use}))
			assert.Equal(t, test.use.share(), windowOf(func(_, after *Reading, _ *Samples) { after.Memory = test.use }).Load[Memory])
		})
	}
}

// strangeReadings are ends of windows that no reading should bring, and that
// must still come to sentences.
func strangeReadings() map[string]func(before, after *Reading, sums *Samples) {
	unread := func(r *Reading) { // what the process counts itself is always known
		for _, n := range append(totalsOf(r), &r.Descriptors, &r.DescriptorLimit) {
			*n = number.Number{}
		}
		r.Processors, r.CPUs, r.Memory = 1, 1, MemoryUse{GroupFailed: true}
	}
	return map[string]func(before, after *Reading, sums *Samples){
		"no sample":    func(_, _ *Reading, sums *Samples) { *sums = Samples{} },
		"nothing read": func(before, after *Reading, _ *Samples) { unread(before); unread(after) },
		"nothing read, no sample": func(before, after *Reading, sums *Samples) {
			unread(before)
			unread(after)
			*sums = Samples{}
		},
		"everything begins to be read": func(before, _ *Reading, _ *Samples) { unread(before) },
		"everything ceases to be read": func(_, after *Reading, _ *Samples) { unread(after) },
		"a descriptor limit of 0":      func(_, after *Reading, _ *Samples) { after.DescriptorLimit = number.Known(0) },
		"no descriptor limit":          func(_, after *Reading, _ *Samples) { after.DescriptorLimit = number.Known(math.MaxInt64) },
		"waiting without running":      func(_, after *Reading, _ *Samples) { grow(&after.RunDelay, 20) },
		"large numbers": func(_, after *Reading, sums *Samples) {
			after.Memory = MemoryUse{HeapLive: math.MaxInt64, GoUsed: math.MaxInt64, GoLimit: 1, GroupUsed: math.MaxInt64, GroupLimit: 1}
			after.Collector, after.Locked, after.Stopped = number.Known(1e18), number.Known(1e18), number.Known(1e18)
			sums.outbound, sums.waiting, sums.writing, sums.active = 1e9, 1e9, 1e9, 1e9
			sums.lagExcess, sums.worstLag = math.MaxInt64, math.MaxInt64
		},
	}
}

func TestNoLoadAndNoSentenceIsEverNotANumber(t *testing.T) {
	for name, change := range strangeReadings() {
		t.Run(name, func(t *testing.T) {
			w := windowOf(change)
			w.smoothCollector(number.Known(1), 0, true)
			for cause, load := range loadsOf(w) {
				assert.False(t, math.IsNaN(load) || math.IsInf(load, 0) || load < 0, "%s is %v", cause, load)
			}
			for verdict := range Cause(NumCauses) {
				outcome := Outcome{Window: w, Verdict: verdict, shown: w}
				for _, wrong := range []string{"NaN", "Inf", "%!", " -", "e+"} {
					assert.NotContains(t, outcome.Sentence(""), wrong)
				}
			}
		})
	}
}

func TestSilentSourcesBlameNobody(t *testing.T) {
	for _, name := range []string{"nothing read", "nothing read, no sample", "everything begins to be read", "everything ceases to be read"} {
		assert.Empty(t, windowOf(strangeReadings()[name]).Holding(), name)
	}
}

func TestH66QuotaThatCannotBeSeenLeavesTheRunDelayUnreadable(t *testing.T) {
	w := windowOf(func(_, after *Reading, _ *Samples) {
		grow(&after.RunDelay, 8)
		after.ThrottlingUnseen = true
	})
	assert.ElementsMatch(t, []Cause{CPUThrottled, CPUContended}, w.Unmeasured())
	assert.Empty(t, w.Holding())

	w = windowOf(func(_, after *Reading, _ *Samples) { after.Throttled, after.ThrottlingUnseen = number.Number{}, true })
	assert.ElementsMatch(t, []Cause{CPUThrottled, CPUContended}, w.Unmeasured())

	w = windowOf(func(_, after *Reading, _ *Samples) { after.Throttled = number.Number{} })
	assert.ElementsMatch(t, []Cause{CPUThrottled}, w.Unmeasured(), "there is no quota")

	w = windowOf(func(_, after *Reading, _ *Samples) {
		grow(&after.Throttled, 2)
		after.ThrottlingUnseen = true
	})
	assert.Equal(t, number.Known(0.5), w.Load[CPUThrottled], "the quota that was seen throttled that much at least")
	assert.ElementsMatch(t, []Cause{CPUContended}, w.Unmeasured())
}

func TestGoroutinesThatWaitForAChildAreNotBlocked(t *testing.T) {
	blocked := func(notInGo float64, children number.Number) number.Number {
		return windowOf(func(_, after *Reading, sums *Samples) {
			sums.notInGo.sum = 4 * notInGo
			after.Children = children
		}).Load[BlockedThread]
	}
	assert.Equal(t, number.Known(0), blocked(20, number.Known(20)))
	assert.Equal(t, number.Known(40), blocked(40, number.Known(0)))
	assert.Equal(t, number.Known(0), blocked(7.65, number.Known(12)), "some were started at the end")
	assert.Equal(t, number.Known(20), blocked(20, number.Number{}), "nothing is known to take away")
}

func TestChildrenAreCountedWhereTheLoadCouldBeAVerdict(t *testing.T) {
	for _, test := range []struct {
		notInGo float64
		asks    bool
	}{{7.9, false}, {8, true}, {40, true}} {
		var s Series
		s.Begin(windowBegan, atRest())
		s.Add(&Sample{At: windowBegan, NotInGo: number.Known(test.notInGo)})
		assert.Equal(t, test.asks, s.AsksForChildren(), "%v not in Go", test.notInGo)
	}
	assert.False(t, new(Series).AsksForChildren())
}

// A window whose sampler was late has the next ones ask for the CPU time.
func TestWhatWasDoneWhileTheSamplerWasLate(t *testing.T) {
	var s Series
	at := windowBegan
	tick := func(lag time.Duration, runnable, cpu float64) {
		at = at.Add(100*time.Millisecond + lag)
		sample := &Sample{At: at, Lag: lag, Runnable: number.Known(runnable)}
		if s.AsksForCPU() {
			sample.CPU = number.Known(cpu)
		}
		s.Add(sample)
	}
	end := func() *Window { return s.End(at, atRest()) }
	s.Begin(at, atRest())
	assert.False(t, s.AsksForCPU(), "nothing was late yet")
	tick(220*time.Millisecond, 30, 0)
	w := end()
	assert.InDelta(t, 0.625, w.LagShare, 1e-9)
	assert.False(t, w.LateCPU.IsKnown(), "nobody asked")

	tick(0, 0, 10)
	tick(120*time.Millisecond, 20, 10.3)
	tick(20*time.Millisecond, 400, 10.35) // within the allowance
	tick(220*time.Millisecond, 35, 10.75)
	w = end()
	assert.InDelta(t, (0.3+0.4)/(0.12+0.22), w.LateCPU.Or(0), 1e-9)
	assert.InDelta(t, (20*0.1+35*0.2)/(0.1+0.2), w.LateRunnable.Or(0), 1e-9)

	tick(220*time.Millisecond, 30, 11.15) // the sample before is of another window
	assert.InDelta(t, 0.4/0.22, end().LateCPU.Or(0), 1e-9)
	for range 3 {
		assert.True(t, s.AsksForCPU())
		tick(0, 0, 12)
		w = end()
		assert.False(t, w.LateCPU.IsKnown(), "nothing was late")
	}
	assert.False(t, s.AsksForCPU())
}

func TestLockIsWhatWasCountedOrSeen(t *testing.T) {
	locked := func(counted float64, seen number.Number) number.Number {
		return windowOf(func(_, after *Reading, _ *Samples) {
			grow(&after.Locked, counted*windowLength.Seconds())
			after.MutexWaiters = seen
		}).Load[Lock]
	}
	assert.Equal(t, number.Known(3), locked(3, number.Number{}))
	assert.Equal(t, number.Known(11), locked(0, number.Known(11)), "held for longer than the window")
	assert.Equal(t, number.Known(3), locked(3, number.Known(1)))
}

func TestExpectedWaitsAreNoLoad(t *testing.T) {
	w := windowOf(func(_, after *Reading, sums *Samples) {
		*sums = Samples{}
		sums.Add(&Sample{Outbound: 20, ExpectedOutbound: 12, Pooled: 3, Requests: 50, ExpectedRequests: 30, Streams: 8})
		after.OutboundEnded += 10
		after.RequestsEnded += 24
	})
	assert.Equal(t, number.Known(5), w.Load[Downstream])
	assert.Equal(t, windowLength/2, w.OutboundWait)
	assert.Equal(t, 3.0, w.Pooled, "not the other server's, and no less a wait")
	assert.Equal(t, windowLength*3/10, w.PoolWait)
	assert.Equal(t, number.Known(3), w.Load[Wait])
	assert.Equal(t, 12.0, w.Owed)
	assert.Equal(t, windowLength/2, w.RequestWait)
}

func TestMeanWaitForAdmission(t *testing.T) {
	w := windowOf(func(_, after *Reading, sums *Samples) {
		sums.waiting = 4 * 10
		after.AdmissionEnded += 100
	})
	assert.Equal(t, 400*time.Millisecond, w.AdmissionWait)
	w = windowOf(func(_, _ *Reading, sums *Samples) { sums.waiting = 4 })
	assert.Equal(t, windowLength, w.AdmissionWait, "none has ended: the window at least")
}

func TestRequestsThatWaitAreAtMostThoseOwed(t *testing.T) {
	waiting := func(seen number.Number, owed int64) *Window {
		return windowOf(func(_, after *Reading, sums *Samples) {
			sums.served = 4 * owed
			after.RequestsWaiting = seen
		})
	}
	assert.Equal(t, number.Known(12), waiting(number.Known(12), 20).Load[Wait])
	assert.Equal(t, number.Known(9), waiting(number.Known(12), 9).Load[Wait])

	none := waiting(number.Number{}, 20)
	assert.True(t, none.AsksForWaits())
	assert.Equal(t, []Cause{Wait}, none.Unmeasured(), "what is owed could wait, and nobody looked")
	assert.Empty(t, waiting(number.Number{}, 7).Unmeasured(), "too few are owed")
}

func TestDelayEachTimeAThreadGetsAProcessor(t *testing.T) {
	w := windowOf(func(before, after *Reading, _ *Samples) {
		before.Timeslices, after.Timeslices = number.Known(1000), number.Known(5000)
		grow(&after.RunDelay, 2)
	})
	assert.Equal(t, number.Known(0.0005), w.DelayPerSlice)
	none := windowOf(func(before, after *Reading, _ *Samples) {
		before.Timeslices, after.Timeslices = number.Known(1000), number.Known(1000)
	})
	assert.False(t, none.DelayPerSlice.IsKnown(), "no thread ran")
}

func TestLongestSampleIsLeftOutOfTheQueueThatBurstsAreSeenIn(t *testing.T) {
	w := windowOf(func(_, _ *Reading, sums *Samples) {
		*sums = Samples{}
		for _, runnable := range []float64{0, 300, 0, 6} {
			sums.Add(&Sample{Runnable: number.Known(runnable)})
		}
	})
	assert.Equal(t, number.Known(2), w.MostlyRunnable)
	assert.Equal(t, number.Known(76.5), w.Load[CPUSaturated])
}

func TestNoCollectionBeginsBeforeTheHeapIsNearItsGoal(t *testing.T) {
	for _, test := range []struct {
		live, goal, objects float64
		may                 bool
	}{
		{100, 200, 169, false},
		{100, 200, 171, true},
		{100, 90, 100, true},                  // a memory limit is below what is live
		{100, math.MaxUint64, 1 << 40, false}, // the collector is off
	} {
		r := Reading{HeapLive: test.live, HeapGoal: test.goal, HeapObjects: test.objects}
		assert.Equal(t, test.may, r.mayBeCollecting(), "%+v", test)
	}
}

func TestWindowsFollowEachOther(t *testing.T) {
	var s Series
	reading, now := atRest(), windowBegan
	s.Begin(now, reading)
	assert.Equal(t, windowLength, s.Add(&Sample{At: now.Add(windowLength), Lag: time.Minute, Runnable: number.Known(50), NotInGo: number.Known(60)}))
	grow(&reading.CPU, 100)
	now = now.Add(windowLength)
	w := s.End(now, reading)
	assert.Equal(t, windowLength, w.Length)
	assert.Equal(t, now, w.At)
	assert.Equal(t, 50.0, w.MedianRunnable)
	assert.Equal(t, number.Known(25), w.CPU)

	assert.Equal(t, 2*windowLength, s.Add(&Sample{At: now.Add(2 * windowLength), Runnable: number.Known(1), NotInGo: number.Known(2)}))
	grow(&reading.CPU, 3)
	grow(&reading.RunDelay, 2)
	now = now.Add(2 * windowLength)
	w = s.End(now, reading)
	assert.Equal(t, 2*windowLength, w.Length, "of a starved sampler")
	assert.Equal(t, now, w.At)
	assert.Equal(t, number.Known(3/8.), w.CPU)
	assert.Equal(t, number.Known(2/8.), w.Load[CPUContended])
	assert.Equal(t, 1.0, w.MedianRunnable)
	assert.Equal(t, number.Known(1), w.Load[CPUSaturated], "the samples of the window before are forgotten")
	assert.Equal(t, number.Known(2), w.Load[BlockedThread])
	assert.Zero(t, w.WorstLag)
	assert.Zero(t, w.LagShare)
}

func TestWindowWithoutAFinishedCollectionGoesOnWithTheLoadBefore(t *testing.T) {
	var s Series
	reading, now := atRest(), windowBegan
	reading.HeapLive, reading.HeapGoal, reading.HeapObjects = 100, 200, 200
	s.Begin(now, reading)
	next := func(cpu, collector float64, collections int64) number.Number {
		now = now.Add(windowLength)
		grow(&reading.CPU, cpu*windowLength.Seconds())
		grow(&reading.Collector, collector*windowLength.Seconds())
		reading.Collections += collections
		return s.End(now, reading).Load[GC]
	}
	assert.Equal(t, number.Known(2), next(2, 2, 1))
	assert.Equal(t, number.Known(2), next(2, 0, 0))
	assert.Equal(t, number.Known(2), next(2, 0, 0), "it may take many windows")
	assert.Equal(t, number.Known(0), next(0, 0, 0), "the process is idle")
	assert.Equal(t, number.Known(0), next(2, 0, 0), "and what it does then is not collecting")

	next(2, 2, 1)
	s.Begin(now, reading)
	assert.Equal(t, number.Known(0), next(2, 0, 0), "another Start begins anew")

	next(2, 2, 1)
	reading.HeapObjects = 100
	assert.Equal(t, number.Known(0), next(2, 0, 0), "it computes, and no collection can be under way")
}

func TestSampleOfAnOpenWindowAllocatesNothing(t *testing.T) {
	s, sample := new(Series), &Sample{Runnable: number.Known(3)}
	assert.Zero(t, testing.AllocsPerRun(1000, func() { s.Add(sample) }))
}
