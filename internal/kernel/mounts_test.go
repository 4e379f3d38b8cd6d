package kernel_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// countedFiles counts how often mountinfo is read.
type countedFiles struct {
	fstest.MapFS
	reads int
}

func (c *countedFiles) ReadFile(name string) ([]byte, error) {
	if name == "proc/self/mountinfo" {
		c.reads++
	}
	return c.MapFS.ReadFile(name)
}

// mountWatch says that the mounts changed the first time, and when a test wants.
type mountWatch struct{ asked, quiet bool }

func (w *mountWatch) Changed() bool {
	changed := !w.asked || !w.quiet
	w.asked, w.quiet = true, true
	return changed
}

func (w *mountWatch) Forget() { w.asked = false }

// manyMounts is a mountinfo of that many mounts, with the given line among them.
func manyMounts(mounts int, line string) string {
	var text strings.Builder
	for i := range mounts {
		if i == mounts/2 {
			text.WriteString(line)
		}
		fmt.Fprintf(&text, "%d 24 0:%d / /run/containers/%d/rootfs rw,relatime shared:%d - overlay overlay rw,lowerdir=/a,upperdir=/b\n", 100+i, i, i, i)
	}
	return text.String()
}

func TestH67MountsAreReadOnceWhereTheGroupIsInvisible(t *testing.T) {
	files := &countedFiles{MapFS: fstest.MapFS{
		"proc/self/cgroup":    text("0::/../elsewhere\n"),
		"proc/self/mountinfo": text(manyMounts(30_000, "9 1 0:9 / /c rw - cgroup2 cgroup rw\n")),
		"c/elsewhere/cpu.max": text("max 100000\n"),
		"c/b/cpu.max":         text("max 100000\n"),
	}}
	watch := &mountWatch{}
	finder := kernel.CgroupFinder{Mounts: watch}
	for range 60 {
		for range 2 {
			_, err := finder.Find(files, "cpu")
			require.ErrorIs(t, err, errors.ErrUnsupported)
			require.NotErrorIs(t, err, kernel.ErrNoHierarchy)
		}
	}
	assert.Equal(t, 1, files.reads)
	_, err := finder.Find(files, "memory")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	assert.Equal(t, 2, files.reads, "once for each controller")

	watch.quiet = false
	for range 3 {
		_, err := finder.Find(files, "cpu")
		require.ErrorIs(t, err, errors.ErrUnsupported)
	}
	assert.Equal(t, 3, files.reads, "the mounts have changed")

	files.MapFS["proc/self/cgroup"] = text("0::/b\n")
	for range 3 {
		group, err := finder.Find(files, "cpu")
		require.NoError(t, err)
		assert.Equal(t, "c/b", group.Directories[0])
	}
	assert.Equal(t, 4, files.reads, "the group has changed")
	assert.False(t, watch.asked, "a group that is there needs no watch")
}

func TestFindCgroupWithoutAHierarchy(t *testing.T) {
	_, err := new(kernel.CgroupFinder).Find(fstest.MapFS{
		"proc/self/cgroup": text("3:pids:/a\n"), "proc/self/mountinfo": text(""),
	}, "cpu")
	require.ErrorIs(t, err, kernel.ErrNoHierarchy)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestParseCgroupPathWithEveryKindOfSpace(t *testing.T) {
	const name = "a\u00a0b\u0085c\vd\re\x85f:g\\h (deleted)"
	mounts := "9 1 0:9 / /my\u00a0mount\vx rw shared:1 - cgroup2 cgroup rw\n"
	candidates, err := kernel.ParseCgroup([]byte("0::/"+name+"\n"), []byte(mounts), "cpu")
	require.NoError(t, err)
	assert.Equal(t, []string{"my\u00a0mount\vx/" + name, "my\u00a0mount\vx"}, candidates[0].Directories)
}

func BenchmarkParseCgroupOf30000Mounts(b *testing.B) {
	mounts := []byte(manyMounts(30_000, "9 1 0:9 / /c rw - cgroup2 cgroup rw\n"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := kernel.ParseCgroup([]byte("0::/a\n"), mounts, "cpu"); err != nil {
			b.Fatal(err)
		}
	}
}

var _ fs.ReadFileFS = (*countedFiles)(nil)
