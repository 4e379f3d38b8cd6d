package count

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The bits of the zero that has a sign are more than those of every number that has
// none: taken as they are, the counter would stand still for ever.
func TestRatchetTakesNegativeZeroForZero(t *testing.T) {
	var r Ratchet
	r.Raise(math.Copysign(0, -1))
	last, ok := r.Last()
	assert.True(t, ok)
	assert.False(t, math.Signbit(last))
	r.Raise(2.5)
	last, _ = r.Last()
	assert.Equal(t, 2.5, last)
}
