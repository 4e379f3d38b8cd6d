package reading

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/gym-observer/observer/internal/number"
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
		"proc/self/cgroup":                 "0::/pod/app\n",
		"proc/self/mountinfo":              "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/cgroup.controllers": "cpu memory\n", // and no cgroup.events: it is the root
		"sys/fs/cgroup/cpu.stat":           "usage_usec 1\n",
		"sys/fs/cgroup/pod/cpu.max":        "50000 100000\n",
		"sys/fs/cgroup/pod/cpu.stat":       "nr_throttled 4\nthrottled_usec 1500000\n",
		"sys/fs/cgroup/pod/app/cpu.max":    "max 100000\n",
		"sys/fs/cgroup/pod/app/cpu.stat":   "nr_throttled 0\nthrottled_usec 0\n",

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
		"sys/fs/cgroup/cpu/cgroup.sane_behavior":         "0\n", // the root
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
			m := newMachine(fsys, ownTasks)
			limit, err := m.CPULimit()
			require.NoError(t, err)
			assert.Equal(t, 0.5, limit)
			use, err := m.Memory()
			require.NoError(t, err)
			assert.Equal(t, GroupMemory{Used: 1 << 20, Limit: 4 << 20}, use)

			total, err := m.Throttled()
			require.NoError(t, err)
			assert.Zero(t, total.Time, "counted from the first reading on")
			assert.Zero(t, total.Periods)
			fsys[test.stat] = &fstest.MapFile{Data: []byte(test.later)}
			total, err = m.Throttled()
			require.NoError(t, err)
			assert.Equal(t, 500*time.Millisecond, total.Time)
			assert.EqualValues(t, 2, total.Periods)
			assert.Empty(t, total.Unseen)
			fsys[test.stat] = &fstest.MapFile{Data: []byte(test.tree[test.stat])} // it began anew
			total, err = m.Throttled()
			require.NoError(t, err)
			assert.Equal(t, 500*time.Millisecond, total.Time, "a total never falls")
			assert.Contains(t, total.Unseen, "made anew")
		})
	}
}

func TestQuotaOfTheGroupThatTheProcessWasMovedTo(t *testing.T) {
	fsys := files(unifiedTree())
	m := newMachine(fsys, ownTasks)
	_, err := m.Throttled()
	require.NoError(t, err)
	fsys["proc/self/cgroup"] = &fstest.MapFile{Data: []byte("0::/other\n")}
	fsys["sys/fs/cgroup/other/cpu.max"] = &fstest.MapFile{Data: []byte("200000 100000\n")}
	fsys["sys/fs/cgroup/other/cpu.stat"] = &fstest.MapFile{Data: []byte("nr_throttled 900\nthrottled_usec 7000000000\n")}
	limit, err := m.CPULimit()
	require.NoError(t, err)
	assert.Equal(t, min(2, processors(t)), limit)
	total, err := m.Throttled()
	require.NoError(t, err)
	assert.Zero(t, total.Time, "what was stopped there before is not this process's")
	assert.Contains(t, total.Unseen, "moved", "and nobody knows what was stopped of it between the two")
}

// processors are those of the affinity mask, all that the machine has where no
// such thing is known.
func processors(t *testing.T) float64 {
	t.Helper()
	mask, err := kernel.Affinity()
	if errors.Is(err, errors.ErrUnsupported) {
		return float64(runtime.NumCPU())
	}
	require.NoError(t, err)
	return float64(mask.Count())
}

func TestMissingFilesAreUnsupported(t *testing.T) {
	m := newMachine(fstest.MapFS{}, filepath.Join(t.TempDir(), "nowhere"))
	for name, err := range readings(m) {
		assert.ErrorIs(t, err, errors.ErrUnsupported, name)
	}
	limit, _ := m.CPULimit()
	assert.Equal(t, processors(t), limit, "the quota is not known, the mask is")

	// A machine without control groups.
	m = newMachine(files(map[string]string{"proc/self/cgroup": "", "proc/self/mountinfo": "21 1 8:1 / / rw - ext4 /dev/sda rw\n"}), ownTasks)
	assert.ErrorIs(t, readings(m)["memory"], errors.ErrUnsupported)
	assert.ErrorIs(t, readings(m)["processors"], errors.ErrUnsupported, "the file is missing")
	limit, err := m.CPULimit()
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	assert.Equal(t, processors(t), limit)
	throttled, err := m.Throttled()
	assert.NoError(t, err, "without a hierarchy there is no quota")
	assert.Equal(t, kernel.Throttled{}, throttled)
}

