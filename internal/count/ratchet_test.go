package count

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRatchetHasNoValueAtFirst(t *testing.T) {
	_, ok := new(Ratchet).Last()
	assert.False(t, ok)
}

func TestH46RatchetNeverGoesDown(t *testing.T) {
	var r Ratchet
	for _, step := range []struct{ raise, want float64 }{
		{0, 0}, {2.5, 2.5}, {1, 2.5}, {-1, 2.5}, {math.NaN(), 2.5}, {math.Inf(-1), 2.5}, {0, 2.5}, {1 << 53, 1 << 53},
	} {
		r.Raise(step.raise)
		last, ok := r.Last()
		assert.True(t, ok)
		assert.Equal(t, step.want, last, "after %g", step.raise)
	}
}

func TestRatchetIgnoresWhatIsNoTotal(t *testing.T) {
	for _, value := range []float64{-1, math.NaN(), math.Inf(-1), math.Inf(+1)} {
		var r Ratchet
		r.Raise(value)
		_, ok := r.Last()
		assert.False(t, ok, "after %g", value)
	}
}

func TestRatchetTakesTheLargestOfManyWriters(t *testing.T) {
	var r Ratchet
	var writers sync.WaitGroup
	for writer := range 8 {
		writers.Go(func() {
			last := 0.0
			for i := range 1000 {
				r.Raise(float64(i*8 + writer))
				now, _ := r.Last()
				assert.GreaterOrEqual(t, now, last)
				last = now
			}
		})
	}
	writers.Wait()
	last, _ := r.Last()
	assert.Equal(t, 7999.0, last)
}
