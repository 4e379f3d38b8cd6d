package observer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/kernel"
)

var errOfSource = errors.New("refused by the source")

// windowBegan is when the windows of these tests begin. They take 4 s.
var windowBegan = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const windowLength = 4 * time.Second

// atRest is a standing of a process with 2 processors, of which everything is
// known.
func atRest() standing {
	return standing{
		processors: 2, cpus: 2,
		cpu: known(100), runDelay: known(50), throttled: known(20),
		collector: known(30), stopped: known(1), locked: known(70),
		steal: known(1000), machine: known(100_000),
		throttledPeriods: 12, cycles: 40, limited: 3, outboundEnded: 500, written: time.Minute,
		descriptors: known(50), descriptorLimit: known(200),
		memory: memoryUse{heapLive: 1 << 20},
	}
}

// samplesAtRest are four samples that found nothing.
func samplesAtRest() *sampleSums {
	sums := new(sampleSums)
	for range 4 {
		sums.add(sample{queues: queues{runnable: known(0), notInGo: known(0)}})
	}
	return sums
}

// windowOf is the window in which change happened to a process at rest.
func windowOf(change func(before, after *standing, sums *sampleSums)) *window {
	before, after, sums := atRest(), atRest(), samplesAtRest()
	after.machine.value += 800
	change(&before, &after, sums)
	return newWindow(windowBegan, windowBegan.Add(windowLength), before, after, sums)
}

func TestNothingWaitsInAProcessAtRest(t *testing.T) {
	w := windowOf(func(_, _ *standing, _ *sampleSums) {})
	assert.Equal(t, map[Cause]float64{
		CauseCPUSaturated: 0, CauseCPUContended: 0, CauseCPUThrottled: 0, CauseGC: 0, CauseStopTheWorld: 0,
		CauseLock: 0, CauseBlockedThread: 0, CauseAdmission: 0, CauseDownstream: 0, CauseOutputWrite: 0,
		CauseDescriptors: 0.25, CauseMemory: 0,
	}, w.load)
	assert.Equal(t, windowBegan.Add(windowLength), w.at)
	assert.Equal(t, windowLength, w.length)
	assert.True(t, w.stealKnown)
	assert.False(t, w.gcLimited)
	assert.Zero(t, w.cpu)
	assert.Empty(t, holding(w))
}

func TestEachLoadIsWaitingTimePerSecond(t *testing.T) {
	for _, test := range []struct {
		cause  Cause
		change func(_, after *standing, sums *sampleSums)
		want   float64
	}{
		{CauseCPUSaturated, func(_, _ *standing, sums *sampleSums) { sums.runnable = 14 }, 3.5},
		{CauseCPUContended, func(_, after *standing, _ *sampleSums) { after.runDelay.value += 6 }, 1.5},
		{CauseCPUThrottled, func(_, after *standing, _ *sampleSums) { after.throttled.value += 2 }, 0.5},
		{CauseGC, func(_, after *standing, _ *sampleSums) { after.collector.value += 3 }, 0.75},
		{CauseStopTheWorld, func(_, after *standing, _ *sampleSums) { after.stopped.value += 1 }, 0.5}, // two processors stand still
		{CauseLock, func(_, after *standing, _ *sampleSums) { after.locked.value += 40 }, 10},
		{CauseBlockedThread, func(_, _ *standing, sums *sampleSums) { sums.notInGo = 34 }, 8.5},
		{CauseAdmission, func(_, _ *standing, sums *sampleSums) { sums.waiting = 6 }, 1.5},
		{CauseDownstream, func(_, _ *standing, sums *sampleSums) { sums.outbound = 36 }, 9},
		{CauseOutputWrite, func(_, after *standing, sums *sampleSums) { sums.writing = 4; after.written += 6 * time.Second }, 2.5},
		{CauseDescriptors, func(_, after *standing, _ *sampleSums) { after.descriptors.value = 190 }, 0.95},
		{CauseMemory, func(_, after *standing, _ *sampleSums) { after.memory = memoryUse{goUsed: 3 << 20, goLimit: 4 << 20} }, 0.75},
	} {
		t.Run(string(test.cause), func(t *testing.T) {
			want := windowOf(func(_, _ *standing, _ *sampleSums) {}).load
			w := windowOf(test.change)
			want[test.cause] = test.want
			if test.cause == CauseCPUThrottled {
				delete(want, CauseCPUContended) // see below
			}
			assert.Equal(t, want, w.load)
		})
	}
}

