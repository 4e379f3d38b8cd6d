package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"time"
)

// MemoryUse is the memory of one control group, in bytes.
type MemoryUse struct {
	Directory string // of the group
	Used      int64  // what the kernel cannot drop; 0 where there is no limit
	Limit     int64  // 0 for none

	// LimitName is the file or the key that the limit is from: "memory.max",
	// "memory.high", "memory.limit_in_bytes" or "hierarchical_memory_limit". Past
	// memory.high the kernel kills nothing: it puts the process to sleep.
	LimitName string
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
// A limit is the one that kills, or v2's memory.high if that is lower: past it
// the kernel puts a process to sleep for most of its time, and kills it never.
// A swap limit is not looked at. Where a v1 group's parents cannot be seen, the
// group's memory.stat has the smallest limit of all of them; their use, which is
// larger, is not to be had.
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

// The files and the keys of each version. What the kernel drops before it kills
// or puts to sleep is no memory in use: pages of files, active ones too, and what
// it keeps of names and inodes. (Less the inactive ones alone, as the "working
// set" of the kubelet has it, a process of 1.7 MB that had read a file of 230 MiB
// in a group of 256 MiB read 0.91.) Files in memory, as of a tmpfs, are not among
// them. In a v1 memory.stat only the keys with total_ cover the groups below, as
// usage does; in v2 all do. That of v1 does not have the slab.
var (
	memoryV1 = memoryFiles{
		limits:    []string{"memory.limit_in_bytes"},
		usage:     "memory.usage_in_bytes",
		droppable: []string{"total_active_file", "total_inactive_file"},
	}
	memoryV2 = memoryFiles{
		limits:    []string{"memory.max", "memory.high"},
		usage:     "memory.current",
		droppable: []string{"active_file", "inactive_file", "slab_reclaimable"},
	}
)

type memoryFiles struct {
	limits    []string // the first is there in any group with numbers
	usage     string
	droppable []string // keys of memory.stat
}

// memory returns the use of one group.
func (c Cgroup) memory(fsys fs.FS, directory string) (MemoryUse, error) {
	files := memoryV1
	if c.Unified {
		files = memoryV2
	}
	use := MemoryUse{Directory: directory}
	for i, name := range files.limits {
		text, err := fs.ReadFile(fsys, path.Join(directory, name))
		if i > 0 && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return MemoryUse{}, err
		}
		limit, err := ParseMemoryLimit(text)
		if err != nil {
			return MemoryUse{}, fmt.Errorf("%s: %w", name, err)
		}
		use.lower(limit, name)
	}
	if use.Limit == 0 && !c.mayHideLimits(fsys, directory) {
		return use, nil // memory.stat is a long file
	}
	stat, err := fs.ReadFile(fsys, path.Join(directory, "memory.stat"))
	if err != nil {
		return MemoryUse{}, err
	}
	if c.mayHideLimits(fsys, directory) {
		text, found, err := keyedLine(stat, hierarchicalLimit)
		if err != nil {
			return MemoryUse{}, fmt.Errorf("%s/memory.stat: %w", directory, err)
		}
		if found {
			limit, err := ParseMemoryLimit(text)
			if err != nil {
				return MemoryUse{}, fmt.Errorf("%s/memory.stat: %s: %w", directory, hierarchicalLimit, err)
			}
			use.lower(limit, hierarchicalLimit)
		}
		if use.Limit == 0 {
			return use, nil
		}
	}
	text, err := fs.ReadFile(fsys, path.Join(directory, files.usage))
	if err != nil {
		return MemoryUse{}, err
	}
	use.Used, err = parseLine(text)
	if err != nil {
		return MemoryUse{}, fmt.Errorf("%s: %w", files.usage, err)
	}
	for _, key := range files.droppable {
		size, _, err := keyed(stat, key)
		if err != nil {
			return MemoryUse{}, fmt.Errorf("%s/memory.stat: %w", directory, err)
		}
		use.Used -= min(size, use.Used) // the files are read one after the other, and may not fit each other
	}
	return use, nil
}

// lower takes a limit that is smaller than the one so far; 0 is none.
func (m *MemoryUse) lower(limit int64, name string) {
	if limit > 0 && (m.Limit == 0 || limit < m.Limit) {
		m.Limit, m.LimitName = limit, name
	}
}

// hierarchicalLimit is v1's smallest limit of a group and all above it. It is
// looked for at the highest group that can be seen, whose use comes nearest to
// that of the groups above.
const hierarchicalLimit = "hierarchical_memory_limit"

func (c Cgroup) mayHideLimits(fsys fs.FS, directory string) bool {
	return !c.Unified && directory == c.Directories[len(c.Directories)-1] && !c.reachesRoot(fsys)
}

// MemoryStalled returns for how long all threads of the process's group that had
// something to do waited for memory at the same time, since the group was made:
// the total of "full" in its memory.pressure. Where the kernel keeps no such
// numbers (v1, or PSI switched off) the error wraps [errors.ErrUnsupported] or
// [fs.ErrNotExist].
func (c Cgroup) MemoryStalled(fsys fs.FS) (time.Duration, error) {
	if !c.Unified {
		return 0, fmt.Errorf("memory pressure of a v1 group: %w", errors.ErrUnsupported)
	}
	name := path.Join(c.Directories[0], "memory.pressure")
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return 0, err
	}
	full, err := ParsePressure(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return full, nil
}

// ParsePressure returns the total of the line "full" in the text of a pressure
// file, such as memory.pressure:
//
//	some avg10=0.00 avg60=0.00 avg300=0.00 total=1204
//	full avg10=0.00 avg60=0.00 avg300=0.00 total=811
func ParsePressure(text []byte) (full time.Duration, err error) {
	for line := range bytes.Lines(text) {
		values, found := bytes.CutPrefix(line, []byte("full "))
		if !found {
			continue
		}
		_, total, found := bytes.Cut(values, []byte("total="))
		if !found {
			return 0, fmt.Errorf("no total in %.128q", line)
		}
		microseconds, err := parseLine(total)
		if err != nil {
			return 0, fmt.Errorf("total: %w", err)
		}
		return time.Duration(min(microseconds, math.MaxInt64/1000)) * time.Microsecond, nil
	}
	return 0, errors.New("no line of full pressure")
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
	limit64, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.32q is no limit", number)
	}
	if limit64 >= unlimitedFrom || limit64 == unlimited32 {
		return 0, nil
	}
	// A limit of 0 lets nothing run; 1 keeps it apart from none.
	return int64(max(limit64, 1)), nil
}

const (
	// unlimitedFrom is below every "no limit" of 64 bits, with pages of up to
	// 64 KiB, and above every real one.
	unlimitedFrom = math.MaxInt64 &^ (1<<20 - 1)
	unlimited32   = math.MaxInt32 << 12
)
