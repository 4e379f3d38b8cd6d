package reading

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"

	"github.com/gym-observer/observer/internal/kernel"
	"golang.org/x/sys/unix"
)

// procfs reads the process from its own directory in /proc. It pays no attention
// to HOST_PROC: what a monitoring agent is told there about the host has nothing
// to do with the process that it runs in.
//
// It keeps three descriptors open: readings are quicker by half, and go on when
// the process has no descriptor left.
type procfs struct {
	statm, task, descriptors kept
	status                   string
}

func NewProcess() Process { return newProcfs("/proc/self") }

func newProcfs(directory string) *procfs {
	p := &procfs{status: directory + "/status"}
	p.statm.open(directory + "/statm")
	p.task.open(directory + "/task")
	p.descriptors.open(directory + "/fd")
	return p
}

func (p *procfs) Close() {
	p.statm.close()
	p.task.close()
	p.descriptors.close()
}

// CPUTime asks getrusage, which has microseconds where /proc/self/stat has
// ticks of 10 ms and costs more with each thread. The kernel sees to it that
// neither part ever falls (cputime_adjust in kernel/sched/cputime.c).
func (*procfs) CPUTime() (user, system float64, err error) {
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

func (p *procfs) ResidentMemory() (bytes int64, err error) {
	var buffer [128]byte // seven numbers, three of them always 0
	text, err := p.statm.readStart(buffer[:])
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", p.statm.path, err)
	}
	pages, err := kernel.ParseStatm(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", p.statm.path, err)
	}
	// None is what the kernel says when the main thread has exited before the rest.
	if size := int64(os.Getpagesize()); pages > 0 && pages <= math.MaxInt64/size {
		return pages * size, nil
	}
	return 0, fmt.Errorf("%s: %d resident pages", p.statm.path, pages)
}

// Threads takes the link count of /proc/self/task, 2 as for any directory and
// one for each thread (proc_task_getattr in the kernel's fs/proc/base.c, since
// Linux 2.6). A file with the number costs four times as much to print and read,
// and listing the directory costs more with each thread. Where the link count
// is too small to be that, /proc/self/status tells.
func (p *procfs) Threads() (int64, error) {
	stat, err := p.task.stat()
	if err != nil {
		return 0, fmt.Errorf("stat %s: %w", p.task.path, err)
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

// OpenDescriptors takes the size of /proc/self/fd: Linux 6.2 and later report
// the number of open descriptors there, without opening one for it. On older
// kernels the size is 0, and the entries are counted.
func (p *procfs) OpenDescriptors() (int64, error) {
	stat, err := p.descriptors.stat()
	if err != nil {
		return 0, fmt.Errorf("stat %s: %w", p.descriptors.path, err)
	}
	if stat.Size > 0 {
		return stat.Size, nil
	}
	return countDescriptors(p.descriptors.path)
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

// kept is a file of /proc that stays open, so that a reading is one or two system
// calls and no allocation: a path is copied for each, and looked up. Where it
// could not be opened the path is used, and also where its descriptor has come to
// be another file: an application may close what is not its own.
type kept struct {
	path string
	id   unix.Stat_t

	mu         sync.Mutex // held while the descriptor is used: closed meanwhile, it could be another file's
	descriptor int        // negative where there is none
}

const none = -1

func (k *kept) open(path string) {
	k.path = path
	k.descriptor = none
	// Unlike os.Open this does not offer the file to the network poller.
	descriptor, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	if err := unix.Fstat(descriptor, &k.id); err != nil {
		_ = unix.Close(descriptor) // nothing was written
		return
	}
	k.descriptor = descriptor
}

// close may be called while others read, and more than once.
func (k *kept) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	var stat unix.Stat_t
	if k.statKept(&stat) {
		_ = unix.Close(k.descriptor) // nothing was written
	}
	k.descriptor = none
}

// stat returns what the kernel says of the file now.
func (k *kept) stat() (stat unix.Stat_t, err error) {
	k.mu.Lock()
	same := k.statKept(&stat)
	k.mu.Unlock()
	if same {
		return stat, nil
	}
	err = unix.Stat(k.path, &stat)
	return stat, err
}

// statKept reports whether the descriptor is still the file's; k.mu is held.
func (k *kept) statKept(stat *unix.Stat_t) bool {
	return unix.Fstat(k.descriptor, stat) == nil && stat.Dev == k.id.Dev && stat.Ino == k.id.Ino
}

// readKept reads what it can without the path.
func (k *kept) readKept(buffer []byte) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var stat unix.Stat_t
	if !k.statKept(&stat) {
		return 0
	}
	n, _ = unix.Pread(k.descriptor, buffer, 0)
	return n
}

// readStart reads the beginning of the file into buffer.
func (k *kept) readStart(buffer []byte) ([]byte, error) {
	if n := k.readKept(buffer); n > 0 {
		return buffer[:n], nil
	}
	descriptor, err := unix.Open(k.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(descriptor)
	n, err := unix.Read(descriptor, buffer)
	if err != nil {
		return nil, err
	}
	return buffer[:n], nil
}
