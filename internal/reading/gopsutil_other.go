//go:build !linux

package reading

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/shirou/gopsutil/v3/common"
	gopsutil "github.com/shirou/gopsutil/v3/process"
)

// gopsutilSource reads the process where this package has no way of its own.
type gopsutilSource struct{}

func NewProcess() Process { return gopsutilSource{} }

func (gopsutilSource) Close() {}

func (gopsutilSource) CPUTime() (user, system float64, err error) {
	err = readProcess("CPU time", func(ctx context.Context, p *gopsutil.Process) error {
		times, err := p.TimesWithContext(ctx)
		if err == nil {
			user, system = times.User, times.System
		}
		return err
	})
	return user, system, err
}

func (gopsutilSource) ResidentMemory() (bytes int64, err error) {
	err = readProcess("resident memory", func(ctx context.Context, p *gopsutil.Process) error {
		memory, err := p.MemoryInfoWithContext(ctx)
		if err == nil {
			bytes = int64(memory.RSS)
		}
		return err
	})
	return bytes, err
}

func (gopsutilSource) Threads() (threads int64, err error) {
	if runtime.GOOS == "openbsd" { // gopsutil says 1 there, whatever the truth
		return 0, fmt.Errorf("number of threads: %w", errors.ErrUnsupported)
	}
	err = readProcess("number of threads", func(ctx context.Context, p *gopsutil.Process) error {
		n, err := p.NumThreadsWithContext(ctx)
		threads = int64(n)
		return err
	})
	return threads, err
}

func (gopsutilSource) OpenDescriptors() (descriptors int64, err error) {
	err = readProcess("number of open descriptors", func(ctx context.Context, p *gopsutil.Process) error {
		n, err := p.NumFDsWithContext(ctx)
		descriptors = int64(n)
		if err == nil && (runtime.GOOS == "solaris" || runtime.GOOS == "illumos") {
			descriptors-- // the one that lists the others
		}
		return err
	})
	return descriptors, err
}

// machinePaths is where gopsutil looks for the machine's files before it looks at
// the variables of the same names. They tell an agent in a container where the
// host's are, which is not where this process is found. A key that is missing
// here, or empty, would let the variable through.
var machinePaths = common.EnvMap{
	common.HostProcEnvKey: "/proc",
	common.HostSysEnvKey:  "/sys",
	common.HostEtcEnvKey:  "/etc",
	common.HostVarEnvKey:  "/var",
	common.HostRunEnvKey:  "/run",
	common.HostDevEnvKey:  "/dev",
	common.HostRootEnvKey: "/",
}

// readingTime bounds a reading that runs a program: on macOS, gopsutil built
// without cgo calls ps.
const readingTime = time.Second

// readProcess calls reading for this process. Each call has a Process of its own, as
// one keeps what it has read and is not made for several goroutines.
func readProcess(what string, reading func(context.Context, *gopsutil.Process) error) (err error) {
	defer func() {
		// On FreeBSD gopsutil dereferences nil when the kernel's description of
		// a process has not the size that it was compiled for.
		if cause := recover(); cause != nil {
			err = fmt.Errorf("reading %s: %v", what, cause)
		}
	}()
	ctx := context.WithValue(context.Background(), common.EnvKey, machinePaths)
	ctx, cancel := context.WithTimeout(ctx, readingTime)
	defer cancel()

	// Not gopsutil.NewProcess, which first looks whether the process exists.
	err = reading(ctx, &gopsutil.Process{Pid: int32(os.Getpid())})
	if err != nil && err.Error() == notImplemented {
		err = errors.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	return nil
}

// notImplemented is the text of the error that gopsutil gives for what it does
// not do on a platform. The value itself is in an internal package.
const notImplemented = "not implemented yet"
