package diagnosis

import (
	"fmt"
	"strings"

	"github.com/gym-observer/observer/internal/number"
)

// MemoryUse is how near the process is to its memory limits, in bytes. A limit
// of 0 is none.
type MemoryUse struct {
	HeapLive    int64
	GoUsed      int64 // live heap and what is not heap: a healthy process fills its limit with garbage by design
	GoLimit     int64 // GOMEMLIMIT
	GroupUsed   int64 // what the kernel cannot drop: no pages of files, no slab that it can reclaim
	GroupLimit  int64
	GroupHigh   bool // the limit is a memory.high: past it the kernel puts the process to sleep, and kills nothing
	GroupFailed bool // the cgroup could not be read

	// Stalled is for how many seconds in all every thread of the group that had
	// something to do waited for memory, where the kernel counts that.
	Stalled number.Number
}

// share is that of the limit that is nearest. It is not known where the only
// limit that there may be cannot be read.
func (m MemoryUse) share() number.Number {
	share := 0.0
	if m.GoLimit > 0 {
		share = float64(m.GoUsed) / float64(m.GoLimit)
	}
	if m.GroupLimit > 0 {
		share = max(share, float64(m.GroupUsed)/float64(m.GroupLimit))
	}
	return number.If(m.GoLimit > 0 || !m.GroupFailed, share)
}

// memoryEvidence says how near each limit is.
func memoryEvidence(w *Window) string {
	m := w.Memory
	var parts []string
	if m.GoLimit > 0 {
		parts = append(parts, fmt.Sprintf("%s of a GOMEMLIMIT of %s are live or not heap", bytesText(m.GoUsed), bytesText(m.GoLimit)))
	}
	switch {
	case m.GroupLimit > 0 && m.GroupHigh:
		part := fmt.Sprintf("%s of the cgroup's memory.high of %s are in use, past which the kernel puts the process to sleep", bytesText(m.GroupUsed), bytesText(m.GroupLimit))
		if stalled, ok := w.MemoryStalled.Get(); ok {
			part += fmt.Sprintf("; all of it waited for memory for %.2f s per second", stalled)
		}
		parts = append(parts, part)
	case m.GroupLimit > 0:
		parts = append(parts, fmt.Sprintf("%s of the cgroup's %s are in use", bytesText(m.GroupUsed), bytesText(m.GroupLimit)))
	}
	if len(parts) == 0 {
		return "there is no memory limit"
	}
	return strings.Join(parts, "; ")
}

// bytesText writes bytes as a person reads them.
func bytesText(n int64) string {
	const kib = 1 << 10
	if n < kib {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/kib, 0
	for value >= 999.5 { // three digits do not hold more
		value /= kib
		unit++
	}
	return fmt.Sprintf("%.3g %ciB", value, "KMGTPE"[unit])
}
