package observer

import (
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/gym-observer/observer/internal/kernel"
	"golang.org/x/sys/unix"
)

// procfs reads the process from its own directory in /proc. It pays no attention
// to HOST_PROC: what a monitoring agent is told there about the host has nothing
// to do with the process that it runs in.
//
// Only residentMemory needs a descriptor, so that the others still work when
// there is none left.
type procfs struct {
	statm, status, task, descriptors string // paths, joined once
}

func newProcessSource() processSource { return newProcfs("/proc/self") }

func newProcfs(directory string) procfs {
	return procfs{
		statm:       directory + "/statm",
		status:      directory + "/status",
		task:        directory + "/task",
		descriptors: directory + "/fd",
	}
}

// cpuTime asks getrusage, which has microseconds where /proc/self/stat has
// ticks of 10 ms and costs more with each thread. The kernel sees to it that
// neither part ever falls (cputime_adjust in kernel/sched/cputime.c).
func (procfs) cpuTime() (user, system float64, err error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0, 0, fmt.Errorf("getrusage: %w", err)
	}
	return seconds(usage.Utime), seconds(usage.Stime), nil
}

// seconds converts t, whose fields have 32 or 64 bits.
func seconds(t unix.Timeval) float64 {
	return float64(t.Sec) + float64(t.Usec)/1e6
}

func (p procfs) residentMemory() (bytes int64, err error) {
	var buffer [128]byte // seven numbers, three of them always 0
	text, err := readStart(p.statm, buffer[:])
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", p.statm, err)
	}
	pages, err := kernel.ParseStatm(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", p.statm, err)
	}
	// None is what the kernel says when the main thread has exited before the rest.
	if size := int64(os.Getpagesize()); pages > 0 && pages <= math.MaxInt64/size {
		return pages * size, nil
	}
	return 0, fmt.Errorf("%s: %d resident pages", p.statm, pages)
}

// threads takes the link count of /proc/self/task, 2 as for any directory and
// one for each thread (proc_task_getattr in the kernel's fs/proc/base.c, since
// Linux 2.6). A file with the number costs four times as much to print and read,
// and listing the directory costs more with each thread. Where the link count
// is too small to be that, /proc/self/status tells.
func (p procfs) threads() (int64, error) {
	var stat unix.Stat_t
	if err := unix.Stat(p.task, &stat); err != nil {
		return 0, fmt.Errorf("stat %s: %w", p.task, err)
	}
	if threads := int64(stat.Nlink) - 2; threads > 0 {
		return threads, nil
	}
	text, err := os.ReadFile(p.status)
	if err != nil {
		return 0, err
	}
	threads, err := kernel.ParseThreads(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", p.status, err)
	}
	return threads, nil
}

// openDescriptors takes the size of /proc/self/fd: Linux 6.2 and later report
// the number of open descriptors there, without opening one for it. On older
// kernels the size is 0, and the entries are counted.
func (p procfs) openDescriptors() (int64, error) {
	var stat unix.Stat_t
	if err := unix.Stat(p.descriptors, &stat); err != nil {
		return 0, fmt.Errorf("stat %s: %w", p.descriptors, err)
	}
	if stat.Size > 0 {
		return stat.Size, nil
	}
	return countDescriptors(p.descriptors)
}

// countDescriptors counts the entries of /proc/self/fd but for the descriptor
// that it opens to do so.
func countDescriptors(directory string) (int64, error) {
	entries, err := kernel.CountEntries(directory)
	if err != nil {
		return 0, err
	}
	if entries == 0 {
		return 0, errors.New(directory + " does not list the descriptor that reads it")
	}
	return entries - 1, nil
}

// readStart reads the beginning of a file into buffer. Unlike os.Open it does
// not offer the file to the network poller, which costs a system call and
// allocations.
func readStart(path string, buffer []byte) ([]byte, error) {
	file, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(file)
	n, err := unix.Read(file, buffer)
	if err != nil {
		return nil, err
	}
	return buffer[:n], nil
}
