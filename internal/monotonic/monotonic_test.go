package monotonic

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestClockGoesOn(t *testing.T) {
	before := Now()
	assert.GreaterOrEqual(t, before, time.Duration(0))
	assert.GreaterOrEqual(t, Now(), before)
	instant := time.Now()
	assert.GreaterOrEqual(t, At(instant), before)
	assert.GreaterOrEqual(t, Now(), At(instant))
}

func TestH81NoTimePassesBetweenABubbleAndTheWorld(t *testing.T) {
	assert.False(t, InBubble())
	outside := Now()
	var inside time.Duration
	synctest.Test(t, func(t *testing.T) {
		assert.True(t, InBubble())
		inside = Now()
		time.Sleep(time.Hour)
		assert.Equal(t, time.Hour, Between(inside, Now()), "within a bubble its clock counts")
		assert.Zero(t, Between(outside, Now()))
	})
	assert.Zero(t, Between(inside, Now()))
	assert.Less(t, Between(outside, Now()), time.Hour)
	assert.Zero(t, Between(Now()+time.Second, Now()), "what lies ahead has no age")
}
