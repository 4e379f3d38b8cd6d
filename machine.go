package observer

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"
	"time"

	"github.com/gym-observer/observer/internal/kernel"
)

// machineSource reads what the machine does to this process. Its totals are of
// the process's life and never fall. Methods are safe for concurrent use; an
// error that wraps errors.ErrUnsupported will not go away.
type machineSource interface {
	// runDelay is how long threads of the process were ready without a
	// processor, summed.
	runDelay() (time.Duration, error)
	// throttled is how long the CPU quota stopped the process, since it was
	// first asked, and in how many periods.
	throttled() (total time.Duration, periods int64, err error)
	// cpuLimit is how many processors' time the CPU quota allows; +Inf for no
	// quota, also beside an error.
	cpuLimit() (float64, error)
	// memory is the use of the cgroup that is nearest to its limit.
	memory() (kernel.MemoryUse, error)
	// time is that of all processors.
	time() (kernel.MachineTime, error)
	// descriptorLimit is how many descriptors the process may have.
	descriptorLimit() (int64, error)
}

// thisMachine is the machine that the process runs on. It outlives every Start
// and Stop, as the counters do that are made of its totals.
var thisMachine = newMachine(os.DirFS("/"))

// machine reads the kernel's files below root. On systems other than Linux they
// are missing, which makes them unsupported.
type machine struct {
	root fs.FS

	mu       sync.Mutex // guards the fields below; samplers take it, no callback does
	groups   kernel.CgroupFinder
	tasks    *kernel.ThreadReader
	throttle kernel.ThrottlingTotal
}

func newMachine(root fs.FS) *machine {
	return &machine{root: root, tasks: kernel.NewThreadReader("/proc/self/task")}
}

func (m *machine) runDelay() (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	times, err := m.tasks.Read()
	if err != nil {
		return 0, missing(err)
	}
	return times.Delay, nil
}

func (m *machine) throttled() (time.Duration, int64, error) {
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

func (m *machine) cpuLimit() (float64, error) {
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

func (m *machine) memory() (kernel.MemoryUse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	group, err := m.groups.Find(m.root, "memory")
	if err != nil {
		return kernel.MemoryUse{}, missing(err)
	}
	use, err := group.Memory(m.root)
	return use, missing(err)
}

func (m *machine) time() (kernel.MachineTime, error) {
	text, err := fs.ReadFile(m.root, "proc/stat")
	if err != nil {
		return kernel.MachineTime{}, missing(err)
	}
	return kernel.ParseStat(text)
}

func (m *machine) descriptorLimit() (int64, error) {
	return kernel.DescriptorLimit()
}

// missing marks the error of a file that is not there as unsupported.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, errors.ErrUnsupported)
	}
	return err
}
