package observer_test

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
)

// ofCause is the attribute of one cause's points.
func ofCause(cause observer.Cause) attribute.KeyValue {
	return attribute.String("nemo.gym.cause", string(cause))
}

const window = 10 * time.Second

// published observes the process for a test that publishes the windows itself,
// in a bubble.
func published(t *testing.T, options ...observer.Option) *observed {
	o := start(t, "test", options...)
	synctest.Wait() // the sampler has opened its first window, and sleeps for an hour
	return o
}

// publish completes n windows with a load of one cause, or with none.
func publish(n int, cause observer.Cause, load float64) {
	for range n {
		loads := map[observer.Cause]float64{observer.CauseLock: 0}
		if cause != observer.CauseNone {
			loads[cause] = load
		}
		observer.PublishWindow(window, loads)
	}
}

func TestDiagnosisIsZeroWhileNothingObserves(t *testing.T) {
	assert.Zero(t, observer.Diagnose())
	synctest.Test(t, func(t *testing.T) {
		o := published(t)
		publish(2, observer.CauseGC, 2)
		assert.NotZero(t, observer.Diagnose().Verdict)
		o.Stop()
		assert.Zero(t, observer.Diagnose())
	})
}

func TestDiagnosisHasOnlyASummaryUntilTheFirstWindowIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start(t, "test", observer.WithWindow(window), observer.WithSampleInterval(time.Second))
		first := observer.Diagnose()
		assert.Equal(t, observer.Diagnosis{Summary: "the first window is not complete yet"}, first)
		time.Sleep(window - time.Second)
		assert.Equal(t, first, observer.Diagnose())
		time.Sleep(3 * time.Second) // a sample may come 1.2 s late
		assert.NotEmpty(t, observer.Diagnose().Findings)
	})
}

func TestDiagnosisOfAnAcquireAloneSaysWhatItNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		process, err := observer.Acquire(t.Context(), observer.WithMeterProvider(providerOf(sdkmetric.NewManualReader())))
		require.NoError(t, err)
		defer process.Release()
		alone := observer.Diagnosis{Summary: "nothing samples this process: the diagnosis needs an observer.Start"}
		assert.Equal(t, alone, observer.Diagnose())

		o := start(t, "test")
		synctest.Wait()
		publish(2, observer.CauseGC, 2)
		assert.Equal(t, observer.CauseGC, observer.Diagnose().Verdict)
		o.Stop()
		assert.Equal(t, alone, observer.Diagnose(), "what was measured is not what is")

		again := start(t, "test")
		synctest.Wait()
		assert.Equal(t, "the first window is not complete yet", observer.Diagnose().Summary)
		publish(1, observer.CauseGC, 2)
		assert.Equal(t, observer.CauseNone, observer.Diagnose().Verdict, "the verdict began anew")
		again.Stop()
	})
}

func TestSamplesCompleteWindows(t *testing.T) {
	observer.WithMachine(t, fstest.MapFS{}, t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		start(t, "test", observer.WithWindow(time.Second), observer.WithSampleInterval(100*time.Millisecond))
		time.Sleep(10 * time.Second)
		d := observer.Diagnose()
		assert.InDelta(t, 1.06, d.Window.Seconds(), 0.06, "a second, and what is left of an interval")
		assert.WithinRange(t, d.At, time.Now().Add(-d.Window-120*time.Millisecond), time.Now())
		assert.Equal(t, observer.CauseNone, d.Verdict)
		assert.Equal(t, "none: nothing waits beyond its normal bounds", d.Summary)
		assert.Equal(t, []observer.Cause{observer.CauseCPUThrottled, observer.CauseCPUContended, observer.CauseMemory}, d.Unmeasured[:3])
		assert.Empty(t, d.Oldest)
	})
}

