package sites_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/sites"
)

// The rows were measured.
func TestWaitHoldsForTheSickAlone(t *testing.T) {
	for name, c := range map[string]struct {
		owed, waiting float64
		mean          time.Duration
		want          bool
	}{
		"the least sick":             {12, 11.7, 126 * time.Millisecond, true},
		"the most sick":              {20, 20, 2500 * time.Millisecond, true},
		"a half-used pool":           {8.5, 7.2, 24 * time.Millisecond, false},
		"a half-used pool, slower":   {8.5, 7.2, time.Second, false},
		"a pool that is quick":       {20, 20, 24 * time.Millisecond, false},
		"long polls":                 {300, 5.6, 3 * time.Second, false},
		"long polls, a few of which": {300, 12, 3 * time.Second, false},
		"a worker pool":              {10, 5.6, 2500 * time.Millisecond, false},
		"streams":                    {0, 300, 10 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, sites.Waits(c.owed, c.waiting, c.mean))
			if c.want {
				assert.True(t, sites.Asked(c.owed, c.mean))
			}
		})
	}
	assert.False(t, sites.Asked(7.9, time.Minute))
	assert.False(t, sites.Asked(300, 99*time.Millisecond))
	assert.True(t, sites.Asked(8, 100*time.Millisecond))
}

func TestMeanIsLittlesLaw(t *testing.T) {
	const window = 10 * time.Second
	assert.Equal(t, 100*time.Millisecond, sites.Mean(20, 2000, window))
	assert.Equal(t, window, sites.Mean(20, 0, window), "none ended")
	assert.Equal(t, 200*time.Second, sites.Mean(20, 1, window))
	assert.Positive(t, sites.Mean(1e300, 1, window))
}

func TestTurnsComeLessOftenWhereSnapshotsAcquit(t *testing.T) {
	var turns sites.Turns
	var looked []int
	for window := range 400 {
		if turns.Due(true) {
			looked = append(looked, window)
			turns.Looked(false)
		}
	}
	assert.Equal(t, []int{0, 2, 6, 14, 30, 62, 126, 190, 254, 318, 382}, looked)

	assert.False(t, turns.Due(false))
	for !turns.Due(true) { //nolint:revive // to the next turn
	}
	turns.Looked(true)
	assert.True(t, turns.Due(true), "while it holds every window is looked at")
	turns.Looked(false)
	assert.False(t, turns.Due(true))
	assert.True(t, turns.Due(true), "the pauses begin anew")
}

func TestTurnsPauseWhileNothingIsAsked(t *testing.T) {
	var turns sites.Turns
	assert.False(t, turns.Due(false))
	assert.True(t, turns.Due(true))
	turns.Looked(false)
	assert.False(t, turns.Due(false))
	assert.True(t, turns.Due(true), "the pause went by meanwhile")
}

func TestMomentsAreOneInEachPart(t *testing.T) {
	const window = 10 * time.Second
	var first []time.Duration
	for range 20 {
		moments := sites.Moments(10, window)
		for i, at := range moments {
			assert.GreaterOrEqual(t, at, time.Duration(i)*time.Second)
			assert.LessOrEqual(t, at, time.Duration(i+1)*time.Second)
		}
		first = append(first, moments[0])
	}
	assert.Greater(t, first[0].Abs()+first[1].Abs(), time.Duration(0))
	assert.NotEqual(t, first[0], first[1], "at random")
	assert.Empty(t, sites.Moments(0, window))
}
