//go:build !race

// The race detector's own calls move a buffer from the stack to the heap.

package observer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The only allocation is the copy of a path that ends in a zero byte, which
// golang.org/x/sys/unix makes for a system call.
func TestReadingsAllocateOnlyPaths(t *testing.T) {
	source := newProcfs("/proc/self")
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _, _ = source.cpuTime() }))
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = source.residentMemory() }), 1.0)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = source.threads() }), 1.0)

	var stat unix.Stat_t
	require.NoError(t, unix.Stat(source.descriptors, &stat))
	if stat.Size == 0 {
		t.Skip("before Linux 6.2 the entries of /proc/self/fd are counted")
	}
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = source.openDescriptors() }), 1.0)
}
