package kernel_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// taskDirectory makes a directory like /proc/self/task, with the text of the
// schedstat of each thread. A thread without text has no such file.
func taskDirectory(t *testing.T, schedstats map[int]string) string {
	t.Helper()
	directory := t.TempDir()
	for tid, text := range schedstats {
		task := filepath.Join(directory, strconv.Itoa(tid))
		require.NoError(t, os.Mkdir(task, 0o755))
		if text != "" {
			require.NoError(t, os.WriteFile(filepath.Join(task, "schedstat"), []byte(text), 0o644))
		}
	}
	return directory
}

func TestTaskReader(t *testing.T) {
	directory := taskDirectory(t, map[int]string{
		7: "70 1 5\n", 8: "80 2 6\n", 9: "", // 9 has exited between the list and now
	})
	require.NoError(t, os.Mkdir(filepath.Join(directory, "not-a-thread"), 0o755))

	reading, err := kernel.NewTaskReader(directory).Read()
	require.NoError(t, err)
	assert.Equal(t, kernel.TaskTimes{Tasks: map[int]kernel.SchedTime{7: {70, 1}, 8: {80, 2}}}, reading)
}

func TestTaskReaderReadsSomeOfManyThreads(t *testing.T) {
	schedstats := map[int]string{}
	for tid := range 300 {
		schedstats[1+tid] = "10 2 1\n"
	}
	reader := kernel.NewTaskReader(taskDirectory(t, schedstats))
	reading, err := reader.Read()
	require.NoError(t, err)
	assert.LessOrEqual(t, len(reading.Tasks), 256)
	assert.Equal(t, 300, len(reading.Tasks)+reading.LeftOut)

	var total kernel.TaskTotal
	assert.Equal(t, kernel.SchedTime{Run: 3000, Delay: 600}, total.Add(reading))

	again, err := reader.Read()
	require.NoError(t, err)
	assert.Equal(t, reading, again)
}

func TestTaskReaderReportsWhatItCannotRead(t *testing.T) {
	for name, c := range map[string]struct {
		schedstats map[int]string
		want       error
		message    string
	}{
		"a kernel without the file":    {map[int]string{7: "", 8: ""}, errors.ErrUnsupported, ""},
		"a kernel that does not count": {map[int]string{7: "0 0 0\n", 8: "0 0 0\n"}, errors.ErrUnsupported, ""},
		"no threads":                   {nil, errors.ErrUnsupported, ""},
		"garbage":                      {map[int]string{7: "broken\n"}, nil, `/7/schedstat: fewer than 3 numbers in "broken\n"`},
		"negative":                     {map[int]string{7: "-1 2 3\n"}, nil, `/7/schedstat: run time: "-1"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kernel.NewTaskReader(taskDirectory(t, c.schedstats)).Read()
			require.ErrorContains(t, err, c.message)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
		})
	}
	_, err := kernel.NewTaskReader("/proc/self/no-such-directory").Read()
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestTaskReaderSeesThisProcessRun(t *testing.T) {
	reader := kernel.NewTaskReader("/proc/self/task")
	var total kernel.TaskTotal
	reading, err := reader.Read()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	before := total.Add(reading)

	const burnt = 100 * time.Millisecond
	burn(burnt)

	reading, err = reader.Read()
	require.NoError(t, err)
	after := total.Add(reading)
	assert.Contains(t, reading.Tasks, os.Getpid())
	// The scheduler adds a tick late; other goroutines of the test run too.
	assert.Greater(t, after.Run-before.Run, burnt*8/10)
	assert.GreaterOrEqual(t, after.Delay, before.Delay)
}

// burn uses that much CPU on one thread, which then ends.
func burn(cpu time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		start := threadTime()
		for threadTime()-start < cpu {
			for range 1_000_000 {
			}
		}
	}()
	<-done
}

func threadTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}

func TestTaskReaderKeepsNoDescriptor(t *testing.T) {
	reader := kernel.NewTaskReader("/proc/self/task")
	before, err := kernel.CountEntries("/proc/self/fd")
	require.NoError(t, err)
	for range 100 {
		_, err := reader.Read()
		require.NoError(t, err)
	}
	after, err := kernel.CountEntries("/proc/self/fd")
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

func TestCountEntries(t *testing.T) {
	directory := t.TempDir()
	for i := range 400 { // more than one buffer of entries
		require.NoError(t, os.Mkdir(filepath.Join(directory, fmt.Sprint(i)), 0o755))
	}
	entries, err := kernel.CountEntries(directory)
	require.NoError(t, err)
	assert.Equal(t, int64(400), entries)

	_, err = kernel.CountEntries(filepath.Join(directory, "missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "missing")
}

func TestDescriptorLimit(t *testing.T) {
	var want unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &want))
	limit, err := kernel.DescriptorLimit()
	require.NoError(t, err)
	assert.Equal(t, want.Cur, uint64(limit))
}

func BenchmarkTaskReader(b *testing.B) {
	for _, threads := range []int{0, 50, 250} {
		b.Run(fmt.Sprintf("more=%d", threads), func(b *testing.B) {
			stop := make(chan struct{})
			defer close(stop)
			started := make(chan struct{})
			for range threads {
				go func() {
					runtime.LockOSThread() // never unlocked, so that the thread ends with it
					started <- struct{}{}
					<-stop
				}()
				<-started
			}
			reader := kernel.NewTaskReader("/proc/self/task")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := reader.Read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