func TestWindowKeepsWhatTheEvidenceNeeds(t *testing.T) {
	w := windowOf(func(_, after *standing, sums *sampleSums) {
		after.processors, after.cpus = 4, 1.5
		after.cpu.value += 6
		after.throttledPeriods += 7
		after.limited = 41
		after.steal.value += 200
		sums.active = 10
		sums.add(sample{lag: 70 * time.Millisecond})
		sums.add(sample{lag: 20 * time.Millisecond})
		sums.add(sample{lag: 420 * time.Millisecond})
		sums.add(sample{lag: 5 * time.Millisecond})
	})
	assert.Equal(t, 4.0, w.processors)
	assert.Equal(t, 1.5, w.cpus)
	assert.Equal(t, 1.5, w.cpu)
	assert.EqualValues(t, 7, w.throttledPeriods)
	assert.True(t, w.gcLimited)
	assert.Equal(t, 0.25, w.steal)
	assert.Equal(t, 1.25, w.active)
	assert.Equal(t, 420*time.Millisecond, w.worstLag)
	assert.InDelta(t, 0.45/4, w.lagShare, 1e-9, "50 ms and 400 ms beyond what each sample may take")
	assert.EqualValues(t, 50, w.descriptors)
	assert.EqualValues(t, 200, w.descriptorLimit)
}

func TestUnmeasuredCauseHasNoLoad(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*standing) // of either end of the window, or of both
		want   []Cause
	}{
		{"run delay", func(s *standing) { s.runDelay.known = false }, []Cause{CauseCPUContended}},
		{"own CPU", func(s *standing) { s.cpu.known = false }, []Cause{CauseCPUContended}},
		{"throttling", func(s *standing) { s.throttled.known = false }, []Cause{CauseCPUThrottled}},
		{"collector", func(s *standing) { s.collector.known = false }, []Cause{CauseGC}},
		{"pauses", func(s *standing) { s.stopped.known = false }, []Cause{CauseStopTheWorld}},
		{"mutexes", func(s *standing) { s.locked.known = false }, []Cause{CauseLock}},
		{"steal", func(s *standing) { s.machine.known = false }, nil},
	} {
		// What is not known may have any value.
		unknown := func(s *standing) {
			test.change(s)
			for _, m := range []*maybe{&s.runDelay, &s.cpu, &s.throttled, &s.collector, &s.stopped, &s.locked, &s.machine} {
				if !m.known {
					m.value = 0
				}
			}
		}
		for end, change := range map[string]func(before, after *standing, _ *sampleSums){
			"before": func(before, _ *standing, _ *sampleSums) { unknown(before) },
			"after":  func(_, after *standing, _ *sampleSums) { unknown(after) },
			"both":   func(before, after *standing, _ *sampleSums) { unknown(before); unknown(after) },
		} {
			t.Run(test.name+" "+end, func(t *testing.T) {
				w := windowOf(change)
				assert.ElementsMatch(t, test.want, unmeasured(w))
				assert.Zero(t, w.cpu, "no CPU was used, or nothing is known of it")
				assert.Zero(t, w.steal)
				assert.Equal(t, test.name != "steal", w.stealKnown)
				assert.Empty(t, holding(w), "what is unmeasured blames nobody")
			})
		}
	}

	t.Run("samples", func(t *testing.T) {
		w := newWindow(windowBegan, windowBegan.Add(windowLength), atRest(), atRest(), func() *sampleSums {
			sums := new(sampleSums)
			sums.add(sample{})
			return sums
		}())
		assert.ElementsMatch(t, []Cause{CauseCPUSaturated, CauseBlockedThread}, unmeasured(w))
	})
	t.Run("descriptors", func(t *testing.T) {
		w := windowOf(func(_, after *standing, _ *sampleSums) { after.descriptors = maybe{} })
		assert.ElementsMatch(t, []Cause{CauseDescriptors}, unmeasured(w))
	})
	t.Run("descriptor limit", func(t *testing.T) {
		w := windowOf(func(_, after *standing, _ *sampleSums) { after.descriptorLimit = maybe{} })
		assert.ElementsMatch(t, []Cause{CauseDescriptors}, unmeasured(w))
	})
}

// unmeasured are the causes without a load.
func unmeasured(w *window) (missing []Cause) {
	for _, cause := range causes() {
		if _, measured := w.load[cause]; !measured {
			missing = append(missing, cause)
		}
	}
	return missing
}

func TestSamplesThatFailedDoNotDiluteTheMean(t *testing.T) {
	sums := new(sampleSums)
	sums.add(sample{queues: queues{runnable: known(6), notInGo: known(2)}})
	sums.add(sample{})
	sums.add(sample{queues: queues{runnable: known(8)}})
	w := newWindow(windowBegan, windowBegan.Add(windowLength), atRest(), atRest(), sums)
	assert.Equal(t, 7.0, w.load[CauseCPUSaturated])
	assert.Equal(t, 2.0, w.load[CauseBlockedThread])
}

