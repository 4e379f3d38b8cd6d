package kernel

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSampleIsBoundedAndSpread(t *testing.T) {
	for _, threads := range []int{257, 300, 1_000, 10_000, 100_000} {
		for _, step := range []int{1, 2, 3, 7} { // other processes take ids between
			tids := make([]int, threads)
			for i := range tids {
				tids[i] = 4_000 + i*step
			}
			middle := tids[threads/2]
			sampled := sample(tids)

			assert.LessOrEqual(t, len(sampled), maxTasks)
			assert.GreaterOrEqual(t, len(sampled), maxTasks*3/8, "%d threads, every %d", threads, step)
			older := 0
			for _, tid := range sampled {
				if tid < middle {
					older++
				}
			}
			assert.InDelta(t, len(sampled)/2, older, maxTasks/16, "%d threads, every %d", threads, step)
		}
	}
}

func TestSampleTakesAllOfAFew(t *testing.T) {
	assert.Equal(t, []int{3, 1, 2}, sample([]int{3, 1, 2}))
	assert.Empty(t, sample(nil))
}

func TestSampleTakesTheSameThreadsAgain(t *testing.T) {
	tids := make([]int, 1_000)
	for i := range tids {
		tids[i] = 1 + i
	}
	first := slices.Clone(sample(slices.Clone(tids)))

	// A hundred threads exit and ten start; the order is another one.
	later := slices.Clone(tids[100:])
	for i := range 10 {
		later = append(later, 5_000+i)
	}
	slices.Reverse(later)
	second := sample(later)

	for _, tid := range first {
		if tid > 100 {
			assert.Contains(t, second, tid)
		}
	}
}
