package observer

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Whoever looked before the last place was taken, and comes to the lock after
// it, overflows as well.
func TestRouteThatComesWhileTheTableFillsOverflows(t *testing.T) {
	table := routeTable{named: maxRoutes}
	counts := table.counts("/one too many")
	assert.Equal(t, "overflow", counts.name)
	assert.Equal(t, []*routeCounts{counts}, table.all(), "and is exported")
	assert.Same(t, counts, table.counts("/another"))
	assert.Equal(t, UnmatchedRoute, table.counts("").name, "the sentinels always have a place")
}

// Whoever counts a status first may be interrupted in the middle of it.
func TestStatusIsListedBeforeItIsCounted(t *testing.T) {
	var m RequestMetrics
	m.seen.mu.Lock()
	var counting sync.WaitGroup
	for range 2 {
		counting.Go(func() { m.CountResponse(299) })
	}
	time.Sleep(10 * time.Millisecond)
	assert.Empty(t, m.Counts().Responses)
	assert.Zero(t, m.responses[299-minStatus].Load(), "what is counted is exported")
	m.seen.mu.Unlock()
	counting.Wait()
	assert.Equal(t, map[int]int64{299: 2}, m.Counts().Responses)
	assert.Len(t, m.seen.all(), 1)
}

func TestStatusOfBothKindsIsListedOnce(t *testing.T) {
	var m RequestMetrics
	for range 3 {
		m.served.begin()
		m.endServed(new(work), 299, true)
		m.CountResponse(299)
	}
	m.served.begin()
	assert.Len(t, m.seen.all(), 1)
	assert.Equal(t, map[int]int64{299: 6}, m.Counts().Responses)
	assert.EqualValues(t, 1, m.Counts().InFlight)
}