const ownTasks = "/proc/self/task"

// readings are the errors of what a machine reads from its files.
func readings(m *machine) map[string]error {
	_, threads := m.Threads()
	_, throttled := m.Throttled()
	_, limit := m.CPULimit()
	_, memory := m.Memory()
	_, processors := m.Processors()
	_, children := m.Children()
	return map[string]error{
		"threads": threads, "throttled": throttled, "cpuLimit": limit,
		"memory": memory, "processors": processors, "children": children,
	}
}

// onlyOnLinux skips a test of what the kernel lists of each thread.
func onlyOnLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells what its threads wait")
	}
}

func TestGarbageIsAnErrorThatGoesAway(t *testing.T) {
	onlyOnLinux(t)
	tree := unifiedTree()
	for name := range tree {
		tree[name] = "\x00garbage\xff"
	}
	tree["proc/stat"] = "cpu nonsense\n"
	fsys := files(tree)
	tasks := tasksOf(t, map[string]string{"1/schedstat": "garbage", "1/children": ""})
	m := newMachine(fsys, tasks)
	for name, err := range readings(m) {
		if name == "children" { // are counted, not read
			continue
		}
		assert.Error(t, err, name)
		assert.NotErrorIs(t, err, errors.ErrUnsupported, name)
	}
	limit, _ := m.CPULimit()
	assert.Equal(t, processors(t), limit, "the mask is known all the same")

	for name, text := range unifiedTree() {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	fsys["proc/stat"] = &fstest.MapFile{Data: []byte("cpu 10 20 30 40 50 60 70 80 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n")}
	writeTask(t, tasks, "1/schedstat", "2000 3000 4\n")
	for name, err := range readings(m) {
		assert.NoError(t, err, name)
	}
	spent, err := m.Processors()
	require.NoError(t, err)
	assert.Equal(t, number.Known(80), spent.Steal)
	assert.Equal(t, number.Known(360), spent.Total)
	threads, err := m.Threads()
	require.NoError(t, err)
	assert.Equal(t, 3*time.Microsecond, threads.Delay)
}

// tasksOf is a directory like /proc/self/task, with these files.
func tasksOf(t *testing.T, texts map[string]string) (directory string) {
	t.Helper()
	directory = t.TempDir()
	for name, text := range texts {
		writeTask(t, directory, name, text)
	}
	return directory
}

func writeTask(t *testing.T, tasks, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(tasks, name)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(tasks, name), []byte(text), 0o644))
}

// deniedFS has files that may not be read.
type deniedFS struct{}

func (deniedFS) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestDeniedFilesAreAFailureThatIsSaid(t *testing.T) {
	m := newMachine(deniedFS{}, ownTasks)
	for name, err := range readings(m) {
		if name != "threads" && name != "children" { // which are not below its root
			assert.ErrorIs(t, err, fs.ErrPermission, name)
			assert.NotErrorIs(t, err, errors.ErrUnsupported, name)
		}
	}
}

func TestThreadsKeepWhatThoseHadThatExited(t *testing.T) {
	onlyOnLinux(t)
	tasks := tasksOf(t, map[string]string{"7/schedstat": "100 5000 1\n", "8/schedstat": "100 6000 2\n"})
	m := newMachine(fstest.MapFS{}, tasks)
	threads, err := m.Threads()
	require.NoError(t, err)
	assert.Equal(t, 11*time.Microsecond, threads.Delay)
	assert.EqualValues(t, 3, threads.Slices)
	assert.True(t, threads.Whole)
	require.NoError(t, os.RemoveAll(filepath.Join(tasks, "8")))
	writeTask(t, tasks, "7/schedstat", "100 7000 2\n")
	threads, err = m.Threads()
	require.NoError(t, err)
	assert.Equal(t, 13*time.Microsecond, threads.Delay)
	assert.EqualValues(t, 4, threads.Slices)
}

