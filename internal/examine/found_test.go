package examine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/examine"
	"github.com/gym-observer/observer/internal/number"
)

// window is one in which some causes have a load that their rules hold at.
func window(loads map[diagnosis.Cause]float64) *diagnosis.Window {
	w := &diagnosis.Window{At: time.Now(), Length: time.Second, Processors: 1, CPUs: 1}
	for cause, load := range loads {
		w.Load[cause] = number.Known(load)
	}
	return w
}

// The next incident may be in other code, and has no profile of its own for ten
// minutes.
func TestLinesOfAnIncidentEndWithIt(t *testing.T) {
	e := profiling()
	found, where := e.Profile(diagnosis.CPUThrottled, compute)
	require.NotEmpty(t, found, where)
	throttled := map[diagnosis.Cause]float64{diagnosis.CPUThrottled: 0.5}
	for range 2 {
		for range 2 {
			e.EndWindow(window(nil), time.Second)
		}
		e.EndWindow(window(throttled), time.Second)
		found, _ = e.Of(diagnosis.CPUThrottled, time.Now())
		assert.NotEmpty(t, found, "two windows do not end an incident")
	}
	for range 3 {
		e.EndWindow(window(nil), time.Second)
	}
	e.EndWindow(window(throttled), time.Second)
	found, where = e.Of(diagnosis.CPUThrottled, time.Now())
	assert.Empty(t, found, "of the incident before")
	assert.Equal(t, "the next profile of the processor, which would name the line, is due in 10 min", where)
	assert.Nil(t, e.ProfileOf(diagnosis.CPUThrottled, time.Now()))
	_, where = e.Of(diagnosis.CPUThrottled, time.Now().Add(8*time.Minute+30*time.Second))
	assert.Contains(t, where, "due in 2 min")
}

// Where a snapshot is refused, nobody knows whether requests wait.
func TestNoneSaysThatNobodyLooked(t *testing.T) {
	e := new(examine.Examiner)
	e.Refuse("too many goroutines")
	asking := window(nil)
	asking.Owed, asking.RequestWait = 20, time.Second
	require.True(t, asking.AsksForWaits())
	e.EndWindow(asking, time.Second)
	found, where := e.Of(diagnosis.None, time.Now())
	assert.Empty(t, found)
	assert.Equal(t, "requests in flight wait, and where was not looked at: too many goroutines", where)
	e.EndWindow(window(nil), time.Second)
	_, where = e.Of(diagnosis.None, time.Now())
	assert.Empty(t, where, "nothing waits any more")
}
