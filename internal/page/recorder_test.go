package page

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/number"
)

func newRecorder() *Recorder {
	return NewRecorder([]time.Duration{time.Millisecond, time.Second})
}

func at(now time.Time, after time.Duration) *diagnosis.Sample {
	return &diagnosis.Sample{At: now.Add(after)}
}

// recorded returns the seconds of a history that was given samples at the given
// times.
func recorded(samples ...time.Duration) []Second {
	r, now := newRecorder(), time.Now()
	r.Begin(at(now, 0))
	for _, after := range samples {
		r.Add(at(now, after), 100*time.Millisecond)
	}
	return secondsOf(r.History, now.Add(time.Minute))
}

func TestRecorderAndHistoryAreUnderOneMebibyte(t *testing.T) {
	assert.Less(t, unsafe.Sizeof(Recorder{})+unsafe.Sizeof(History{}), uintptr(1<<20))
}

func TestASecondEndsWithTheFirstSampleAfterIt(t *testing.T) {
	all := recorded(400*time.Millisecond, 900*time.Millisecond, 1100*time.Millisecond, 1500*time.Millisecond, 2200*time.Millisecond, 3*time.Second)
	require.Equal(t, 2, len(all))
	assert.Equal(t, []time.Duration{1100 * time.Millisecond, 1100 * time.Millisecond}, []time.Duration{all[0].Length, all[1].Length})
	assert.Equal(t, []int64{3, 2}, []int64{all[0].Samples, all[1].Samples})
	assert.False(t, all[0].Gap || all[1].Gap)
}

func TestAHeldUpSamplerLeavesAGap(t *testing.T) {
	all := recorded(time.Second, 1300*time.Millisecond, 40*time.Second, 41*time.Second)
	require.Equal(t, 3, len(all))
	assert.Equal(t, []bool{false, true, false}, []bool{all[0].Gap, all[1].Gap, all[2].Gap})
	assert.Equal(t, 39*time.Second, all[1].Length)
}

// A sampler that is meant to be slow has no gaps.
func TestASlowSamplerHasNoGaps(t *testing.T) {
	r, now := newRecorder(), time.Now()
	r.Begin(at(now, 0))
	r.Add(at(now, 30*time.Second), 27*time.Second)
	all := secondsOf(r.History, now.Add(time.Minute))
	require.Equal(t, 1, len(all))
	assert.False(t, all[0].Gap)
	assert.Equal(t, 30*time.Second, all[0].Length)
}

func TestAnEdgeIsTheGreatestLagOfItsBucket(t *testing.T) {
	r, now := newRecorder(), time.Now()
	r.Begin(at(now, 0))
	for i, lag := range []time.Duration{0, time.Millisecond, time.Millisecond + 1, time.Second, time.Hour} {
		s := at(now, time.Duration(i+1)*200*time.Millisecond)
		s.Lag = lag
		r.Add(s, time.Second)
	}
	all := secondsOf(r.History, now.Add(time.Minute))
	require.Equal(t, 1, len(all))
	assert.Equal(t, [LagBuckets]int64{2, 2, 1}, all[0].Lag)
	assert.Equal(t, time.Hour, all[0].LongestLag)
}

func TestASecondHasTheGrowthOfTotalsAndTheMeanOfLevels(t *testing.T) {
	r, now := newRecorder(), time.Now()
	first := diagnosis.Sample{At: now, Responses: [diagnosis.ResponseClasses]int64{1, 2, 3, 4, 5, 6}, Offered: 10, Admissions: 20, Waited: time.Minute, Driving: true}
	r.Begin(&first)
	middle, second := first, first
	middle.At, second.At = now.Add(time.Second/2), now.Add(time.Second)
	middle.Requests, middle.Outbound, middle.Resident, middle.Active, middle.Waiting = 2, 4, 6, 8, 10
	middle.Pauses = diagnosis.Pauses{Count: 2, Sum: 5 * time.Millisecond, Longest: 3 * time.Millisecond}
	second.Pauses = diagnosis.Pauses{Count: 1, Sum: time.Millisecond, Longest: time.Millisecond}
	for class := range second.Responses {
		second.Responses[class] += int64(class)
	}
	second.Offered, second.Admissions, second.Waited = 17, 23, time.Minute+time.Second
	r.Add(&middle, time.Second)
	r.Add(&second, time.Second)
	third := second
	third.At, third.Driving, third.Pauses = now.Add(2*time.Second), false, diagnosis.Pauses{}
	r.Add(&third, time.Second)
	all := secondsOf(r.History, now.Add(time.Minute))
	require.Equal(t, 2, len(all))
	assert.Equal(t, Second{
		At: InstantOf(second.At), Length: time.Second, Samples: 2, Lag: [LagBuckets]int64{2},
		InFlight: 1, Outbound: 2, Resident: 3, Active: 4, Waiting: 5,
		Responses: [diagnosis.ResponseClasses]int64{0, 1, 2, 3, 4, 5},
		Pauses:    3, Paused: 6 * time.Millisecond, LongestPause: 3 * time.Millisecond,
		Offered: 7, Admissions: 3, Waited: time.Second, Driving: true,
	}, all[0])
	assert.Equal(t, Second{At: InstantOf(third.At), Length: time.Second, Samples: 1, Lag: [LagBuckets]int64{1}}, all[1], "nothing is counted twice")
}

