package reading

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime"
	"sync"

	"github.com/gym-observer/observer/internal/kernel"
	"github.com/gym-observer/observer/internal/number"
)

// Machine reads what the machine does to this process. Its totals are of the
// process's life and never fall. Methods are safe for concurrent use; an error that
// wraps errors.ErrUnsupported will not go away.
type Machine interface {
	// Threads is how long threads of the process were ready without a processor,
	// summed, and how often one was given a processor.
	Threads() (kernel.ThreadTimes, error)
	// Throttled is how long the CPU quota stopped the process, since it was first
	// asked, and in how many periods.
	Throttled() (kernel.Throttled, error)
	// CPULimit is how many processors' time the process may use: what the CPU
	// quota allows, and those of the affinity mask. It is +Inf where neither is
	// known, also beside an error.
	CPULimit() (float64, error)
	// Memory is the use of the cgroup that is nearest to its limit.
	Memory() (GroupMemory, error)
	// Processors is how those spent their time that the process may use.
	Processors() (Processors, error)
	// Children is how many child processes live.
	Children() (int64, error)
	// DescriptorLimit is how many descriptors the process may have.
	DescriptorLimit() (int64, error)
}

// GroupMemory is the use of a cgroup's memory.
type GroupMemory struct {
	Used    int64         // bytes that the kernel cannot drop
	Limit   int64         // bytes; 0 for none
	High    bool          // the limit is a memory.high, past which the process is put to sleep
	Stalled number.Number // seconds in which everything in the group waited for memory
}

// Processors is how the machine's processors spent their time.
type Processors struct {
	Idle  number.Number // the share with nothing to run, of those in the affinity mask, since the reading before
	Steal number.Number // ticks that the hypervisor took, of all processors, since the machine began
	Total number.Number // ticks of all processors, since the machine began
}

// machine reads the kernel's files below root. On systems other than Linux they
// are missing, which makes them unsupported.
type machine struct {
	root fs.FS

	mu       sync.Mutex // guards the fields below; samplers take it, no callback does
	groups   kernel.CgroupFinder
	threads  *kernel.ThreadReader
	throttle kernel.ThrottlingTotal

	processors, before kernel.Processors // at the last reading, and at the one before it
}

// NewMachine reads the machine whose files lie below root, and the threads of the
// process in a directory like /proc/self/task.
func NewMachine(root fs.FS, tasks string) Machine { return newMachine(root, tasks) }

func newMachine(root fs.FS, tasks string) *machine {
	return &machine{root: root, threads: kernel.NewThreadReader(tasks), groups: kernel.CgroupFinder{Mounts: new(kernel.MountWatch)}}
}

func (m *machine) Threads() (kernel.ThreadTimes, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	times, err := m.threads.Read()
	return times, missing(err)
}

func (m *machine) Children() (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	children, err := m.threads.Children()
	return children, missing(err)
}

func (m *machine) Throttled() (kernel.Throttled, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	reading, err := m.groups.Throttling(m.root)
	if err != nil {
		return kernel.Throttled{}, missing(err)
	}
	total := m.throttle.Add(reading)
	if reading.Unseen != "" && len(reading.Levels) == 0 {
		return total, fmt.Errorf("no throttled time: %s: %w", reading.Unseen, errors.ErrUnsupported)
	}
	return total, nil
}

func (m *machine) CPULimit() (float64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	limit := math.Inf(1)
	mask, err := kernel.Affinity()
	switch {
	case err == nil:
		limit = float64(mask.Count())
	case errors.Is(err, errors.ErrUnsupported):
		// runtime.NumCPU has looked at the mask too, but once, when the process began.
		limit = float64(runtime.NumCPU())
	default:
		return limit, err
	}
	group, err := m.groups.Find(m.root, "cpu")
	if err != nil {
		return limit, missing(err)
	}
	quota, err := group.CPULimit(m.root)
	if err != nil {
		return limit, missing(err)
	}
	return min(limit, quota), nil
}

func (m *machine) Memory() (GroupMemory, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	group, err := m.groups.Find(m.root, "memory")
	if err != nil {
		return GroupMemory{}, missing(err)
	}
	use, err := group.Memory(m.root)
	if err != nil {
		return GroupMemory{}, missing(err)
	}
	stalled, err := group.MemoryStalled(m.root) // evidence alone: many kernels do not count it
	return GroupMemory{
		Used:    use.Used,
		Limit:   use.Limit,
		High:    use.LimitName == "memory.high",
		Stalled: number.If(err == nil, stalled.Seconds()),
	}, nil
}

func (m *machine) Processors() (Processors, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, err := fs.ReadFile(m.root, "proc/stat")
	if err != nil {
		return Processors{}, missing(err)
	}
	all, err := kernel.ParseStat(text)
	if err != nil {
		return Processors{}, err
	}
	p := Processors{Steal: number.Known(float64(all.Steal)), Total: number.Known(float64(all.Total))}
	m.before, m.processors = m.processors, m.before
	if m.processors, err = kernel.ParseProcessors(text, m.processors); err != nil {
		return p, err
	}
	if mask, err := kernel.Affinity(); err == nil {
		share, known := m.processors.Since(m.before, mask)
		p.Idle = number.If(known, share.Idle)
	}
	return p, nil
}

func (m *machine) DescriptorLimit() (int64, error) {
	return kernel.DescriptorLimit()
}

// missing marks the error of a file that is not there as unsupported.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, errors.ErrUnsupported)
	}
	return err
}
