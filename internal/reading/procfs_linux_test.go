package reading

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestH34CPUTime(t *testing.T) {
	if !alone(t) {
		return
	}
	source := NewProcess()
	userBefore, systemBefore, err := source.CPUTime()
	require.NoError(t, err)

	burnt := make(chan struct{})
	go func() {
		burnCPU(300 * time.Millisecond)
		close(burnt)
	}()
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()
	user, system := userBefore, systemBefore
	for burning := true; burning; {
		select {
		case <-burnt:
			burning = false
		case <-pause.C:
		}
		userNow, systemNow, err := source.CPUTime()
		require.NoError(t, err)
		require.GreaterOrEqual(t, userNow, user)
		require.GreaterOrEqual(t, systemNow, system)
		user, system = userNow, systemNow
	}
	assert.GreaterOrEqual(t, user-userBefore, 0.25)
	assert.LessOrEqual(t, user-userBefore, 0.40)
}

// burnCPU uses that much of a processor, however long others make it take.
func burnCPU(cpu time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
			panic(err)
		}
		return time.Duration(now.Nano())
	}
	for start := used(); used()-start < cpu; {
		for range 1_000_000 { // so that the reading of the clock is no part of it
		}
	}
}

// burnVariable makes a child of TestCPUTimeExcludesChildren use CPU.
const burnVariable = "OBSERVER_TEST_BURN"

func TestCPUTimeExcludesChildren(t *testing.T) {
	if os.Getenv(burnVariable) != "" {
		burnCPU(time.Second)
		return
	}
	if !alone(t) {
		return
	}
	source := NewProcess()
	userBefore, systemBefore, err := source.CPUTime()
	require.NoError(t, err)

	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), burnVariable+"=1")
	require.NoError(t, child.Run())
	require.Greater(t, child.ProcessState.UserTime(), 900*time.Millisecond)

	user, system, err := source.CPUTime()
	require.NoError(t, err)
	assert.Less(t, user+system-userBefore-systemBefore, 0.5)
}

func TestH35OpenDescriptors(t *testing.T) {
	if !alone(t) {
		return
	}
	source := NewProcess()
	open := func() (close func()) {
		file, err := os.Open(os.DevNull)
		require.NoError(t, err)
		return func() { require.NoError(t, file.Close()) }
	}
	open()() // the first makes descriptors of the runtime's own

	before, err := source.OpenDescriptors()
	require.NoError(t, err)
	var closes []func()
	for range 10 {
		closes = append(closes, open())
	}
	during, err := source.OpenDescriptors()
	require.NoError(t, err)
	for _, close := range closes {
		close()
	}
	after, err := source.OpenDescriptors()
	require.NoError(t, err)
	assert.Equal(t, before+10, during)
	assert.Equal(t, before, after)

	for range 1_000 {
		_, _, err := source.CPUTime()
		require.NoError(t, err)
		_, err = source.ResidentMemory()
		require.NoError(t, err)
		_, err = source.Threads()
		require.NoError(t, err)
		descriptors, err := source.OpenDescriptors()
		require.NoError(t, err)
		require.Equal(t, before, descriptors)
	}

	// The way of older kernels gives the same number.
	counted, err := countDescriptors("/proc/self/fd")
	require.NoError(t, err)
	assert.Equal(t, before, counted)
}

func TestH36Threads(t *testing.T) {
	if !alone(t) {
		return
	}
	source := NewProcess()
	stop := make(chan struct{})
	defer close(stop)
	block := func(goroutines int, lock bool) {
		for range goroutines {
			blocking := make(chan struct{})
			go func() {
				if lock {
					runtime.LockOSThread()
				}
				close(blocking)
				<-stop
			}()
			<-blocking
		}
	}
	// Goroutines make the runtime start a few threads; these are the first.
	block(50, false)
	runtime.GC()

	before, err := source.Threads()
	require.NoError(t, err)
	block(50, false)
	blocked, err := source.Threads()
	require.NoError(t, err)
	block(20, true)
	locked, err := source.Threads()
	require.NoError(t, err)
	assert.Equal(t, before, blocked)
	assert.GreaterOrEqual(t, locked, before+15)
	assert.LessOrEqual(t, locked, before+25)

	// The link count and the text of status are the same number.
	for {
		counted, err := source.Threads()
		require.NoError(t, err)
		text, err := os.ReadFile("/proc/self/status")
		require.NoError(t, err)
		again, err := source.Threads()
		require.NoError(t, err)
		if counted != again {
			continue // the runtime has started one meanwhile
		}
		said, err := kernel.ParseThreads(text)
		require.NoError(t, err)
		assert.Equal(t, said, counted)
		break
	}
}