// What is injected is twice what its rule asks for: then a window counts where
// that lasted for half of it at least. Fake time will do, since the process
// counts these waits itself.
func TestVerdictFollowsWhatIsDone(t *testing.T) {
	observer.WithMachine(t, fstest.MapFS{}, t.TempDir())
	for _, test := range []struct {
		cause observer.Cause
		level string
		begin func() (end func())
	}{
		{observer.CauseOutputWrite, "WARN", func() func() {
			one, other := observer.Driver().BeginOutputWrite(context.Background()), observer.Driver().BeginOutputWrite(context.Background())
			return func() { one(1); other(1) }
		}},
		{observer.CauseDownstream, "INFO", func() func() {
			var ends []func()
			for range 16 {
				ends = append(ends, observer.Requests().BeginOutbound())
			}
			return func() {
				for _, end := range ends {
					end()
				}
			}
		}},
		{observer.CauseAdmission, "INFO", func() func() {
			admission := observer.NewMeteredAdmission(nil)
			admission = observer.NewMeteredAdmission(blockedLimit{admission})
			ctx, cancel := context.WithCancel(context.Background())
			var waiting sync.WaitGroup
			for range 2 {
				waiting.Go(func() { assert.Error(t, admission.Acquire(ctx, 1)) })
			}
			return func() { cancel(); waiting.Wait() }
		}},
	} {
		t.Run(string(test.cause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := start(t, "test", observer.WithWindow(time.Second), observer.WithSampleInterval(100*time.Millisecond))
				slow := func() float64 {
					seconds, _ := o.collect(t).value("gym.slow_time", ofCause(test.cause))
					return seconds
				}
				before := slow()
				time.Sleep(3300 * time.Millisecond)
				assert.Equal(t, observer.CauseNone, observer.Diagnose().Verdict)

				const injected = 7700 * time.Millisecond
				end := test.begin()
				time.Sleep(injected)
				d := observer.Diagnose()
				assert.Equal(t, test.cause, d.Verdict)
				assert.True(t, strings.HasPrefix(d.Summary, string(test.cause)+": "), d.Summary)
				end()
				time.Sleep(4 * time.Second)
				assert.Equal(t, observer.CauseNone, observer.Diagnose().Verdict)

				assert.InDelta(t, injected.Seconds(), slow()-before, 1.12, "to within one window")
				assert.Len(t, o.log.Of(test.level, "verdict="+string(test.cause), "summary="+string(test.cause)+": "), 1)
				assert.Len(t, o.log.Of("INFO", "verdict=none"), 1)
				assert.Len(t, o.log.Of("verdict"), 2)
			})
		})
	}
}

// blockedLimit admits nobody.
type blockedLimit struct{ observer.Limiter }

func (blockedLimit) Acquire(ctx context.Context, _ int64) error { <-ctx.Done(); return ctx.Err() }

func TestVerdictsLineHasItsLevelAndComesOnce(t *testing.T) {
	causes := map[observer.Cause]float64{
		observer.CauseCPUThrottled: 1, observer.CauseStopTheWorld: 2, observer.CauseGC: 2, observer.CauseLock: 20, observer.CauseOutputWrite: 5,
		observer.CauseDownstream: 50, observer.CauseAdmission: 5, observer.CauseBlockedThread: 20, observer.CauseDescriptors: 1, observer.CauseMemory: 1,
	}
	for cause, load := range causes {
		level := "WARN"
		if cause == observer.CauseDownstream || cause == observer.CauseAdmission {
			level = "INFO"
		}
		t.Run(string(cause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := published(t)
				publish(1, cause, load)
				assert.Empty(t, o.log.Of("verdict"), "one window is not enough")
				assert.Equal(t, observer.CauseNone, observer.Diagnose().Verdict)
				publish(4, cause, load)
				assert.Len(t, o.log.Of(level, "verdict="+string(cause), "summary="+observer.Diagnose().Summary), 1)
				publish(4, observer.CauseNone, 0)
				assert.Len(t, o.log.Of("INFO", "verdict=none", "summary=none: "), 1)
				assert.Len(t, o.log.Of("verdict"), 2, "nothing else is said")
			})
		})
	}
	t.Run("unknown", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := published(t)
			observer.PublishLag(window, 1500*time.Millisecond)
			observer.PublishLag(window, 1500*time.Millisecond)
			assert.Len(t, o.log.Of("WARN", "verdict=unknown", "summary=unknown: goroutines woke up to 1.5s late"), 1)
			assert.Equal(t, observer.CauseUnknown, observer.Diagnose().Verdict)
			assert.Len(t, observer.Diagnose().Unmeasured, 12)
			assert.Empty(t, observer.Diagnose().Findings)
		})
	})
}

