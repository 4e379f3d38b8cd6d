package kernel_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCgroupOfThisProcess(t *testing.T) {
	files := kernel.Files("/")
	cgroup, err := new(kernel.CgroupFinder).Find(files, "cpu")
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	cpus, err := cgroup.CPULimit(files)
	require.NoError(t, err)
	assert.Positive(t, cpus)

	cgroup, err = new(kernel.CgroupFinder).Find(files, "memory")
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	use, err := cgroup.Memory(files)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	assert.Equal(t, use.Limit > 0, use.Used > 0)
	assert.GreaterOrEqual(t, use.Limit, int64(0))
}

// quotaGroup names the directory of the group in which the test binary, run
// again, is to find itself throttled.
const quotaGroup = "OBSERVER_TEST_QUOTA_GROUP"

// The quota is on the parent of the group in which the process is, as in a pod.
func TestThrottlingByThisKernel(t *testing.T) {
	if group := os.Getenv(quotaGroup); group != "" {
		beThrottled(t, group)
		return
	}
	cgroup, err := new(kernel.CgroupFinder).Find(kernel.Files("/"), "cpu")
	if err != nil {
		t.Skip(err)
	}
	// Beside the own group and not below it: v2 allows no group below one that has
	// processes, except below the root, which is its own neighbour.
	place := cgroup.Directories[0]
	if len(cgroup.Directories) > 1 {
		place = cgroup.Directories[1]
	}
	if cgroup.Unified {
		controllers := filepath.Join("/", place, "cgroup.subtree_control")
		if err := os.WriteFile(controllers, []byte("+cpu"), 0); err != nil {
			t.Skip("may not enable the controller: ", err)
		}
	}
	parent := filepath.Join("/", place, fmt.Sprintf("observer-test-%d", os.Getpid()))
	group := filepath.Join(parent, "child")
	if err := os.MkdirAll(group, 0o755); err != nil {
		t.Skip("may not make a control group: ", err)
	}
	t.Cleanup(func() {
		assert.NoError(t, os.Remove(group))
		assert.NoError(t, os.Remove(parent))
	})
	quota, text := "cpu.cfs_quota_us", "20000"
	if cgroup.Unified {
		quota, text = "cpu.max", "20000 100000"
	}
	if err := os.WriteFile(filepath.Join(parent, quota), []byte(text), 0); err != nil {
		t.Skip("may not set a quota: ", err)
	}

	child := exec.Command(os.Args[0], "-test.run=^TestThrottlingByThisKernel$", "-test.v")
	child.Env = append(os.Environ(), quotaGroup+"="+group)
	output, err := child.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

// beThrottled moves this process into the group and uses more CPU than it may.
func beThrottled(t *testing.T, group string) {
	require.NoError(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0))
	files := kernel.Files("/")
	cgroup, err := new(kernel.CgroupFinder).Find(files, "cpu")
	require.NoError(t, err)
	assert.Equal(t, group, "/"+cgroup.Directories[0])
	cpus, err := cgroup.CPULimit(files)
	require.NoError(t, err)
	assert.LessOrEqual(t, cpus, 0.2)

	var total kernel.ThrottlingTotal
	before := stopped(t, cgroup)
	reading, err := cgroup.Throttling(files)
	require.NoError(t, err)
	total.Add(reading)

	// How much of its quota the process gets to use depends on what else runs.
	var throttled kernel.Throttled
	began := time.Now()
	for throttled.Time < 50*time.Millisecond && time.Since(began) < 20*time.Second {
		burn(40 * time.Millisecond) // two periods' worth
		reading, err = cgroup.Throttling(files)
		require.NoError(t, err)
		throttled = total.Add(reading)
	}
	// Not more than the kernel says itself. How long the test took is no bound: the
	// kernel adds up a clock of each processor, and on an emulated one these were
	// seen to be a twentieth ahead of the clock that this process reads.
	after := stopped(t, cgroup)
	t.Logf("in %v: %+v of %+v; the kernel's own file went from %v to %v", time.Since(began), throttled, reading, before, after)
	assert.GreaterOrEqual(t, throttled.Time, 50*time.Millisecond)
	assert.LessOrEqual(t, throttled.Time, after-before)
	assert.Positive(t, throttled.Periods)
}

// stopped reads with code of its own what the kernel has stopped of a group whose
// parent has the quota. The controller may be enabled for the parent alone, which
// then is the group that the kernel counts for: its own count of what any quota
// stopped, where there is one, and else of what its own quota stopped.
func stopped(t *testing.T, group kernel.Cgroup) time.Duration {
	t.Helper()
	for _, directory := range group.Directories[:2] {
		for _, file := range []string{"cpu.stat.local", "cpu.stat"} {
			text, err := os.ReadFile(filepath.Join("/", directory, file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			require.NoError(t, err)
			for line := range strings.Lines(string(text)) {
				var count time.Duration
				if n, _ := fmt.Sscanf(line, "throttled_usec %d", &count); n == 1 {
					return count * time.Microsecond
				}
				if n, _ := fmt.Sscanf(line, "throttled_time %d", &count); n == 1 {
					return count
				}
			}
		}
	}
	t.Fatalf("none of %q counts what is throttled", group.Directories[:2])
	return 0
}