func TestAWindowIsThatOfTheDiagnosis(t *testing.T) {
	r := newRecorder()
	w := &diagnosis.Window{At: time.Now(), Length: 10 * time.Second, Processors: 2, CPUs: 1.5, CPU: number.Known(0.5), Descriptors: number.Known(12)}
	w.Load[diagnosis.GC], w.Load[diagnosis.Descriptors] = number.Known(0.75), number.Known(0.1)
	r.AddWindow(w, diagnosis.GC, Held{Threads: number.Known(9)})
	all := windowsOf(r.History, time.Now())
	require.Equal(t, 1, len(all))
	got := all[0]
	assert.True(t, w.At.Equal(got.At.Time()))
	assert.Equal(t, []any{10 * time.Second, diagnosis.GC, Number(2), Number(1.5), Number(0.5), Number(12), Number(9)},
		[]any{got.Length, got.Verdict, got.Processors, got.CPUs, got.CPU, got.Descriptors, got.Threads})
	assert.NotEqual(t, got.Memory, got.Memory, "not a number")
	for cause := range diagnosis.All() {
		if load, measured := w.Load[cause].Get(); measured {
			assert.Equal(t, Number(load), got.Load[cause], cause)
		} else {
			assert.NotEqual(t, got.Load[cause], got.Load[cause], "%s is not a number", cause)
		}
	}
	w.Load[diagnosis.Descriptors] = number.Number{}
	r.AddWindow(w, diagnosis.GC, Held{})
	all = windowsOf(r.History, time.Now())
	assert.NotEqual(t, all[0].Descriptors, all[0].Descriptors, "their limit is not known")
}

func TestAVerdictBeganWithItsFirstWindow(t *testing.T) {
	r, began := newRecorder(), time.Now().Add(-time.Hour)
	assert.Zero(t, r.Since("none"))
	for i, verdict := range []diagnosis.Cause{diagnosis.None, diagnosis.Lock, diagnosis.Lock, diagnosis.Lock} {
		r.AddWindow(&diagnosis.Window{At: began.Add(time.Duration(i+1) * time.Second), Length: time.Second}, verdict, Held{})
	}
	assert.Equal(t, began.Add(time.Second), r.Since("lock"), "longer ago than the history goes")
	assert.Zero(t, r.Since("none"), "it is over")
	assert.Zero(t, r.Since("gc"))
}

func TestNilRecorderKeepsNothing(t *testing.T) {
	var r *Recorder
	r.Begin(new(diagnosis.Sample))
	r.Add(new(diagnosis.Sample), time.Second)
	r.AddWindow(new(diagnosis.Window), diagnosis.None, Held{})
	assert.Zero(t, r.Since("none"))
}

// Each sample ends a second. Of the windows, which come far less often, one with
// another verdict allocates.
func TestRecorderAllocatesNothing(t *testing.T) {
	r, now := newRecorder(), time.Now()
	sample, window := at(now, 0), &diagnosis.Window{At: now}
	r.Begin(sample)
	r.AddWindow(window, diagnosis.None, Held{})
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		sample.At = sample.At.Add(time.Second)
		r.Add(sample, time.Second)
		r.AddWindow(window, diagnosis.None, Held{})
	}))
	assert.Equal(t, 600, len(secondsOf(r.History, sample.At.Add(time.Millisecond))))
}
