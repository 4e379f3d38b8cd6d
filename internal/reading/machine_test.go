package reading

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/kernel"
)

// files are a file system of texts.
func files(texts map[string]string) fstest.MapFS {
	fsys := make(fstest.MapFS)
	for name, text := range texts {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

// The trees of the three kinds, each with a quota of half a processor and a
// memory limit of 4 MiB of which one is in use.
func unifiedTree() map[string]string {
	return map[string]string{
		"proc/self/cgroup":               "0::/pod/app\n",
		"proc/self/mountinfo":            "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/cpu.stat":         "usage_usec 1\n",
		"sys/fs/cgroup/pod/cpu.max":      "50000 100000\n",
		"sys/fs/cgroup/pod/cpu.stat":     "nr_throttled 4\nthrottled_usec 1500000\n",
		"sys/fs/cgroup/pod/app/cpu.max":  "max 100000\n",
		"sys/fs/cgroup/pod/app/cpu.stat": "nr_throttled 0\nthrottled_usec 0\n",

		"sys/fs/cgroup/pod/memory.max":         "max\n",
		"sys/fs/cgroup/pod/memory.current":     "9000000\n",
		"sys/fs/cgroup/pod/memory.stat":        "inactive_file 0\n",
		"sys/fs/cgroup/pod/app/memory.max":     "4194304\n",
		"sys/fs/cgroup/pod/app/memory.current": "2097152\n",
		"sys/fs/cgroup/pod/app/memory.stat":    "anon 5\ninactive_file 1048576\n",
	}
}

func hierarchiesTree() map[string]string {
	return map[string]string{
		"proc/self/cgroup":                               "4:cpu,cpuacct:/app\n3:memory:/app\n",
		"proc/self/mountinfo":                            "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
		"sys/fs/cgroup/cpu/cpu.cfs_quota_us":             "-1\n",
		"sys/fs/cgroup/cpu/cpu.cfs_period_us":            "100000\n",
		"sys/fs/cgroup/cpu/cpu.stat":                     "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
		"sys/fs/cgroup/cpu/app/cpu.cfs_quota_us":         "50000\n",
		"sys/fs/cgroup/cpu/app/cpu.cfs_period_us":        "100000\n",
		"sys/fs/cgroup/cpu/app/cpu.stat":                 "nr_periods 9\nnr_throttled 4\nthrottled_time 1500000000\n",
		"sys/fs/cgroup/memory/app/memory.stat":           "total_inactive_file 1048576\n",
		"sys/fs/cgroup/memory/app/memory.usage_in_bytes": "2097152\n",
		"sys/fs/cgroup/memory/app/memory.limit_in_bytes": "4194304\n",
	}
}

// hybridTree has the processor in a hierarchy of its own, and memory unified.
func hybridTree() map[string]string {
	tree := hierarchiesTree()
	tree["proc/self/cgroup"] = "4:cpu,cpuacct:/app\n0::/pod/app\n"
	tree["proc/self/mountinfo"] = "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n32 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	tree["sys/fs/cgroup/unified/pod/app/memory.max"] = "4194304\n"
	tree["sys/fs/cgroup/unified/pod/app/memory.current"] = "2097152\n"
	tree["sys/fs/cgroup/unified/pod/app/memory.stat"] = "inactive_file 1048576\n"
	return tree
}

func TestMachineReadsEachKindOfTree(t *testing.T) {
	for name, test := range map[string]struct {
		tree  map[string]string
		stat  string // of the group that has the quota
		later string
	}{
		"unified":     {unifiedTree(), "sys/fs/cgroup/pod/cpu.stat", "nr_throttled 6\nthrottled_usec 2000000\n"},
		"hierarchies": {hierarchiesTree(), "sys/fs/cgroup/cpu/app/cpu.stat", "nr_throttled 6\nthrottled_time 2000000000\n"},
		"hybrid":      {hybridTree(), "sys/fs/cgroup/cpu/app/cpu.stat", "nr_throttled 6\nthrottled_time 2000000000\n"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := files(test.tree)
			m := newMachine(fsys, "/proc/self/task")
			limit, err := m.CPULimit()
			require.NoError(t, err)
			assert.Equal(t, 0.5, limit)
			use, err := m.Memory()
			require.NoError(t, err)
			assert.EqualValues(t, 1<<20, use.Used)
			assert.EqualValues(t, 4<<20, use.Limit)

			total, periods, err := m.Throttled()
			require.NoError(t, err)
			assert.Zero(t, total, "counted from the first reading on")
			assert.Zero(t, periods)
			fsys[test.stat] = &fstest.MapFile{Data: []byte(test.later)}
			total, periods, err = m.Throttled()
			require.NoError(t, err)
			assert.Equal(t, 500*time.Millisecond, total)
			assert.EqualValues(t, 2, periods)
			fsys[test.stat] = &fstest.MapFile{Data: []byte(test.tree[test.stat])} // it began anew
			total, _, err = m.Throttled()
			require.NoError(t, err)
			assert.Equal(t, 500*time.Millisecond, total, "a total never falls")
		})
	}
}

func TestQuotaOfTheGroupThatTheProcessWasMovedTo(t *testing.T) {
	fsys := files(unifiedTree())
	m := newMachine(fsys, "/proc/self/task")
	_, _, err := m.Throttled()
	require.NoError(t, err)
	fsys["proc/self/cgroup"] = &fstest.MapFile{Data: []byte("0::/other\n")}
	fsys["sys/fs/cgroup/other/cpu.max"] = &fstest.MapFile{Data: []byte("200000 100000\n")}
	fsys["sys/fs/cgroup/other/cpu.stat"] = &fstest.MapFile{Data: []byte("nr_throttled 900\nthrottled_usec 7000000000\n")}
	limit, err := m.CPULimit()
	require.NoError(t, err)
	assert.Equal(t, 2.0, limit)
	total, _, err := m.Throttled()
	require.NoError(t, err)
	assert.Zero(t, total, "what was stopped there before is not this process's")
}

func TestMissingFilesAreUnsupported(t *testing.T) {
	m := newMachine(fstest.MapFS{}, "/proc/self/task")
	m.tasks = kernel.NewThreadReader(filepath.Join(t.TempDir(), "nowhere"))
	for name, err := range readings(m) {
		assert.ErrorIs(t, err, errors.ErrUnsupported, name)
	}
	limit, _ := m.CPULimit()
	assert.True(t, math.IsInf(limit, +1), "nothing is known to limit it")

	// A machine without control groups.
	m = newMachine(files(map[string]string{"proc/self/cgroup": "", "proc/self/mountinfo": "21 1 8:1 / / rw - ext4 /dev/sda rw\n"}), "/proc/self/task")
	for name, err := range readings(m) {
		if name != "time" && name != "runDelay" {
			assert.ErrorIs(t, err, errors.ErrUnsupported, name)
		}
	}
}

// readings are the errors of what a machine reads from its files.
func readings(m *machine) map[string]error {
	_, delay := m.RunDelay()
	_, _, throttled := m.Throttled()
	_, limit := m.CPULimit()
	_, memory := m.Memory()
	_, time := m.Time()
	return map[string]error{"runDelay": delay, "throttled": throttled, "cpuLimit": limit, "memory": memory, "time": time}
}

func TestGarbageIsAnErrorThatGoesAway(t *testing.T) {
	OnlyOnLinux(t)
	tree := unifiedTree()
	for name := range tree {
		tree[name] = "\x00garbage\xff"
	}
	tree["proc/stat"] = "cpu nonsense\n"
	fsys := files(tree)
	m := newMachine(fsys, "/proc/self/task")
	tasks := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(tasks, "1"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(tasks, "1", "schedstat"), []byte("garbage"), 0o644))
	m.tasks = kernel.NewThreadReader(tasks)
	for name, err := range readings(m) {
		assert.Error(t, err, name)
		assert.NotErrorIs(t, err, errors.ErrUnsupported, name)
	}
	limit, _ := m.CPULimit()
	assert.True(t, math.IsInf(limit, +1))

	for name, text := range unifiedTree() {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	fsys["proc/stat"] = &fstest.MapFile{Data: []byte("cpu 10 20 30 40 50 60 70 80 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n")}
	require.NoError(t, os.WriteFile(filepath.Join(tasks, "1", "schedstat"), []byte("2000 3000 4\n"), 0o644))
	for name, err := range readings(m) {
		assert.NoError(t, err, name)
	}
	ticks, err := m.Time()
	require.NoError(t, err)
	assert.Equal(t, kernel.MachineTime{Steal: 80, Total: 360}, ticks)
	delay, err := m.RunDelay()
	require.NoError(t, err)
	assert.Equal(t, 3*time.Microsecond, delay)
}

// deniedFS has files that may not be read.
type deniedFS struct{}

func (deniedFS) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestDeniedFilesAreAFailureThatIsSaid(t *testing.T) {
	m := newMachine(deniedFS{}, "/proc/self/task")
	for name, err := range readings(m) {
		if name != "runDelay" {
			assert.ErrorIs(t, err, fs.ErrPermission, name)
			assert.NotErrorIs(t, err, errors.ErrUnsupported, name)
		}
	}
}

func TestRunDelayKeepsWhatThreadsHadThatExited(t *testing.T) {
	OnlyOnLinux(t)
	tasks := t.TempDir()
	write := func(tid, text string) {
		require.NoError(t, os.MkdirAll(filepath.Join(tasks, tid), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(tasks, tid, "schedstat"), []byte(text), 0o644))
	}
	m := newMachine(fstest.MapFS{}, "/proc/self/task")
	m.tasks = kernel.NewThreadReader(tasks)
	write("7", "100 5000 1\n")
	write("8", "100 6000 1\n")
	delay, err := m.RunDelay()
	require.NoError(t, err)
	assert.Equal(t, 11*time.Microsecond, delay)
	require.NoError(t, os.RemoveAll(filepath.Join(tasks, "8")))
	write("7", "100 7000 1\n")
	delay, err = m.RunDelay()
	require.NoError(t, err)
	assert.Equal(t, 13*time.Microsecond, delay)
}

func TestMachineFromManyGoroutines(t *testing.T) {
	m := newMachine(files(unifiedTree()), "/proc/self/task")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				readings(m)
			}
		})
	}
	group.Wait()
}

func TestThisMachine(t *testing.T) {
	for range 2 {
		for name, err := range readings(thisMachine) {
			if err != nil {
				assert.ErrorIs(t, err, errors.ErrUnsupported, "%s: nothing that exists here is unreadable", name)
			}
		}
	}
	limit, err := thisMachine.CPULimit()
	if err == nil {
		assert.Positive(t, limit)
	}
	descriptors, err := thisMachine.DescriptorLimit()
	if !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(t, err)
		assert.Positive(t, descriptors)
	}
}
