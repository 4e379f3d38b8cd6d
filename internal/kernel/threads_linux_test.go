package kernel_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// taskDirectory makes a directory like /proc/self/task, with the text of one
// file of each thread. A thread without text has no such file.
func taskDirectory(t *testing.T, file string, texts map[int]string) string {
	t.Helper()
	directory := t.TempDir()
	for tid, text := range texts {
		task := filepath.Join(directory, strconv.Itoa(tid))
		require.NoError(t, os.Mkdir(task, 0o755))
		if text != "" {
			require.NoError(t, os.WriteFile(filepath.Join(task, file), []byte(text), 0o644))
		}
	}
	return directory
}

func TestThreadReader(t *testing.T) {
	directory := taskDirectory(t, "schedstat", map[int]string{
		7: "70 1 5\n", 8: "80 2 6\n", 9: "", // 9 has exited between the list and now
	})
	require.NoError(t, os.Mkdir(filepath.Join(directory, "not-a-thread"), 0o755))

	reader := kernel.NewThreadReader(directory)
	times, err := reader.Read()
	require.NoError(t, err)
	assert.Equal(t, kernel.ThreadTimes{SchedTime: kernel.SchedTime{Run: 150, Delay: 3, Slices: 11}, Whole: true}, times)

	require.NoError(t, os.WriteFile(filepath.Join(directory, "8", "schedstat"), []byte("90 4 7\n"), 0o644))
	times, err = reader.Read()
	require.NoError(t, err)
	assert.Equal(t, kernel.SchedTime{Run: 160, Delay: 5, Slices: 12}, times.SchedTime)
}

func TestH61RunDelayIsTheSumOverAllThreads(t *testing.T) {
	texts := map[int]string{}
	for tid := 1; tid <= 1_006; tid++ {
		texts[tid] = "10 2 1\n"
	}
	directory := taskDirectory(t, "schedstat", texts)
	reader := kernel.NewThreadReader(directory)
	before, err := reader.Read()
	require.NoError(t, err)
	assert.Equal(t, kernel.SchedTime{Run: 10_060, Delay: 2_012, Slices: 1_006}, before.SchedTime)

	for _, tid := range []string{"5", "777"} {
		require.NoError(t, os.WriteFile(filepath.Join(directory, tid, "schedstat"), []byte("1010 5002 100\n"), 0o644))
	}
	after, err := reader.Read()
	require.NoError(t, err)
	assert.Equal(t, time.Duration(10_000), after.Delay-before.Delay)
	assert.True(t, after.Whole)
}

func TestThreadReaderReportsWhatItCannotRead(t *testing.T) {
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
			_, err := kernel.NewThreadReader(taskDirectory(t, "schedstat", c.schedstats)).Read()
			require.ErrorContains(t, err, c.message)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
		})
	}
	_, err := kernel.NewThreadReader("/proc/self/no-such-directory").Read()
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = kernel.NewThreadReader("/proc/self/no-such-directory").Children()
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestThreadReaderSeesThisProcessRun(t *testing.T) {
	reader := kernel.NewThreadReader("/proc/self/task")
	before, err := reader.Read()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)

	const burnt = 100 * time.Millisecond
	burn(burnt)

	after, err := reader.Read()
	require.NoError(t, err)
	// The scheduler adds a tick late; other goroutines of the test run too.
	assert.Greater(t, after.Run-before.Run, burnt*8/10)
	assert.GreaterOrEqual(t, after.Delay, before.Delay)
	assert.Greater(t, after.Slices, before.Slices)
}

// burn uses that much CPU on one thread, which lives on for the reading: a
// thread that ends takes with it what it did since the reading before.
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

func TestThreadReaderKeepsNoDescriptor(t *testing.T) {
	reader := kernel.NewThreadReader("/proc/self/task")
	before, err := kernel.CountEntries("/proc/self/fd")
	require.NoError(t, err)
	for range 100 {
		_, err := reader.Read()
		require.NoError(t, err)
		_, err = reader.Children()
		if !errors.Is(err, errors.ErrUnsupported) {
			require.NoError(t, err)
		}
	}
	after, err := kernel.CountEntries("/proc/self/fd")
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

func TestThreadReaderAllocatesNothingForAThread(t *testing.T) {
	texts := map[int]string{}
	for tid := 1; tid <= 100; tid++ {
		texts[tid] = "10123456789 212345678 1123\n"
	}
	reader := kernel.NewThreadReader(taskDirectory(t, "schedstat", texts))
	_, err := reader.Read()
	require.NoError(t, err)
	allocations := testing.AllocsPerRun(20, func() { _, err = reader.Read() })
	require.NoError(t, err)
	assert.LessOrEqual(t, allocations, 5.0, "a few for the directory, none for each of 100 threads")
}

func TestChildren(t *testing.T) {
	many := strings.Repeat("1234567 ", 5_000) // more than one buffer
	reader := kernel.NewThreadReader(taskDirectory(t, "children", map[int]string{
		7: "71 72 ", 8: many, 9: "", 10: "101 ",
	}))
	children, err := reader.Children()
	require.NoError(t, err)
	assert.Equal(t, int64(5_003), children)

	_, err = kernel.NewThreadReader(taskDirectory(t, "children", map[int]string{7: "", 8: ""})).Children()
	require.ErrorIs(t, err, errors.ErrUnsupported, "a kernel without the file")
}

func TestChildrenOfThisProcess(t *testing.T) {
	reader := kernel.NewThreadReader("/proc/self/task")
	before, err := reader.Children()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	for range 3 {
		child := exec.Command("cat")
		stdin, err := child.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		defer child.Wait() //nolint:errcheck // it ends with its input
		defer stdin.Close()
	}
	after, err := reader.Children()
	require.NoError(t, err)
	assert.Equal(t, before+3, after)
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

func BenchmarkThreadReader(b *testing.B) {
	for _, threads := range []int{0, 50, 250, 1_000} {
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
			reader := kernel.NewThreadReader("/proc/self/task")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := reader.Read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
