package count

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatHasBegunIsInFlightUntilItEnds(t *testing.T) {
	var f InFlight
	assert.EqualValues(t, 1, f.Begin())
	assert.EqualValues(t, 2, f.Begin())
	assert.EqualValues(t, 2, f.Now())
	f.End()
	assert.EqualValues(t, 1, f.Now())
	assert.EqualValues(t, 1, f.Ended())
	assert.EqualValues(t, 3, f.Begin(), "numbers are not used again")
}

func TestWhatEndsElsewhereIsNotInFlight(t *testing.T) {
	var f InFlight
	var s Statuses
	for range 3 {
		f.Begin()
	}
	s.CountEnding(200)
	s.Count(200)
	assert.EqualValues(t, 2, f.NowBeside(s.Ended()))
	f.End()
	assert.EqualValues(t, 1, f.NowBeside(s.Ended()))
}

func TestDuringEndsOnce(t *testing.T) {
	var f InFlight
	end := f.During()
	assert.EqualValues(t, 1, f.Now())
	var ending sync.WaitGroup
	for range 8 {
		ending.Go(end)
	}
	ending.Wait()
	assert.Zero(t, f.Now())
	assert.EqualValues(t, 1, f.Ended())
}

func TestInFlightIsNeverNegative(t *testing.T) {
	var f InFlight
	var s Statuses
	var stop atomic.Bool
	var serving sync.WaitGroup
	for i := range 4 {
		serving.Go(func() {
			for !stop.Load() {
				f.Begin()
				if i%2 == 0 {
					s.CountEnding(200)
				} else {
					f.End()
				}
			}
		})
	}
	for range 10_000 {
		now := f.NowBeside(s.Ended())
		assert.GreaterOrEqual(t, now, int64(0))
	}
	stop.Store(true)
	serving.Wait()
	assert.Zero(t, f.NowBeside(s.Ended()))
}
