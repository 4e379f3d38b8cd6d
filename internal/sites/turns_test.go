package sites_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/sites"
)

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
