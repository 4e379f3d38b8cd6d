//go:build !race

// The race detector's own calls move a buffer from the stack to the heap.

package reading

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadingsAllocateNothing(t *testing.T) {
	source := newProcfs("/proc/self")
	defer source.Close()
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _, _ = source.CPUTime() }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = source.ResidentMemory() }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = source.Threads() }))

	stat, err := source.descriptors.stat()
	require.NoError(t, err)
	if stat.Size == 0 {
		t.Skip("before Linux 6.2 the entries of /proc/self/fd are counted")
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = source.OpenDescriptors() }))
}
