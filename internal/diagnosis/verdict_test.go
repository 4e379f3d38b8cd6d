package diagnosis

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/number"
)

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
	assert.Contains(t, outcome.Sentence(""), "woke up to 10s late")
}

func TestSentenceKeepsTheNumbersOfTheWindowInWhichTheVerdictHeld(t *testing.T) {
	var j Judge
	at := func(load float64) *Outcome { return j.Next(loaded(map[Cause]float64{Lock: load}), time.Minute) }
	at(10)
	assert.Contains(t, at(20).Sentence(""), "lock: 20.0 goroutines waited for a mutex. ")
	still := at(0)
	assert.Equal(t, Lock, still.Verdict)
	assert.Contains(t, still.Sentence(""), "lock: 20.0 goroutines")
	assert.Equal(t, "none: nothing waits beyond its normal bounds", at(0).Sentence(""))
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
	assert.Equal(t, []Cause{CPUSaturated, Lock, GC, CPUThrottled, StopTheWorld, CPUContended, Downstream, Admission, BlockedThread, Wait, Descriptors, Memory}, order)
	assert.Equal(t, []Cause{OutputWrite}, w.Unmeasured())
}

func TestSentenceNamesAllThatHolds(t *testing.T) {
	var j Judge
	w := loaded(map[Cause]float64{OutputWrite: 1, Lock: 11.2, Descriptors: 0.95}, downstream)
	j.Next(w, time.Minute)
	outcome := j.Next(w, time.Minute)
	assert.Equal(t, OutputWrite, outcome.Verdict)
	assert.Equal(t, []Cause{Lock, Descriptors, Downstream}, outcome.Also.List())
	assert.Equal(t, "output_write: 1.0 output writes were under way. Look at the disk or the store, write in larger pieces, or write beside the rollouts instead of in them; "+
		"also: lock 11.2, descriptors 95 %, downstream 8.0", outcome.Sentence(""))
	assert.Contains(t, outcome.Sentence("94 % at store.(*Cache).Put (store/cache.go:42)"),
		"output_write: 1.0 output writes were under way; 94 % at store.(*Cache).Put (store/cache.go:42). Look at")

	gone := j.Next(quietWindow(), time.Minute)
	assert.Equal(t, OutputWrite, gone.Verdict)
	assert.Equal(t, outcome.Also, gone.Also, "of the window that the sentence is about")
	assert.Empty(t, j.Next(quietWindow(), time.Minute).Also, "with none there is nothing beside")
}

func TestLevelOfAVerdict(t *testing.T) {
	for cause := range Cause(NumCauses) {
		want := slog.LevelWarn
		if cause == None || cause == Downstream || cause == Admission {
			want = slog.LevelInfo
		}
		assert.Equal(t, want, cause.Level(), cause)
		outcome := Outcome{Window: quietWindow(), Verdict: cause, shown: quietWindow()}
		assert.Equal(t, want, outcome.Level(), cause)
	}
	w := loaded(nil, waiting, func(w *Window) { w.WaitsOutside = true })
	assert.Equal(t, slog.LevelInfo, (&Outcome{Window: w, Verdict: Wait, shown: w}).Level(), "a database's doing")
	assert.Equal(t, slog.LevelWarn, (&Outcome{Window: w, Verdict: Lock, shown: w}).Level())
}