func TestThrottlingMakesTheRunDelayUnreadable(t *testing.T) {
	for _, test := range []struct {
		throttled float64 // seconds in the window
		measured  bool
	}{{0, true}, {0.03, true}, {0.05, false}, {2, false}} {
		w := windowOf(func(_, after *standing, _ *sampleSums) {
			after.throttled.value += test.throttled
			after.runDelay.value += 4
		})
		load, measured := w.load[CauseCPUContended]
		assert.Equal(t, test.measured, measured, "throttled for %v s of 4", test.throttled)
		if measured {
			assert.Equal(t, 1.0, load)
		}
	}
}

func TestTotalThatFellCountsAsNothing(t *testing.T) {
	w := windowOf(func(_, after *standing, _ *sampleSums) {
		for _, m := range []*maybe{&after.cpu, &after.runDelay, &after.throttled, &after.collector, &after.stopped, &after.locked, &after.steal, &after.machine} {
			m.value /= 2
		}
		after.throttledPeriods, after.cycles, after.limited, after.outboundEnded, after.written = 0, 0, 0, 0, 0
	})
	for cause, load := range w.load {
		if cause != CauseDescriptors {
			assert.Zero(t, load, cause)
		}
	}
	assert.Zero(t, w.cpu)
	assert.Zero(t, w.throttledPeriods)
	assert.False(t, w.stealKnown, "a share of a time that went back")
	assert.Empty(t, unmeasured(w))
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
			w := windowOf(func(_, after *standing, sums *sampleSums) {
				sums.outbound = 4 * test.inFlight
				after.outboundEnded += test.ended
			})
			assert.Equal(t, test.want, w.outboundWait)
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
			w := &window{load: map[Cause]float64{CauseGC: test.load}, processors: 2, cpu: test.cpu}
			w.smoothGC(test.before, test.finished, !test.between)
			assert.Equal(t, test.want, w.load[CauseGC])
		})
	}
	t.Run("unmeasured stays so", func(t *testing.T) {
		w := &window{load: map[Cause]float64{}, processors: 2, cpu: 2}
		w.smoothGC(2, 0, true)
		assert.NotContains(t, w.load, CauseGC)
	})
}

func TestMemoryShareIsThatOfTheNearestLimit(t *testing.T) {
	for _, test := range []struct {
		name  string
		use   memoryUse
		share float64
		known bool
		text  string
	}{
		{"no limit", memoryUse{groupUsed: 5 << 20}, 0, true, "there is no memory limit"},
		{"GOMEMLIMIT", memoryUse{goUsed: 3 << 20, goLimit: 4 << 20}, 0.75, true, "3 MiB of a GOMEMLIMIT of 4 MiB are live or not heap"},
		{"the cgroup", memoryUse{groupUsed: 3 << 30, groupLimit: 2 << 30}, 1.5, true, "3 GiB of the cgroup's 2 GiB are in use"},
		{"both, GOMEMLIMIT nearer", memoryUse{goUsed: 3, goLimit: 4, groupUsed: 1, groupLimit: 4}, 0.75, true,
			"3 B of a GOMEMLIMIT of 4 B are live or not heap; 1 B of the cgroup's 4 B are in use"},
		{"both, the cgroup nearer", memoryUse{goUsed: 1, goLimit: 4, groupUsed: 2, groupLimit: 4}, 0.5, true,
			"1 B of a GOMEMLIMIT of 4 B are live or not heap; 2 B of the cgroup's 4 B are in use"},
		{"a cgroup that cannot be read", memoryUse{groupFailed: true}, 0, false, "there is no memory limit"},
		{"GOMEMLIMIT in a cgroup that cannot be read", memoryUse{goUsed: 1, goLimit: 4, groupFailed: true}, 0.25, true,
			"1 B of a GOMEMLIMIT of 4 B are live or not heap"},
	} {
		t.Run(test.name, func(t *testing.T) {
			share, shareKnown := test.use.share()
			assert.Equal(t, test.share, share)
			assert.Equal(t, test.known, shareKnown)
			assert.Equal(t, test.text, test.use.String())
			load, measured := windowOf(func(_, after *standing, _ *sampleSums) { after.memory = test.use }).load[CauseMemory]
			assert.Equal(t, test.known, measured)
			assert.Equal(t, test.share, load)
		})
	}
}

