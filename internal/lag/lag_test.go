package lag

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/number"
	"github.com/gym-observer/observer/internal/reading"
)

func TestNoBurstOfSamplesAfterAStall(t *testing.T) {
	const interval, stall = 100 * time.Millisecond, 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		l := New(interval)
		var at []time.Time
		l.Start(func() {}, func(time.Time) {
			at = append(at, time.Now())
			if len(at) == 3 {
				time.Sleep(stall)
			}
		}, func() {})
		time.Sleep(2 * stall)
		l.Stop(time.Second)
		require.Greater(t, len(at), 50)
		for i := range len(at) - 1 {
			apart, least := at[i+1].Sub(at[i]), interval*8/10
			if i == 2 {
				least += stall
			}
			assert.GreaterOrEqual(t, apart, least, "after sample %d", i+1)
			assert.LessOrEqual(t, apart, least+interval*4/10, "after sample %d", i+1)
		}
	})
}

func TestIntervalsSpreadAFifthAroundTheSetting(t *testing.T) {
	const interval, draws = 100 * time.Millisecond, 10_000
	shortest, longest, sum := interval, interval, time.Duration(0)
	for range draws {
		drawn := jittered(interval)
		shortest, longest, sum = min(shortest, drawn), max(longest, drawn), sum+drawn
	}
	assert.GreaterOrEqual(t, shortest, 80*time.Millisecond)
	assert.Less(t, shortest, 81*time.Millisecond)
	assert.LessOrEqual(t, longest, 120*time.Millisecond)
	assert.Greater(t, longest, 119*time.Millisecond)
	assert.InDelta(t, float64(interval), float64(sum/draws), float64(2*time.Millisecond), "the mean is the setting")
}

func TestIntervalsOfTheLongestSettingDoNotOverflow(t *testing.T) {
	const longest = time.Hour // that observer.WithSampleInterval takes
	for range 1000 {
		drawn := jittered(longest)
		require.True(t, drawn >= longest*8/10 && drawn <= longest*12/10, drawn)
	}
}

func TestLoopBeginsEndsAndWakesBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Second)
		var calls []string
		l.Start(func() { calls = append(calls, "first") }, func(due time.Time) {
			calls = append(calls, "each")
			now, late, _ := l.Measure(due)
			assert.Equal(t, time.Now(), now)
			assert.Zero(t, late, "time stands still in a bubble")
		}, func() { calls = append(calls, "last") })
		time.Sleep(1500 * time.Millisecond)
		l.Stop(time.Hour)
		<-l.Done()
		assert.Equal(t, []string{"first", "each", "last"}, calls)
	})
}

func TestStopDoesNotWaitForACallThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Second)
		release := make(chan struct{})
		l.Start(func() { <-release }, func(time.Time) {}, func() {})
		began := time.Now()
		l.Stop(time.Minute)
		assert.Equal(t, time.Minute, time.Since(began))
		close(release)
		<-l.Done()
	})
}

func TestLatenessIsNeverNegative(t *testing.T) {
	l := New(time.Second)
	now := time.Now()
	l.Now = func() time.Time { return now }
	l.Queues = func() reading.Queues { return reading.Queues{Runnable: number.Known(3)} }
	_, late, queues := l.Measure(now.Add(-time.Hour))
	assert.Equal(t, time.Hour, late)
	assert.Equal(t, number.Known(3), queues.Runnable)
	_, late, _ = l.Measure(now.Add(time.Hour))
	assert.Zero(t, late, "of a timer that fired early")
}

func TestTheOldestLoopHasTheTurn(t *testing.T) {
	var turns Turns[string]
	assert.False(t, turns.Has("a"))
	assert.True(t, turns.Add("a"))
	assert.False(t, turns.Add("b"))
	assert.True(t, turns.Has("a"))
	assert.False(t, turns.Has("b"))
	before := turns.All()
	assert.False(t, turns.Remove("a"))
	assert.Equal(t, []string{"a", "b"}, before, "a list that somebody reads does not change")
	assert.True(t, turns.Has("b"))
	turns.End()
	assert.False(t, turns.Has("b"))
	assert.Equal(t, []string{"b"}, turns.All())
	assert.True(t, turns.Remove("b"))
}
