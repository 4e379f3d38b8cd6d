package observer

import (
	"testing"

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