func TestStallAsLongAsAWindowNeedsNoSecondOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := published(t)
		slow := func() float64 {
			seconds, _ := o.collect(t).value("gym.slow_time", ofCause(observer.CauseUnknown))
			return seconds
		}
		before := slow()
		publish(2, observer.CauseNone, 0)
		observer.PublishLag(3*window, window-1)
		publish(2, observer.CauseNone, 0)
		assert.Empty(t, o.log.Of("verdict"), "a shorter one does")

		observer.PublishLag(3*window, 2*window) // the process was stopped, and the window closed late
		assert.Equal(t, observer.CauseUnknown, observer.Diagnose().Verdict)
		assert.Contains(t, observer.Diagnose().Summary, "woke up to 20s late")
		publish(2, observer.CauseNone, 0)
		assert.Equal(t, observer.CauseNone, observer.Diagnose().Verdict)
		assert.Equal(t, 4*window.Seconds(), slow()-before)
		assert.Len(t, o.log.Of("verdict"), 2)
	})
}

func TestSummaryKeepsTheNumbersOfTheWindowInWhichTheVerdictHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		published(t)
		publish(1, observer.CauseLock, 10)
		publish(1, observer.CauseLock, 20)
		publish(1, observer.CauseNone, 0)
		d := observer.Diagnose()
		assert.Equal(t, observer.CauseLock, d.Verdict)
		assert.Contains(t, d.Summary, "lock: 20.0 goroutines waited for a mutex. ")
		assert.Equal(t, "0.0 goroutines waited for a mutex", d.Findings[0].Evidence, "of the last window")
		publish(1, observer.CauseLock, 30)
		assert.Contains(t, observer.Diagnose().Summary, "lock: 30.0 goroutines")
	})
}

func TestDiagnosisSaysWhenItIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		published(t)
		publish(2, observer.CauseGC, 2)
		fresh := observer.Diagnose().Summary
		time.Sleep(2 * window)
		assert.Equal(t, fresh, observer.Diagnose().Summary)
		time.Sleep(time.Second)
		assert.Equal(t, "as of 21s ago: "+fresh, observer.Diagnose().Summary)
		publish(1, observer.CauseGC, 2)
		assert.Equal(t, fresh, observer.Diagnose().Summary)
	})
}

func TestFindingsAreOrderedByLoadAndSharesComeLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		published(t)
		observer.PublishWindow(window, map[observer.Cause]float64{
			observer.CauseMemory: 1.5, observer.CauseDescriptors: 0.01, observer.CauseLock: 0.5, observer.CauseGC: 0.25,
			observer.CauseCPUSaturated: 130, observer.CauseStopTheWorld: 0, observer.CauseAdmission: 0,
		})
		d := observer.Diagnose()
		var order []observer.Cause
		for _, finding := range d.Findings {
			order = append(order, finding.Cause)
			assert.NotEmpty(t, finding.Evidence)
			assert.NotEmpty(t, finding.Advice)
		}
		assert.Equal(t, []observer.Cause{"cpu_saturated", "lock", "gc", "stop_the_world", "admission", "descriptors", "memory"}, order)
		assert.Equal(t, 130.0, d.Findings[0].Load)
		assert.Equal(t, []observer.Cause{"cpu_throttled", "cpu_contended", "output_write", "downstream", "blocked_thread"}, d.Unmeasured)
	})
}

// rollouts begins n rollouts in the order of their age, a second apart, and ends
// them when end is called.
func rollouts(n int) (end func()) {
	var group sync.WaitGroup
	ended := make(chan struct{})
	for range n {
		group.Go(func() {
			observer.Driver().CountResident(func() error { <-ended; return nil })
		})
		time.Sleep(time.Second)
	}
	return func() {
		close(ended)
		group.Wait()
	}
}

func TestOldestWorkIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		published(t)
		publish(1, observer.CauseNone, 0)
		assert.Empty(t, observer.Diagnose().Oldest)
		end := rollouts(3)
		assert.Equal(t, []observer.Work{
			{Kind: "rollout", Age: 3 * time.Second}, {Kind: "rollout", Age: 2 * time.Second}, {Kind: "rollout", Age: time.Second},
		}, observer.Diagnose().Oldest)
		more := rollouts(12)
		d := observer.Diagnose()
		require.Len(t, d.Oldest, 10)
		for i, work := range d.Oldest {
			assert.Equal(t, observer.Work{Kind: "rollout", Age: time.Duration(15-i) * time.Second}, work)
		}
		end()
		assert.Equal(t, 12*time.Second, observer.Diagnose().Oldest[0].Age)
		more()
		assert.Empty(t, observer.Diagnose().Oldest)
		assert.Zero(t, observer.WorkListed())
	})
}

func TestRolloutThatPanicsOrExitsIsListedNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		published(t)
		driver := observer.Driver()
		assert.PanicsWithValue(t, "thrown", func() { _ = driver.CountResident(func() error { panic("thrown") }) })
		assert.ErrorIs(t, driver.CountResident(func() error { return errOfTest }), errOfTest)
		go driver.CountResident(func() error {
			assert.Equal(t, 1, observer.WorkListed())
			runtime.Goexit()
			return nil
		})
		synctest.Wait()
		assert.Zero(t, observer.WorkListed())
	})
}

func TestSentenceOfNoneNamesOldWork(t *testing.T) {
	for _, length := range []time.Duration{window, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			published(t)
			end := rollouts(1)
			time.Sleep(28 * time.Second)
			observer.PublishWindow(length, nil)
			assert.Equal(t, "none: nothing waits beyond its normal bounds", observer.Diagnose().Summary)
			time.Sleep(time.Second)
			assert.Equal(t, "none: nothing waits beyond its normal bounds; the oldest work in flight is a rollout, for 30s", observer.Diagnose().Summary)
			end()
			assert.Equal(t, "none: nothing waits beyond its normal bounds", observer.Diagnose().Summary)
		})
	}
}

func TestDiagnosisAsJSON(t *testing.T) {
	d := observer.Diagnosis{
		At:      time.Date(2026, 3, 4, 14, 3, 5, 250e6, time.FixedZone("", 3600)),
		Window:  10250 * time.Millisecond,
		Verdict: observer.CauseGC,
		Summary: "gc: the collector",
		Findings: []observer.Finding{
			{Cause: observer.CauseGC, Load: 1.125, Evidence: "it used", Advice: "allocate"},
		},
		Unmeasured: []observer.Cause{observer.CauseCPUContended},
		Oldest:     []observer.Work{{Kind: "request", Name: "/rollouts/{id}", Age: 1500 * time.Millisecond}, {Kind: "rollout", Age: time.Minute}},
		Also:       []observer.Cause{observer.CauseLock},
		Sites:      []observer.Site{{Kind: "alloc", Function: "main.decode", Location: "handlers.go:88", In: "encoding/json.Unmarshal", Caller: "main.go:7", Load: 1, Share: 0.75}},
		Peers:      []observer.Peer{{Host: "model:8000", Waiting: 2.5, Wait: 250 * time.Millisecond, InFlight: 3}},
	}
	const want = `{
		"at": "2026-03-04T14:03:05.25+01:00", "window_seconds": 10.25, "verdict": "gc", "summary": "gc: the collector",
		"findings": [{"cause": "gc", "load": 1.125, "evidence": "it used", "advice": "allocate"}],
		"unmeasured": ["cpu_contended"],
		"oldest": [{"kind": "request", "name": "/rollouts/{id}", "age_seconds": 1.5}, {"kind": "rollout", "name": "", "age_seconds": 60}],
		"also": ["lock"],
		"sites": [{"kind": "alloc", "function": "main.decode", "location": "handlers.go:88", "in": "encoding/json.Unmarshal", "caller": "main.go:7", "load": 1, "share": 0.75}],
		"peers": [{"host": "model:8000", "waiting": 2.5, "wait_seconds": 0.25, "in_flight": 3}]
	}`
	for _, value := range []any{d, &d} {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(text))
	}

	text, err := json.Marshal(observer.Diagnosis{})
	require.NoError(t, err)
	assert.JSONEq(t, `{"at": "0001-01-01T00:00:00Z", "window_seconds": 0, "verdict": "", "summary": "", "findings": [], "unmeasured": [], "oldest": [], "also": [], "sites": [], "peers": []}`, string(text))
}

func TestDiagnoseFromManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := start(t, "test", observer.WithWindow(time.Second), observer.WithSampleInterval(100*time.Millisecond))
		var readers sync.WaitGroup
		for range 8 {
			readers.Go(func() {
				for range 100 {
					_, err := json.Marshal(observer.Diagnose())
					assert.NoError(t, err)
					time.Sleep(70 * time.Millisecond)
				}
			})
		}
		readers.Go(func() {
			for range 10 {
				assert.NotNil(t, o.collect(t))
				time.Sleep(700 * time.Millisecond)
			}
		})
		readers.Go(func() {
			for range 10 {
				rollouts(1)()
			}
		})
		time.Sleep(4 * time.Second)
		other := start(t, "other", observer.WithSampleInterval(100*time.Millisecond))
		o.Stop() // the other takes over
		readers.Wait()
		other.Stop()
	})
}

func TestWindowsGoOnWhenTheOldestLoopStops(t *testing.T) {
	observer.WithMachine(t, fstest.MapFS{}, t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		options := []observer.Option{observer.WithWindow(window), observer.WithSampleInterval(time.Second)}
		first := start(t, "first", options...)
		other := start(t, "other", options...)
		end := observer.Driver().BeginOutputWrite(t.Context())
		time.Sleep(25 * time.Second)
		assert.Equal(t, observer.CauseOutputWrite, observer.Diagnose().Verdict)
		at := observer.Diagnose().At
		first.Stop()
		assert.Equal(t, observer.CauseOutputWrite, observer.Diagnose().Verdict, "it has not begun anew")
		time.Sleep(9 * time.Second)
		d := observer.Diagnose()
		assert.Equal(t, at.Add(d.Window), d.At, "no time is lost between the windows")
		end(1)
		time.Sleep(25 * time.Second)
		assert.Equal(t, observer.CauseNone, observer.Diagnose().Verdict)
		assert.Len(t, first.log.Of("verdict="), 2)
		other.Stop()
	})
}

func TestWindowOutOfRangeIsTheDefault(t *testing.T) {
	for _, length := range []time.Duration{0, -time.Second, time.Second - 1, time.Hour + 1} {
		synctest.Test(t, func(t *testing.T) {
			o := start(t, "test", observer.WithWindow(length), observer.WithSampleInterval(time.Second))
			assert.Len(t, o.log.Of("WARN", "window", "given="+length.String(), "default=10s"), 1)
			time.Sleep(12 * time.Second)
			assert.InDelta(t, 10.6, observer.Diagnose().Window.Seconds(), 0.6)
		})
	}
}

func TestCausesHaveTheirNames(t *testing.T) {
	names := []observer.Cause{
		observer.CauseNone, observer.CauseUnknown, observer.CauseCPUThrottled, observer.CauseStopTheWorld, observer.CauseGC,
		observer.CauseCPUContended, observer.CauseCPUSaturated, observer.CauseLock, observer.CauseOutputWrite, observer.CauseDownstream,
		observer.CauseAdmission, observer.CauseBlockedThread, observer.CauseDescriptors, observer.CauseMemory,
	}
	assert.Equal(t, []observer.Cause{
		"none", "unknown", "cpu_throttled", "stop_the_world", "gc", "cpu_contended", "cpu_saturated", "lock", "output_write", "downstream",
		"admission", "blocked_thread", "descriptors", "memory",
	}, names)
}
