package kernel_test

import (
	"runtime"
	"testing"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestH63AffinityIsTheMaskAsItIsNow(t *testing.T) {
	runtime.LockOSThread() // not unlocked: the thread with its mask ends with the test
	var all unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	if all.Count() < 2 {
		t.Skip("needs two processors")
	}
	first := 0
	for !all.IsSet(first) {
		first++
	}
	var one unix.CPUSet
	one.Set(first)

	require.NoError(t, unix.SchedSetaffinity(0, &one))
	narrow, err := kernel.Affinity()
	require.NoError(t, err)
	assert.Equal(t, 1, narrow.Count())
	assert.True(t, narrow.Has(first))

	require.NoError(t, unix.SchedSetaffinity(0, &all))
	wide, err := kernel.Affinity()
	require.NoError(t, err)
	assert.Equal(t, all.Count(), wide.Count())
}
