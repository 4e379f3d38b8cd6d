package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ThreadReader reads the threads of a process. It keeps its buffers, and no
// descriptor. It is not safe for concurrent use.
type ThreadReader struct {
	path   string
	clock  func() (time.Duration, error) // the CPU time of the process
	table  threadTable
	buffer []byte
	name   [32]byte // of one file, as the kernel wants it: with a zero byte at the end
}

// NewThreadReader returns a reader of the directory at path, "/proc/self/task"
// for the process itself.
func NewThreadReader(path string) *ThreadReader {
	return &ThreadReader{path: path, clock: processCPU, buffer: make([]byte, directoryBuffer)}
}

// processCPU returns the CPU time of this process. Like schedstat, and unlike
// getrusage, it is what the scheduler counted and is not cut up into ticks.
func processCPU() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now); err != nil {
		return 0, fmt.Errorf("CPU time of the process: %w", err)
	}
	return time.Duration(now.Nano()), nil
}

// Read reads every thread, and up to [MaxThreads] where there are more, and
// returns what all of them have run and waited so far. The first reading counts
// what today's threads did in their lives; a window is the difference of two
// readings. A thread that exits keeps what it had when it was last read. A kernel
// that keeps no such times gives an error that wraps [errors.ErrUnsupported].
//
// It costs one list of the directory and open, read and close for each thread,
// 6 µs together, and allocates nothing for a thread that it has seen before.
func (r *ThreadReader) Read() (ThreadTimes, error) {
	directory, err := unix.Open(r.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ThreadTimes{}, fmt.Errorf("opening %s: %w", r.path, err)
	}
	defer unix.Close(directory)
	// Before the threads are read: where one of many is read late, and has run
	// since, the totals differ by less than what one window has.
	cpu, err := r.clock()
	if err != nil {
		return ThreadTimes{}, err
	}

	r.table.begin()
	err = r.each(directory, func(tid int32) error { r.table.list(tid); return nil })
	if err != nil {
		return ThreadTimes{}, err
	}
	ran := false
	for _, tid := range r.table.chosen() {
		text, err := r.readFile(directory, tid, "/schedstat")
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
			continue // the thread has exited
		}
		if err != nil {
			return ThreadTimes{}, fmt.Errorf("reading %s/%d/schedstat: %w", r.path, tid, err)
		}
		times, err := ParseSchedstat(text)
		if err != nil {
			return ThreadTimes{}, fmt.Errorf("%s/%d/schedstat: %w", r.path, tid, err)
		}
		r.table.read(tid, times)
		ran = ran || times.Run > 0
	}
	reading := r.table.close(cpu)
	// Without CONFIG_SCHED_INFO there is no such file; where the counting is off
	// at run time it holds zeros. A process that reads this has run.
	if !ran {
		return ThreadTimes{}, fmt.Errorf("%s: no thread with a run time: %w", r.path, errors.ErrUnsupported)
	}
	return reading, nil
}

// Children returns how many child processes this process has that have not been
// waited for: the kernel keeps them by the thread that started each. It costs as
// much as [ThreadReader.Read], so it is for when the number is wanted. An error
// that wraps [errors.ErrUnsupported] means that it cannot be known: the kernel
// has no such file (CONFIG_PROC_CHILDREN), or there are more than [MaxThreads]
// threads.
func (r *ThreadReader) Children() (int64, error) {
	directory, err := unix.Open(r.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("opening %s: %w", r.path, err)
	}
	defer unix.Close(directory)

	// The list is read to its end before the buffer is used for the files.
	var tids []int32
	if err := r.each(directory, func(tid int32) error {
		if len(tids) == MaxThreads {
			return fmt.Errorf("children of more than %d threads: %w", MaxThreads, errors.ErrUnsupported)
		}
		tids = append(tids, tid)
		return nil
	}); err != nil {
		return 0, err
	}
	var children int64
	readable := false
	for _, tid := range tids {
		count, err := r.children(directory, tid)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
			continue // the thread has exited, or no thread has the file
		}
		if err != nil {
			return 0, fmt.Errorf("reading %s/%d/children: %w", r.path, tid, err)
		}
		readable = true
		children += count
	}
	if !readable {
		return 0, fmt.Errorf("%s: no thread with a list of children: %w", r.path, errors.ErrUnsupported)
	}
	return children, nil
}

// children counts the children of one thread: each is a number with a space
// behind it, and there may be more of them than the buffer holds.
func (r *ThreadReader) children(directory int, tid int32) (count int64, err error) {
	file, err := r.open(directory, tid, "/children")
	if err != nil {
		return 0, err
	}
	defer unix.Close(file)
	for {
		n, err := unix.Read(file, r.buffer)
		if err != nil {
			return 0, err
		}
		if n <= 0 {
			return count, nil
		}
		count += int64(bytes.Count(r.buffer[:n], []byte(" ")))
	}
}

// each calls do with the id of every thread.
func (r *ThreadReader) each(directory int, do func(tid int32) error) error {
	var failed error
	err := readEntries(directory, r.buffer, func(name []byte) {
		if tid, err := parseCount(name); err == nil && tid == int64(int32(tid)) && failed == nil {
			failed = do(int32(tid))
		}
	})
	if err != nil {
		return fmt.Errorf("listing %s: %w", r.path, err)
	}
	return failed
}

// readFile reads the beginning of a thread's file into the buffer.
func (r *ThreadReader) readFile(directory int, tid int32, file string) ([]byte, error) {
	descriptor, err := r.open(directory, tid, file)
	if err != nil {
		return nil, err
	}
	defer unix.Close(descriptor)
	n, err := unix.Read(descriptor, r.buffer)
	if err != nil {
		return nil, err
	}
	return r.buffer[:n], nil
}

// open opens a thread's file. unix.Openat would do, but it copies the path for
// the kernel, and that would be the only allocation for a thread.
func (r *ThreadReader) open(directory int, tid int32, file string) (descriptor int, err error) {
	name := strconv.AppendInt(r.name[:0], int64(tid), 10)
	name = append(append(name, file...), 0)
	fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(directory), uintptr(unsafe.Pointer(&name[0])),
		unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
