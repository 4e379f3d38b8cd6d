//go:build unix

package observer_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestH28AStallLongerThanTheLastBoundary(t *testing.T) {
	const longestWait = 60 * time.Millisecond // of an interval of 50 ms
	c := startChild(t, "stopped by a signal")
	var before, after distribution
	require.Eventually(t, func() bool { c.ask(t, &before); return before.Count > 0 }, 10*time.Second, time.Millisecond)

	began := time.Now()
	require.NoError(t, c.Process.Signal(syscall.SIGSTOP))
	time.Sleep(6 * time.Second)
	stopped := time.Since(began)
	require.NoError(t, c.Process.Signal(syscall.SIGCONT))
	require.Eventually(t, func() bool { c.ask(t, &after); return after.Max > 5000 }, 10*time.Second, time.Millisecond)
	atMost := time.Since(began)

	require.Equal(t, 5000.0, after.Bounds[len(after.Bounds)-1])
	assert.EqualValues(t, 1, after.BucketCounts[len(after.Bounds)], "above the last boundary: %+v", after)
	assert.GreaterOrEqual(t, after.Max, float64((stopped - longestWait).Milliseconds()))
	assert.LessOrEqual(t, after.Max, float64(atMost.Milliseconds()))
	assert.GreaterOrEqual(t, after.Sum, after.Max)
}