func TestChildrenOfAllThreadsCount(t *testing.T) {
	onlyOnLinux(t)
	m := newMachine(fstest.MapFS{}, tasksOf(t, map[string]string{"7/children": "70 71 ", "8/children": "", "9/children": "90 "}))
	children, err := m.Children()
	require.NoError(t, err)
	assert.EqualValues(t, 3, children)

	m = newMachine(fstest.MapFS{}, tasksOf(t, map[string]string{"7/schedstat": "100 7000 2\n"}))
	_, err = m.Children()
	assert.ErrorIs(t, err, errors.ErrUnsupported, "this kernel does not list them")
}

func TestH65MemoryHighIsTheLimitBelowMemoryMax(t *testing.T) {
	const high, max = "sys/fs/cgroup/pod/app/memory.high", "sys/fs/cgroup/pod/app/memory.max"
	for name, test := range map[string]struct {
		high, max string
		want      GroupMemory
	}{
		"high alone":     {"3145728\n", "max\n", GroupMemory{Used: 1 << 20, Limit: 3 << 20, High: true}},
		"high is lower":  {"3145728\n", "4194304\n", GroupMemory{Used: 1 << 20, Limit: 3 << 20, High: true}},
		"high is higher": {"5242880\n", "4194304\n", GroupMemory{Used: 1 << 20, Limit: 4 << 20}},
		"no high":        {"max\n", "4194304\n", GroupMemory{Used: 1 << 20, Limit: 4 << 20}},
		"neither":        {"max\n", "max\n", GroupMemory{}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := unifiedTree()
			tree[high], tree[max] = test.high, test.max
			use, err := newMachine(files(tree), ownTasks).Memory()
			require.NoError(t, err)
			assert.Equal(t, test.want, use)
		})
	}
}

func TestMemoryStallsAreEvidenceWhereTheKernelCountsThem(t *testing.T) {
	const pressure = "sys/fs/cgroup/pod/app/memory.pressure"
	tree := unifiedTree()
	tree[pressure] = "some avg10=0.00 avg60=0.00 avg300=0.00 total=9000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\n"
	fsys := files(tree)
	m := newMachine(fsys, ownTasks)
	use, err := m.Memory()
	require.NoError(t, err)
	assert.Equal(t, number.Known(2.5), use.Stalled)

	fsys[pressure] = &fstest.MapFile{Data: []byte("garbage")}
	use, err = m.Memory()
	require.NoError(t, err, "the use is known all the same")
	assert.EqualValues(t, 1<<20, use.Used)
	assert.False(t, use.Stalled.IsKnown())
}

// A container of cgroup v2 sees its own group and none above, on a kernel before
// 6.6 which has no cpu.stat.local.
func TestH66AQuotaThatCannotBeSeenIsSaid(t *testing.T) {
	tree := unifiedTree()
	tree["sys/fs/cgroup/cgroup.events"] = "populated 1\n" // which the root of the hierarchy has not
	fsys := files(tree)
	m := newMachine(fsys, ownTasks)
	throttled, err := m.Throttled()
	require.NoError(t, err, "what was seen is true as far as it goes")
	assert.Contains(t, throttled.Unseen, "what is above cannot be seen")

	fsys["proc/self/cgroup"] = &fstest.MapFile{Data: []byte("0::/../elsewhere\n")}
	throttled, err = m.Throttled()
	require.ErrorIs(t, err, errors.ErrUnsupported, "nothing was seen at all")
	assert.NotEmpty(t, throttled.Unseen)
}

func TestMachineFromManyGoroutines(t *testing.T) {
	m := newMachine(files(unifiedTree()), ownTasks)
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
	m := newMachine(kernel.Files("/"), ownTasks)
	for range 2 {
		for name, err := range readings(m) {
			if err != nil {
				assert.ErrorIs(t, err, errors.ErrUnsupported, "%s: nothing that exists here is unreadable", name)
			}
		}
	}
	limit, err := m.CPULimit()
	assert.Positive(t, limit, "%v", err)
	assert.LessOrEqual(t, limit, processors(t))
	descriptors, err := m.DescriptorLimit()
	if !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(t, err)
		assert.Positive(t, descriptors)
	}
}