// strangeStandings are ends of windows that no reading should bring, and that
// must still come to sentences and JSON.
func strangeStandings() map[string]func(before, after *standing, sums *sampleSums) {
	return map[string]func(before, after *standing, sums *sampleSums){
		"no sample":    func(_, _ *standing, sums *sampleSums) { *sums = sampleSums{} },
		"nothing read": func(before, after *standing, _ *sampleSums) { unread(before); unread(after) },
		"nothing read, no sample": func(before, after *standing, sums *sampleSums) {
			unread(before)
			unread(after)
			*sums = sampleSums{}
		},
		"everything begins to be read": func(before, _ *standing, _ *sampleSums) { unread(before) },
		"everything ceases to be read": func(_, after *standing, _ *sampleSums) { unread(after) },
		"a descriptor limit of 0":      func(_, after *standing, _ *sampleSums) { after.descriptorLimit = known(0) },
		"no descriptor limit":          func(_, after *standing, _ *sampleSums) { after.descriptorLimit = known(math.MaxInt64) },
		"waiting without running":      func(_, after *standing, _ *sampleSums) { after.runDelay.value += 20 },
		"large numbers": func(_, after *standing, sums *sampleSums) {
			after.memory = memoryUse{heapLive: math.MaxInt64, goUsed: math.MaxInt64, goLimit: 1, groupUsed: math.MaxInt64, groupLimit: 1}
			after.collector.value, after.locked.value, after.stopped.value = 1e18, 1e18, 1e18
			sums.outbound, sums.waiting, sums.writing, sums.active = 1e9, 1e9, 1e9, 1e9
			sums.lagExcess, sums.worstLag = math.MaxInt64, math.MaxInt64
		},
	}
}

// unread makes a standing one of which no reading succeeded.
func unread(s *standing) {
	for _, m := range []*maybe{&s.cpu, &s.runDelay, &s.throttled, &s.collector, &s.stopped, &s.locked, &s.steal, &s.machine, &s.descriptors, &s.descriptorLimit} {
		*m = maybe{}
	}
	s.memory = memoryUse{groupFailed: true}
	s.processors, s.cpus = 1, 1
}

func TestNoLoadAndNoSentenceIsEverNotANumber(t *testing.T) {
	for name, change := range strangeStandings() {
		t.Run(name, func(t *testing.T) {
			w := windowOf(change)
			w.smoothGC(1, 0, true)
			for cause, load := range w.load {
				assert.False(t, math.IsNaN(load) || math.IsInf(load, 0) || load < 0, "%s is %v", cause, load)
			}
			for _, verdict := range append(causes(), CauseNone, CauseUnknown) {
				d := diagnosed{window: w, verdict: verdict, shown: w}
				text, err := json.Marshal(d.diagnosis(w.at, nil))
				require.NoError(t, err)
				for _, wrong := range []string{"NaN", "Inf", "%!", " -", "e+"} {
					assert.NotContains(t, string(text), wrong)
				}
			}
		})
	}
}

func TestSilentSourcesBlameNobody(t *testing.T) {
	for _, name := range []string{"nothing read", "nothing read, no sample", "everything begins to be read", "everything ceases to be read"} {
		assert.Empty(t, holding(windowOf(strangeStandings()[name])), name)
	}
}

// stubMachine is a machine of which a test decides what can be read.
type stubMachine struct {
	delay, throttling time.Duration
	periods           int64
	cpus              float64
	use               kernel.MemoryUse
	ticks             kernel.MachineTime
	limit             int64

	failed           error // of every reading
	throttlingFailed error
}

func (m *stubMachine) runDelay() (time.Duration, error) { return m.delay, m.failed }
func (m *stubMachine) throttled() (time.Duration, int64, error) {
	return m.throttling, m.periods, cmp.Or(m.failed, m.throttlingFailed)
}
func (m *stubMachine) memory() (kernel.MemoryUse, error) { return m.use, m.failed }
func (m *stubMachine) time() (kernel.MachineTime, error) { return m.ticks, m.failed }
func (m *stubMachine) descriptorLimit() (int64, error)   { return m.limit, m.failed }
func (m *stubMachine) cpuLimit() (float64, error) {
	if m.failed != nil {
		return math.Inf(1), m.failed
	}
	return m.cpus, nil
}

// stubProcess is a process of which a test decides what can be read.
type stubProcess struct {
	user, system float64
	descriptors  int64
	failed       error
}