func TestH37ResidentMemory(t *testing.T) {
	if !alone(t) {
		return
	}
	const mebibyte = 1 << 20
	source := NewProcess()
	before, err := source.ResidentMemory()
	require.NoError(t, err)

	// Memory of its own, so that the race detector does not shadow it.
	touched, err := unix.Mmap(-1, 0, 64*mebibyte, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	for i := 0; i < len(touched); i += os.Getpagesize() {
		touched[i] = 1
	}
	after, err := source.ResidentMemory()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, after-before, int64(60*mebibyte))
	assert.LessOrEqual(t, after-before, int64(90*mebibyte))
	assert.InEpsilon(t, exactResidentMemory(t), after, 0.1)
	require.NoError(t, unix.Munmap(touched))
}

// exactResidentMemory returns what the kernel finds in the page tables, in
// bytes, and not in the counters that statm has.
func exactResidentMemory(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Skip("needs Linux 4.14: ", err)
	}
	_, rest, found := strings.Cut(string(text), "\nRss:")
	require.True(t, found, "%s", text)
	var kibibytes int64
	_, err = fmt.Sscan(rest, &kibibytes)
	require.NoError(t, err)
	return kibibytes << 10
}

func TestReadingsWithoutDescriptorsLeft(t *testing.T) {
	if !alone(t) {
		return
	}
	source := NewProcess()
	_, err := source.ResidentMemory()
	require.NoError(t, err)

	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}))
	var opened []int
	for err == nil {
		var descriptor int
		if descriptor, err = unix.Dup(0); err == nil {
			opened = append(opened, descriptor)
		}
	}
	require.ErrorIs(t, err, unix.EMFILE)
	require.NotEmpty(t, opened)

	user, system, cpuErr := source.CPUTime()
	threads, threadsErr := source.Threads()
	descriptors, descriptorsErr := source.OpenDescriptors()
	memory, memoryErr := source.ResidentMemory()
	for _, descriptor := range opened {
		require.NoError(t, unix.Close(descriptor))
	}

	require.NoError(t, cpuErr)
	assert.Positive(t, user+system)
	require.NoError(t, threadsErr)
	assert.Positive(t, threads)
	if !errors.Is(descriptorsErr, unix.EMFILE) { // before Linux 6.2
		require.NoError(t, descriptorsErr)
		assert.GreaterOrEqual(t, descriptors, int64(64))
	}
	require.NoError(t, memoryErr)
	assert.Positive(t, memory)
}

// everyReading reads all that has a kept descriptor.
func everyReading(t *testing.T, source Process) (memory, threads, descriptors int64) {
	memory, err := source.ResidentMemory()
	require.NoError(t, err)
	threads, err = source.Threads()
	require.NoError(t, err)
	descriptors, err = source.OpenDescriptors()
	require.NoError(t, err)
	return memory, threads, descriptors
}

func TestReadingsAreRightWhateverBecomesOfTheirDescriptors(t *testing.T) {
	if !alone(t) {
		return
	}
	source := newProcfs("/proc/self")
	defer source.Close()
	memory, threads, descriptors := everyReading(t, source)
	check := func(fewer int64) {
		t.Helper()
		memoryNow, threadsNow, descriptorsNow := everyReading(t, source)
		assert.InEpsilon(t, memory, memoryNow, 0.5)
		assert.InDelta(t, threads, threadsNow, 10)
		assert.Equal(t, descriptors-fewer, descriptorsNow)
	}
	check(0)

	// An application closes what is not its own, and other files get the numbers.
	kept := []*kept{&source.statm, &source.task, &source.descriptors}
	for _, k := range kept {
		require.NoError(t, unix.Close(int(k.descriptor)))
	}
	check(3)
	others := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(others, []byte("1 1 1 1 0 1 0\n"), 0o644))
	for _, k := range kept {
		other, err := unix.Open(others, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(other)
		require.EqualValues(t, k.descriptor, other, "the kernel gives the lowest free number")
	}
	check(0)

	source.Close()
	check(0) // none of them was closed: they are the application's
}

