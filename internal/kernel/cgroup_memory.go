package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
)

// MemoryUse is the memory of one control group, in bytes.
type MemoryUse struct {
	Directory string // of the group
	Used      int64  // without the file pages that the kernel would give up first; 0 where there is no limit
	Limit     int64  // 0 for none
}

// Share returns the part of the limit that is in use. It can pass 1, and is 0
// without a limit.
func (m MemoryUse) Share() float64 {
	if m.Limit == 0 {
		return 0
	}
	return float64(m.Used) / float64(m.Limit)
}

// Memory returns the use of whichever of the process's group and its ancestors
// is nearest to its limit; where none has a limit, of the nearest that has
// numbers. An ancestor's use includes that of its other groups, which count
// against the same limit. A group without numbers, like the root, is passed
// over; if all are, the error wraps [errors.ErrUnsupported].
//
// The limit is the one that kills. A lower memory.high only makes the kernel
// reclaim, and a swap limit is not looked at. A v1 hierarchy made without
// memory.use_hierarchy, which systemd and container engines set and Linux 5.11
// made the only way, would have an ancestor's limit not bind the process.
func (c Cgroup) Memory(fsys fs.FS) (MemoryUse, error) {
	var nearest MemoryUse
	for _, directory := range c.Directories {
		use, err := c.memory(fsys, directory)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return MemoryUse{}, fmt.Errorf("memory of %s: %w", directory, err)
		}
		if nearest.Directory == "" || use.Share() > nearest.Share() {
			nearest = use
		}
	}
	if nearest.Directory == "" {
		return MemoryUse{}, fmt.Errorf("%s: no memory in use: %w", c.Directories[0], errors.ErrUnsupported)
	}
	return nearest, nil
}

// The files and the key of each version. In a v1 memory.stat only the keys with
// total_ cover the groups below, as usage does; in v2 all do.
var (
	memoryV1 = memoryFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	memoryV2 = memoryFiles{"memory.max", "memory.current", "inactive_file"}
)

type memoryFiles struct{ limit, usage, inactiveFile string }

// memory returns the use of one group.
func (c Cgroup) memory(fsys fs.FS, directory string) (MemoryUse, error) {
	files := memoryV1
	if c.Unified {
		files = memoryV2
	}
	limitText, err := fs.ReadFile(fsys, path.Join(directory, files.limit))
	if err != nil {
		return MemoryUse{}, err
	}
	limit, err := ParseMemoryLimit(limitText)
	if err != nil {
		return MemoryUse{}, fmt.Errorf("%s: %w", files.limit, err)
	}
	if limit == 0 {
		return MemoryUse{Directory: directory}, nil // memory.stat is a long file
	}
	usageText, err := fs.ReadFile(fsys, path.Join(directory, files.usage))
	if err != nil {
		return MemoryUse{}, err
	}
	usage, err := parseLine(usageText)
	if err != nil {
		return MemoryUse{}, fmt.Errorf("%s: %w", files.usage, err)
	}
	inactive, _, err := readKeyed(fsys, path.Join(directory, "memory.stat"), files.inactiveFile)
	if err != nil {
		return MemoryUse{}, err
	}
	// The files are read one after the other: the second may have fallen.
	return MemoryUse{Directory: directory, Used: max(0, usage-inactive), Limit: limit}, nil
}

// ParseMemoryLimit returns the limit in bytes in the text of a v2 memory.max or
// a v1 memory.limit_in_bytes, 0 for none.
//
// In v2 no limit reads "max". In v1 it is a number that changed over time: the
// most pages that a long can count (mm/page_counter.c), which is 1<<63 less a
// page on 64-bit machines and 8 TiB less a page on 32-bit ones, and before Linux
// 4.0 the largest signed or unsigned 64-bit number (kernel/res_counter.c).
func ParseMemoryLimit(text []byte) (limit int64, err error) {
	number, complete := bytes.CutSuffix(text, []byte("\n"))
	if !complete {
		return 0, fmt.Errorf("%.32q is cut short", text)
	}
	if string(number) == "max" {
		return 0, nil
	}
	bytes, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.32q is no limit", number)
	}
	if bytes >= unlimitedFrom || bytes == unlimited32 {
		return 0, nil
	}
	// A limit of 0 lets nothing run; 1 keeps it apart from none.
	return int64(max(bytes, 1)), nil
}

const (
	// unlimitedFrom is below every "no limit" of 64 bits, with pages of up to
	// 64 KiB, and above every real one.
	unlimitedFrom = math.MaxInt64 &^ (1<<20 - 1)
	unlimited32   = math.MaxInt32 << 12
)
