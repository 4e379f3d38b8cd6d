package kernel_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestH67MountWatch(t *testing.T) {
	var watch kernel.MountWatch
	assert.True(t, watch.Changed(), "the first time")
	assert.False(t, watch.Changed())

	directory := t.TempDir()
	if err := unix.Mount("none", directory, "tmpfs", 0, ""); err != nil {
		t.Skip("may not mount: ", err)
	}
	changed := watch.Changed()
	again := watch.Changed()
	require.NoError(t, unix.Unmount(directory, 0))
	assert.True(t, changed)
	assert.False(t, again)
	assert.True(t, watch.Changed(), "an unmount is a change too")

	watch.Forget()
	watch.Forget()
	assert.True(t, watch.Changed())
	watch.Forget()
}

func TestH67MountWatchKeepsOneDescriptor(t *testing.T) {
	var watch kernel.MountWatch
	before, err := kernel.CountEntries("/proc/self/fd")
	require.NoError(t, err)
	for range 10 {
		watch.Changed()
	}
	during, err := kernel.CountEntries("/proc/self/fd")
	require.NoError(t, err)
	assert.Equal(t, before+1, during)
	watch.Forget()
	after, err := kernel.CountEntries("/proc/self/fd")
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

func TestH67GroupNamesOfAnyBytes(t *testing.T) {
	for _, name := range []string{"two words", "a:b", `back\slash`, "gone (deleted)", "\xff\xfe latin \xe9", `\040`, "ta\tb"} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			group := filepath.Join(root, "c", name)
			require.NoError(t, os.MkdirAll(group, 0o755))
			require.NoError(t, os.MkdirAll(filepath.Join(root, "proc", "self"), 0o755))
			write := func(path, text string) {
				require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
			}
			write(filepath.Join(root, "proc/self/cgroup"), "0::/"+name+"\n")
			write(filepath.Join(root, "proc/self/mountinfo"), "9 1 0:9 / /c rw - cgroup2 cgroup rw\n")
			write(filepath.Join(group, "cpu.max"), "50000 100000\n")

			files := kernel.Files(root)
			cgroup, err := new(kernel.CgroupFinder).Find(files, "cpu")
			require.NoError(t, err)
			assert.Equal(t, []string{"c/" + name, "c"}, cgroup.Directories)
			limit, err := cgroup.CPULimit(files)
			require.NoError(t, err)
			assert.Equal(t, 0.5, limit)
		})
	}
}
