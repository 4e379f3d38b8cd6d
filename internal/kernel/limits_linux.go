package kernel

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// DescriptorLimit returns how many descriptors this process may have, the soft
// RLIMIT_NOFILE. The Go runtime raises it to the hard limit when the program
// starts, so that it can differ from what "ulimit -n" says in the shell. No
// limit is the largest int64.
func DescriptorLimit() (int64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("getrlimit: %w", err)
	}
	return int64(min(limit.Cur, math.MaxInt64)), nil
}
