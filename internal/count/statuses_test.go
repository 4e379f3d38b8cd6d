package count

import (
	"maps"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEveryStatusIsFound(t *testing.T) {
	var s Statuses
	assert.Empty(t, maps.Collect(s.All()))
	want := make(map[int]int64)
	for status := -1; status <= 1100; status++ {
		counts := status >= 100 && status <= 999 // net/http lets no other out
		assert.Equal(t, counts, s.Count(status), "%d", status)
		assert.Equal(t, counts, s.CountEnding(status), "%d", status)
		if counts {
			want[status] = 2
		}
	}
	assert.Equal(t, want, maps.Collect(s.All()))
	assert.EqualValues(t, 900, s.Ended())
	last := 0
	for status := range s.All() {
		assert.Greater(t, status, last, "in their order")
		last = status
	}
}

// Each status by itself: those whose bits lie at the edges of a word, too.
func TestOneStatusIsFoundAlone(t *testing.T) {
	for status := minStatus; status <= maxStatus; status++ {
		var s Statuses
		s.CountEnding(status)
		assert.Equal(t, map[int]int64{status: 1}, maps.Collect(s.All()))
		assert.EqualValues(t, 1, s.Ended())
	}
}

// Whoever counts a status first may be interrupted in the middle of it: others find
// the status before it has a count, and not a count without its status.
func TestStatusIsListedBeforeItIsCounted(t *testing.T) {
	var s Statuses
	assert.Panics(t, func() { s.add(nil, 299) }) // gets as far as the count, and no further
	i := 299 - minStatus
	assert.NotZero(t, s.seen[i/64].Load()&(1<<(i%64)), "it is listed")
	assert.Empty(t, maps.Collect(s.All()), "a series of zeros tells nothing")
	assert.Zero(t, s.Ended())

	var counting sync.WaitGroup
	for range 8 {
		counting.Go(func() {
			for status := minStatus; status <= maxStatus; status++ {
				s.CountEnding(status)
				found := int64(0)
				for one, n := range s.All() {
					if one == status {
						found = n
					}
				}
				assert.Positive(t, found, "%d: what is counted is found", status)
			}
		})
	}
	counting.Wait()
	assert.EqualValues(t, 8*900, s.Ended(), "none is lost")
}

func TestStatusOfBothKindsIsListedOnce(t *testing.T) {
	var s Statuses
	for range 3 {
		s.CountEnding(299)
		s.Count(299)
	}
	assert.Equal(t, map[int]int64{299: 6}, maps.Collect(s.All()))
	assert.EqualValues(t, 3, s.Ended(), "the others end no request")
}

func TestWhoeverReadsStatusesMayStop(t *testing.T) {
	var s Statuses
	s.Count(200)
	s.Count(500)
	var read []int
	for status := range s.All() {
		read = append(read, status)
		break
	}
	assert.Equal(t, []int{200}, read)
}

func TestCountingAllocatesNothing(t *testing.T) {
	var s Statuses
	assert.Zero(t, testing.AllocsPerRun(100, func() { s.CountEnding(200); s.Count(404); s.Ended() }))
}
