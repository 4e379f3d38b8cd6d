package reading

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync"
	"time"

	"github.com/gym-observer/observer/internal/kernel"
)

// Machine reads what the machine does to this process. Its totals are of
// the process's life and never fall. Methods are safe for concurrent use; an
// error that wraps errors.ErrUnsupported will not go away.
type Machine interface {
	// RunDelay is how long threads of the process were ready without a
	// processor, summed.
	RunDelay() (time.Duration, error)
	// Throttled is how long the CPU quota stopped the process, since it was
	// first asked, and in how many periods.
	Throttled() (total time.Duration, periods int64, err error)
	// CPULimit is how many processors' time the CPU quota allows; +Inf for no
	// quota, also beside an error.
	CPULimit() (float64, error)
	// Memory is the use of the cgroup that is nearest to its limit.
	Memory() (kernel.MemoryUse, error)
	// Time is that of all processors.
	Time() (kernel.MachineTime, error)
	// DescriptorLimit is how many descriptors the process may have.
	DescriptorLimit() (int64, error)
}

// machine reads the kernel's files below root. On systems other than Linux they
// are missing, which makes them unsupported.
type machine struct {
	root fs.FS

	mu       sync.Mutex // guards the fields below; samplers take it, no callback does
	groups   kernel.CgroupFinder
	tasks    *kernel.ThreadReader
	throttle kernel.ThrottlingTotal
}

// NewMachine reads the machine whose files lie below root, and the threads of the
// process in a directory like /proc/self/task.
func NewMachine(root fs.FS, tasks string) Machine { return newMachine(root, tasks) }

func newMachine(root fs.FS, tasks string) *machine {
	return &machine{root: root, tasks: kernel.NewThreadReader(tasks)}
}

func (m *machine) RunDelay() (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	times, err := m.tasks.Read()
	if err != nil {
		return 0, missing(err)
	}
	return times.Delay, nil
}

func (m *machine) Throttled() (time.Duration, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	reading, err := m.groups.Throttling(m.root)
	if err != nil {
		return 0, 0, missing(err)
	}
	total := m.throttle.Add(reading)
	if reading.Unseen != "" && len(reading.Levels) == 0 {
		return 0, 0, fmt.Errorf("no throttled time: %s: %w", reading.Unseen, errors.ErrUnsupported)
	}
	return total.Time, total.Periods, nil
}

func (m *machine) CPULimit() (float64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	group, err := m.groups.Find(m.root, "cpu")
	if err != nil {
		return math.Inf(1), missing(err)
	}
	limit, err := group.CPULimit(m.root)
	if err != nil {
		return math.Inf(1), missing(err)
	}
	return limit, nil
}

func (m *machine) Memory() (kernel.MemoryUse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	group, err := m.groups.Find(m.root, "memory")
	if err != nil {
		return kernel.MemoryUse{}, missing(err)
	}
	use, err := group.Memory(m.root)
	return use, missing(err)
}

func (m *machine) Time() (kernel.MachineTime, error) {
	text, err := fs.ReadFile(m.root, "proc/stat")
	if err != nil {
		return kernel.MachineTime{}, missing(err)
	}
	return kernel.ParseStat(text)
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