func (*stubProcess) close()                               {}
func (p *stubProcess) cpuTime() (float64, float64, error) { return p.user, p.system, p.failed }
func (p *stubProcess) residentMemory() (int64, error)     { return 1 << 20, p.failed }
func (p *stubProcess) threads() (int64, error)            { return 7, p.failed }
func (p *stubProcess) openDescriptors() (int64, error)    { return p.descriptors, p.failed }

// stubbed are the loads over a machine and a process that a test decides on.
type stubbed struct {
	loads
	machine *stubMachine
	process *stubProcess
	lines   *lines
	now     time.Time
}

func newStubbed(t *testing.T) *stubbed {
	s := &stubbed{
		machine: &stubMachine{cpus: math.Inf(1), limit: 1000},
		process: new(stubProcess),
		lines:   new(lines),
		now:     windowBegan,
	}
	s.loads.every, s.loads.machine, s.loads.process = windowLength, s.machine, s.process
	s.loads.failed = (&failures{logger: slog.New(s.lines)}).report
	previous := driverTotals.windowOpened.Load()
	t.Cleanup(func() { driverTotals.windowOpened.Store(previous) })
	s.loads.begin(s.now)
	return s
}

// sample adds a sample after some time.
func (s *stubbed) sample(after time.Duration) *window {
	s.now = s.now.Add(after)
	return s.loads.add(sample{at: s.now, queues: queues{runnable: known(0), notInGo: known(0)}})
}

// lines keeps the log.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) Handle(_ context.Context, record slog.Record) error {
	text := record.Level.String() + " " + record.Message
	record.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, text)
	return nil
}