// A file of the same file system is told by its number there.
func TestReadingsAreNotFooledByAnotherFileOfProc(t *testing.T) {
	if !alone(t) {
		return
	}
	source := newProcfs("/proc/self")
	defer source.Close()
	memory, _, _ := everyReading(t, source)
	require.NoError(t, unix.Close(source.statm.descriptor))
	other, err := unix.Open("/proc/self/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(other)
	require.Equal(t, source.statm.descriptor, other)
	now, err := source.ResidentMemory()
	require.NoError(t, err)
	assert.InEpsilon(t, memory, now, 0.5)
}

// A descriptor that is closed in the middle of a reading would be another file's.
func TestReadingsAreRightWhileTheSourceIsClosed(t *testing.T) {
	if !alone(t) {
		return
	}
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, []byte("1 123456789 1 1 0 1 0\n"), 0o644))
	for range 300 {
		source := newProcfs("/proc/self")
		var stop atomic.Bool
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				for !stop.Load() {
					if memory, err := source.ResidentMemory(); assert.NoError(t, err) {
						assert.Less(t, memory, int64(123456789)<<10)
					}
				}
			})
		}
		runtime.Gosched()
		source.Close()
		var opened []int
		for range 3 {
			descriptor, err := unix.Open(other, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			require.NoError(t, err)
			opened = append(opened, descriptor)
		}
		stop.Store(true)
		readers.Wait()
		for _, descriptor := range opened {
			require.NoError(t, unix.Close(descriptor))
		}
	}
}

func TestReadingsGoOnAfterTheSourceIsClosed(t *testing.T) {
	if !alone(t) {
		return
	}
	source := newProcfs("/proc/self")
	_, _, before := everyReading(t, source)
	source.Close()
	source.Close()
	_, _, after := everyReading(t, source)
	assert.Equal(t, before-3, after)
}

func TestResidentMemoryReportsWhatItCannotUse(t *testing.T) {
	for name, c := range map[string]struct{ statm, message string }{
		"empty":     {"", `no resident size in ""`},
		"cut short": {"309331 29", `no resident size in "309331 29"`},
		"garbage":   {"all your base\n", `resident size: "your"`},
		"negative":  {"1 -1 1 1 0 1 0\n", `resident size: "-1"`},
		"zombie":    {"0 0 0 0 0 0 0\n", "0 resident pages"},
		"too large": {"1 9223372036854775807 1 1 0 1 0\n", "9223372036854775807 resident pages"},
	} {
		t.Run(name, func(t *testing.T) {
			source := newProcfs(t.TempDir())
			require.NoError(t, os.WriteFile(source.statm.path, []byte(c.statm), 0o644))
			memory, err := source.ResidentMemory()
			require.ErrorContains(t, err, source.statm.path+": "+c.message)
			assert.Zero(t, memory)
		})
	}
}

func TestThreadsFromStatus(t *testing.T) {
	source := newProcfs(t.TempDir())
	// A file has a link count of 1, too small for a directory of threads.
	require.NoError(t, os.WriteFile(source.task.path, nil, 0o644))

	_, err := source.Threads()
	require.ErrorIs(t, err, fs.ErrNotExist)

	require.NoError(t, os.WriteFile(source.status, []byte("Name:\tapi\nThreads:\tx\n"), 0o644))
	_, err = source.Threads()
	require.ErrorContains(t, err, source.status+": threads: \"x\"")

	require.NoError(t, os.WriteFile(source.status, []byte("Name:\tapi\nThreads:\t17\n"), 0o644))
	threads, err := source.Threads()
	require.NoError(t, err)
	assert.Equal(t, int64(17), threads)
}

func TestReadingsWithoutProc(t *testing.T) {
	source := newProcfs(filepath.Join(t.TempDir(), "self"))
	_, err := source.ResidentMemory()
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = source.Threads()
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = source.OpenDescriptors()
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, _, err = source.CPUTime()
	require.NoError(t, err)
}

func TestCountDescriptorsNeedsItsOwn(t *testing.T) {
	empty := t.TempDir()
	_, err := countDescriptors(empty)
	require.ErrorContains(t, err, empty)

	_, err = countDescriptors(filepath.Join(empty, "missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestSecondsOf32And64BitTimes(t *testing.T) {
	assert.Equal(t, 0.0, seconds(unix.Timeval{}))
	assert.InDelta(t, 2147483647.999999, seconds(unix.Timeval{Sec: math.MaxInt32, Usec: 999_999}), 1e-6)
}
