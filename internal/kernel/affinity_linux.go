package kernel

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Affinity returns the processors that the calling thread may run on, as they
// are now: runtime.NumCPU keeps what they were when the process started, and a
// container's can be changed at any time.
//
// Each thread has its own. Those of the Go scheduler inherit theirs from each
// other, and "taskset -a" or a cpuset changes all; a thread that the application
// has pinned is locked to its goroutine, so that no other goroutine asks from
// there. The main thread would be the other choice, and is the one that an
// application pins.
func Affinity() (CPUMask, error) {
	// A kernel for more processors than the mask has refuses a smaller one.
	set := unix.NewCPUSet(maxProcessors)
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	mask := make(CPUMask, maxProcessors/64)
	for processor := range maxProcessors {
		if set.IsSet(processor) {
			mask[processor/64] |= 1 << (processor % 64)
		}
	}
	if mask.Count() == 0 {
		return nil, errors.New("sched_getaffinity: no processor")
	}
	return mask, nil
}