// with returns the lines that contain a word.
func (l *lines) with(word string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.text {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return found
}

func TestWindowsFollowEachOther(t *testing.T) {
	s := newStubbed(t)
	s.process.user, s.machine.delay = 100, time.Hour // before the second window
	assert.Nil(t, s.sample(windowLength-1))
	w := s.sample(1)
	require.NotNil(t, w)
	assert.Equal(t, windowLength, w.length)
	assert.Equal(t, windowBegan.Add(windowLength), w.at)

	s.process.user, s.process.system, s.machine.delay = 102, 1, time.Hour+2*time.Second
	assert.Nil(t, s.sample(windowLength-1))
	w = s.sample(windowLength + 1) // of a starved sampler
	require.NotNil(t, w)
	assert.Equal(t, 2*windowLength, w.length)
	assert.Equal(t, windowBegan.Add(3*windowLength), w.at)
	assert.Equal(t, 3/8., w.cpu)
	assert.Equal(t, 2/8., w.load[CauseCPUContended])
}

func TestSamplesOfTheWindowBeforeAreForgotten(t *testing.T) {
	s := newStubbed(t)
	s.now = s.now.Add(windowLength)
	w := s.loads.add(sample{at: s.now, lag: time.Minute, queues: queues{runnable: known(50), notInGo: known(60)}})
	require.NotNil(t, w)
	assert.Equal(t, 50.0, w.medianRunnable)
	s.now = s.now.Add(windowLength)
	w = s.loads.add(sample{at: s.now, queues: queues{runnable: known(1), notInGo: known(2)}})
	require.NotNil(t, w)
	assert.Equal(t, 1.0, w.medianRunnable)
	assert.Equal(t, 1.0, w.load[CauseCPUSaturated])
	assert.Equal(t, 2.0, w.load[CauseBlockedThread])
	assert.Zero(t, w.worstLag)
	assert.Zero(t, w.lagShare)
}

func TestWindowWithoutAFinishedCollectionGoesOnWithTheLoadBefore(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC() // ends a cycle that is under way, which would finish in the middle of this
	grown := make([]byte, 8<<20)
	defer runtime.KeepAlive(grown) // what is on the heap is more than that left alive
	s := newStubbed(t)
	collecting := true
	s.loads.runtime.fetch = func(samples []metrics.Sample) {
		metrics.Read(samples)
		if collecting { // which is so when the heap is full up to its goal
			samples[heapGoal] = samples[heapObjects]
		}
	}
	busy := float64(runtime.GOMAXPROCS(0))
	s.loads.before.collector.value -= busy * windowLength.Seconds() // as if it had done that since
	s.loads.before.cycles--
	assert.InDelta(t, busy, s.sample(windowLength).load[CauseGC], 1e-6)

	s.process.user += busy * windowLength.Seconds()
	assert.InDelta(t, busy, s.sample(windowLength).load[CauseGC], 1e-6)
	s.process.user += busy * windowLength.Seconds()
	assert.InDelta(t, busy, s.sample(windowLength).load[CauseGC], 1e-6, "it may take many windows")
	assert.Zero(t, s.sample(windowLength).load[CauseGC], "the process is idle")
	s.process.user += busy * windowLength.Seconds()
	assert.Zero(t, s.sample(windowLength).load[CauseGC], "and what it does then is not collecting")

	s.loads.before.collector.value -= busy * windowLength.Seconds()
	s.loads.before.cycles--
	s.sample(windowLength)
	s.loads.begin(s.now)
	s.process.user += busy * windowLength.Seconds()
	assert.Zero(t, s.sample(windowLength).load[CauseGC], "another Start begins anew")

	s.loads.before.collector.value -= busy * windowLength.Seconds()
	s.loads.before.cycles--
	s.sample(windowLength)
	collecting = false
	s.process.user += busy * windowLength.Seconds()
	assert.Zero(t, s.sample(windowLength).load[CauseGC], "it computes, and no collection can be under way")
}

func TestUsableCPUsAreTheSmallestOfWhatLimitsThem(t *testing.T) {
	s := newStubbed(t)
	w := s.sample(windowLength)
	assert.LessOrEqual(t, w.cpus, w.processors)
	assert.Positive(t, w.cpus)
	s.machine.cpus = 0.25
	w = s.sample(windowLength)
	assert.Equal(t, 0.25, w.cpus)
}

func TestFailingSourceIsLoggedOnceAndItsCauseIsUnmeasured(t *testing.T) {
	s := newStubbed(t)
	require.NotContains(t, unmeasured(s.sample(windowLength)), CauseCPUContended)
	s.machine.failed, s.process.failed = errOfSource, errOfSource
	for range 3 {
		w := s.sample(windowLength)
		assert.ElementsMatch(t, []Cause{CauseCPUContended, CauseCPUThrottled, CauseDescriptors, CauseMemory}, unmeasured(w))
		assert.False(t, w.stealKnown)
		assert.Positive(t, w.cpus)
	}
	for _, cause := range []string{"own CPU time", "cpu_contended", "cpu_throttled", "CPU limit", "steal", "memory", "descriptors", "descriptor limit"} {
		assert.Len(t, s.lines.with("cause="+cause+" error=refused by the source"), 1, cause)
	}
	assert.Len(t, s.lines.with(""), 8)

	s.machine.failed, s.process.failed = nil, nil
	s.machine.delay, s.process.user = time.Hour, 1e6 // in a window of which one end is not known
	assert.ElementsMatch(t, []Cause{CauseCPUContended, CauseCPUThrottled}, unmeasured(s.sample(windowLength)))
	assert.Empty(t, unmeasured(s.sample(windowLength)))
}

func TestLogHandlerMayTakeASampleItself(t *testing.T) {
	s := newStubbed(t)
	said := 0
	s.loads.failed = func(string, error) {
		if said++; said == 1 {
			s.loads.begin(s.now) // as a handler does that calls Start
		}
	}
	s.machine.failed = errOfSource
	s.sample(windowLength)
	assert.Positive(t, said)
}

func TestRunDelayIsUnreadableWhereThrottlingIs(t *testing.T) {
	w := windowOf(func(_, after *standing, _ *sampleSums) { after.throttled.known, after.throttlingFailed = false, true })
	assert.ElementsMatch(t, []Cause{CauseCPUThrottled, CauseCPUContended}, unmeasured(w))
	w = windowOf(func(_, after *standing, _ *sampleSums) { after.throttled.known = false })
	assert.ElementsMatch(t, []Cause{CauseCPUThrottled}, unmeasured(w), "there is no quota")

	s := newStubbed(t)
	s.machine.throttlingFailed = errOfSource
	assert.ElementsMatch(t, []Cause{CauseCPUThrottled, CauseCPUContended}, unmeasured(s.sample(windowLength)))
	s.machine.throttlingFailed = errors.ErrUnsupported
	assert.ElementsMatch(t, []Cause{CauseCPUThrottled}, unmeasured(s.sample(windowLength)))
}

func TestNoCollectionBeginsBeforeTheHeapIsNearItsGoal(t *testing.T) {
	assert.False(t, mayBeCollecting(100, 200, 169))
	assert.True(t, mayBeCollecting(100, 200, 171))
	assert.True(t, mayBeCollecting(100, 90, 100), "a memory limit is below what is live")
	assert.False(t, mayBeCollecting(100, math.MaxUint64, 1<<40), "the collector is off")
}

func TestUnsupportedSourceIsNotLoggedAndHasNoTotal(t *testing.T) {
	s := newStubbed(t)
	WithoutTotals(t)
	s.machine.failed, s.process.failed = fmt.Errorf("here: %w", errors.ErrUnsupported), errors.ErrUnsupported
	w := s.sample(windowLength)
	assert.ElementsMatch(t, []Cause{CauseCPUContended, CauseCPUThrottled, CauseDescriptors, CauseMemory}, unmeasured(w))
	assert.Empty(t, s.lines.with(""))
	for _, total := range []*ratchet{&lastRunDelay, &lastThrottled} {
		_, any := total.last()
		assert.False(t, any, "a zero would be invented")
	}
}

func TestRuntimeMetricThatThisGoDoesNotKnowIsUnmeasured(t *testing.T) {
	for index, cause := range map[int]Cause{
		gcAssistCPU: CauseGC, gcDedicatedCPU: CauseGC, gcPauseCPU: CauseGC,
		otherPauses: CauseStopTheWorld, mutexWait: CauseLock,
	} {
		t.Run(windowMetrics[index], func(t *testing.T) {
			replaceMetric(t, index)
			assert.Equal(t, []Cause{cause}, unmeasured(newStubbed(t).sample(windowLength)))
		})
	}
	t.Run("all", func(t *testing.T) {
		for index := range windowMetrics {
			replaceMetric(t, index)
		}
		w := newStubbed(t).sample(windowLength)
		assert.ElementsMatch(t, []Cause{CauseGC, CauseStopTheWorld, CauseLock}, unmeasured(w))
		assert.Equal(t, 1.0, w.processors)
		assert.Empty(t, holding(w))
	})
}

// replaceMetric asks for one that no Go has, until the test ends.
func replaceMetric(t *testing.T, index int) {
	name := windowMetrics[index]
	windowMetrics[index] = "/no/such:metric"
	t.Cleanup(func() { windowMetrics[index] = name })
}

func TestMemoryLimitOfTheRuntime(t *testing.T) {
	var r runtimeReader
	r.read()
	use := r.memoryUse()
	if os.Getenv("GOMEMLIMIT") == "" {
		assert.Zero(t, use.goLimit, "no limit is set")
		assert.Zero(t, use.goUsed)
	}

	const limit int64 = 1 << 40 // not one to collect for
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	r.read()
	before := r.memoryUse()
	assert.Equal(t, limit, before.goLimit)
	assert.Greater(t, before.goUsed, before.heapLive, "stacks and the runtime's own memory count")
	fresh := make([]byte, 64<<20)
	r.read()
	assert.Less(t, r.memoryUse().goUsed-before.goUsed, int64(len(fresh)/4), "what no collection has found alive does not count")
	runtime.GC()
	r.read()
	assert.Greater(t, r.memoryUse().goUsed, int64(len(fresh)))
	runtime.KeepAlive(fresh)
}

func TestOutputWritesThatHaveBegunAreCountedAtEachSample(t *testing.T) {
	s := newStubbed(t)
	ends := []func(int64){driverTotals.BeginOutputWrite(t.Context()), driverTotals.BeginOutputWrite(t.Context())}
	assert.Nil(t, s.sample(windowLength/4))
	assert.Nil(t, s.sample(windowLength/4))
	for _, end := range ends {
		end(1)
		end(1) // once more is not less
	}
	assert.Nil(t, s.sample(windowLength/4))
	assert.Equal(t, 1.0, s.sample(windowLength / 4).load[CauseOutputWrite], "two in half of the samples")
	assert.Zero(t, s.sample(windowLength).load[CauseOutputWrite])
}

func TestRecordedOutputWriteCountsAsFarAsItLiesInTheWindow(t *testing.T) {
	opened := func(ago time.Duration) *stubbed {
		s := newStubbed(t)
		s.now = time.Now().Add(-ago)
		driverTotals.openWindow(s.now.Add(-time.Hour)) // as a Start long ago left it
		s.loads.begin(s.now)
		return s
	}
	t.Run("short ones add up", func(t *testing.T) {
		s := opened(windowLength)
		for range 6 {
			driverTotals.RecordOutputWrite(t.Context(), time.Second, 1)
		}
		assert.InDelta(t, 6/4., s.sample(windowLength).load[CauseOutputWrite], 1e-9)
		assert.Zero(t, s.sample(windowLength).load[CauseOutputWrite], "they are over")
	})
	t.Run("one that began before the window", func(t *testing.T) {
		s := opened(time.Second)
		driverTotals.RecordOutputWrite(t.Context(), time.Hour, 1)
		load := s.sample(windowLength).load[CauseOutputWrite]
		assert.GreaterOrEqual(t, load, 1/4.)
		assert.Less(t, load, 2.) // a busy machine may take its time
	})
	t.Run("negative", func(t *testing.T) {
		s := opened(time.Second)
		driverTotals.RecordOutputWrite(t.Context(), -time.Hour, 1)
		driverTotals.RecordOutputWrite(t.Context(), time.Second, 1)
		assert.InDelta(t, 1/4., s.sample(windowLength).load[CauseOutputWrite], 1e-9)
	})
	t.Run("in the first moments of a window", func(t *testing.T) {
		// The coarse clock still shows the sample that opened the window.
		s := opened(windowLength / 2)
		coarseClock.nanos.Store(int64(s.now.Sub(clockBase)))
		defer coarseClock.nanos.Store(0)
		driverTotals.RecordOutputWrite(t.Context(), time.Second, 1)
		assert.InDelta(t, 1/4., s.sample(windowLength).load[CauseOutputWrite], 1e-9)
	})
	t.Run("begun with BeginOutputWrite", func(t *testing.T) {
		s := opened(windowLength)
		driverTotals.BeginOutputWrite(t.Context())(1)
		assert.Zero(t, s.sample(windowLength).load[CauseOutputWrite], "the samples have counted it")
	})
	t.Run("nil", func(t *testing.T) {
		s := opened(windowLength)
		var none *DriverMetrics
		none.RecordOutputWrite(t.Context(), time.Second, 1)
		none.BeginOutputWrite(t.Context())(1)
		assert.Zero(t, s.sample(windowLength).load[CauseOutputWrite])
	})
}

func TestWhatWaitsInThisProcessIsCountedAtEachSample(t *testing.T) {
	s := newStubbed(t)
	driverTotals.waiting.begin()
	end := requestTotals.BeginOutbound()
	driverTotals.active.Add(3)
	assert.Nil(t, s.sample(windowLength/2))
	driverTotals.waiting.end()
	end()
	driverTotals.active.Add(-3)
	w := s.sample(windowLength / 2)
	assert.Equal(t, 0.5, w.load[CauseAdmission])
	assert.Equal(t, 0.5, w.load[CauseDownstream])
	assert.Equal(t, 1.5, w.active)
	assert.Equal(t, windowLength/2, w.outboundWait, "one ended, and half of the samples saw it")
}

func TestKernelTotalsAreExportedAsTheyWereRead(t *testing.T) {
	WithoutTotals(t)
	s := newStubbed(t)
	s.machine.delay, s.machine.throttling = 7*time.Second, 3*time.Second
	s.sample(windowLength)
	delay, _ := lastRunDelay.last()
	throttled, _ := lastThrottled.last()
	assert.Equal(t, 7.0, delay)
	assert.Equal(t, 3.0, throttled)

	s.machine.failed = errOfSource
	s.sample(windowLength)
	delay, _ = lastRunDelay.last()
	assert.Equal(t, 7.0, delay, "the last value stays")
}

// sampling is a process with one loop, of which nothing runs by itself.
func sampling(t testing.TB, every time.Duration) (*process, *loop) {
	p := &process{failures: &failures{logger: slog.New(new(lines))}}
	p.loops.Store(new([]*loop))
	p.loads = loads{every: every, process: newProcessSource(), machine: thisMachine, failed: p.failures.report}
	l := newLoop(p, "test", Settings{SampleInterval: 100 * time.Millisecond})
	p.addLoop(l)
	p.beginWindow(l)
	t.Cleanup(func() { coarseClock.nanos.Store(0) })
	return p, l
}

func TestSampleOfAnOpenWindowAllocatesNothing(t *testing.T) {
	p, l := sampling(t, time.Hour)
	now := time.Now()
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		p.addToWindow(l, sample{at: now, queues: l.readQueues()})
	}))
}

// The queues are read for the histogram, too: what the diagnosis adds is the rest.
func BenchmarkSample(b *testing.B) {
	p, l := sampling(b, time.Hour)
	queues := l.readQueues()
	now := time.Now()
	b.Run("queues", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			queues = l.readQueues()
		}
	})
	b.Run("window", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.addToWindow(l, sample{at: now, queues: queues})
		}
	})
}

// A window of a process with 64 threads and more.
func BenchmarkWindow(b *testing.B) {
	leave := make(chan struct{})
	var threads sync.WaitGroup
	for range 64 {
		threads.Go(func() {
			runtime.LockOSThread()
			<-leave
		})
	}
	defer threads.Wait()
	defer close(leave)
	p, l := sampling(b, 1) // each sample completes one
	b.ReportAllocs()
	for b.Loop() {
		p.addToWindow(l, sample{at: time.Now(), queues: l.readQueues()})
	}
	require.NotNil(b, p.diagnosed.Load())
}
