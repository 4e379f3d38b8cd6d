package number_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/number"
)

func TestZeroValueIsNotKnown(t *testing.T) {
	var unknown number.Number
	v, ok := unknown.Get()
	assert.Zero(t, v)
	assert.False(t, ok)
	assert.False(t, unknown.IsKnown())
	assert.Equal(t, 7.0, unknown.Or(7))
	assert.NotEqual(t, number.Known(0), unknown, "a zero is a reading")
}

func TestKnownNumberIsTheNumber(t *testing.T) {
	v, ok := number.Known(3).Get()
	assert.Equal(t, 3.0, v)
	assert.True(t, ok)
	assert.Equal(t, 3.0, number.Known(3).Or(7))
	assert.Equal(t, number.Known(3), number.If(true, 3))
	assert.Equal(t, number.Number{}, number.If(false, 3), "what is not known has no value, not even inside")
}

func TestWhatIsComputedFromAnUnknownNumberIsUnknown(t *testing.T) {
	var unknown number.Number
	three := number.Known(3)
	for name, computed := range map[string]number.Number{
		"growth": unknown.Growth(three), "growth since": three.Growth(unknown),
		"over": unknown.Over(2), "plus": unknown.Plus(three), "plus it": three.Plus(unknown), "less": unknown.Less(three),
		"mean of nothing": number.Mean(0, 0), "larger of two": unknown.Max(unknown),
	} {
		assert.Equal(t, unknown, computed, name)
	}
}

func TestArithmetic(t *testing.T) {
	var unknown number.Number
	three, eight := number.Known(3), number.Known(8)
	assert.Equal(t, number.Known(5), eight.Growth(three))
	assert.Equal(t, number.Known(0), three.Growth(eight), "a total that fell has begun anew")
	assert.Equal(t, number.Known(1.5), three.Over(2))
	assert.Equal(t, number.Known(11), three.Plus(eight))
	assert.Equal(t, number.Known(5), eight.Less(three))
	assert.Equal(t, number.Known(0), three.Less(eight))
	assert.Equal(t, three, three.Less(unknown), "nothing is known to take away")
	assert.Equal(t, number.Known(2), number.Mean(6, 3))
	assert.Equal(t, eight, three.Max(eight))
	assert.Equal(t, eight, eight.Max(three))
	assert.Equal(t, eight, eight.Max(unknown))
	assert.Equal(t, eight, unknown.Max(eight))
}
