package observer

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The thresholds of the rules. Each stands in a gap that was measured between
// processes that suffer from the cause and processes that do not.
const (
	throttledAtLeast = 0.1  // s/s: a quota that is never reached throttles 0, one that is 0.48
	stoppedAtLeast   = 0.1  // of P: no program stops the world so much by accident; 0 against 0.46
	gcAtLeast        = 0.35 // of P: the collector takes a quarter by design, and its limiter caps it at half; 0.22 against 0.49
	delayAtLeast     = 0.25 // of C: less than a quarter of a thread waiting is noise
	delayShare       = 0.5  // of own CPU + run delay: from here on, waiting outweighs running; 0.51 against 0.75
	queueAtLeast     = 1.5  // of P, the median: P busy goroutines leave a queue of up to P; 1.0 against 2.5
	busyAtLeast      = 0.75 // of C, own CPU: a queue without busy processors is a herd of timers; 0.67 against 0.96
	wantedAtLeast    = 0.95 // of C, own CPU + run delay: who has no idle processor wants all of them; 0.91 against 0.99
	lockAtLeast      = 2    // goroutines: the runtime samples one wait in eight, so 0.6 can read as 1.6; 1.6 against 37
	writeAtLeast     = 0.9  // writes under way, nearly all the time: from here on a single writer is a queue; 0 against 1 to 3
	outboundAtLeast  = 8    // requests: a few calls out are how services work; 1 against 32
	admissionAtLeast = 1    // rollouts waiting, all the time; 0.05 against 28
	blockedAtLeast   = 8    // goroutines in system calls or C; 0.15 against 30
	shareAtLeast     = 0.9  // of a hard limit; 0.2 against 0.92
	lagAtLeast       = 0.1  // of the window, past lagAllowance; 0.02 against 0.33

	outboundWaitAtLeast = 100 * time.Millisecond // below it, eight calls are a quick downstream at a high rate
	lagAllowance        = 20 * time.Millisecond  // of each sample: what noisy neighbours and the kernel's timer take
)

// rule says when a cause is to blame, what the evidence is, and what to do.
type rule struct {
	cause     Cause
	holds     func(*window) bool
	condition string // in words, for the documentation
	evidence  func(*window) string
	advice    string
	share     bool // the cause is a saturation: its load is the share in use
}

// rules are asked in this order, and the first that holds has the verdict:
// causes come before their victims. A full run queue while the collector uses
// half of the processors is the collector's doing, and in a throttled cgroup
// everything is the quota's. Output comes before locks, since the usual lock that
// is waited for in a driver is held over the write. An unmeasured load is 0 here, and blames nobody.
var rules = []rule{
	{
		cause:     CauseCPUThrottled,
		holds:     func(w *window) bool { return w.load[CauseCPUThrottled] >= throttledAtLeast },
		condition: "the quota stopped the process for at least 0.1 s per second",
		evidence: func(w *window) string {
			return fmt.Sprintf("the CPU quota stopped the process for %.2f s per second, in %d of its periods; it may use %.3g CPUs",
				w.load[CauseCPUThrottled], w.throttledPeriods, w.cpus)
		},
		advice: "Raise the CPU limit, or set GOMAXPROCS to it so that the quota is not burnt in a burst.",
	},
	{
		cause:     CauseStopTheWorld,
		holds:     func(w *window) bool { return w.load[CauseStopTheWorld] >= stoppedAtLeast*w.processors },
		condition: "pauses that are not the collector's took at least 0.1 of the time",
		evidence: func(w *window) string {
			return fmt.Sprintf("pauses that are not the collector's took %.0f %% of the time", 100*w.load[CauseStopTheWorld]/w.processors)
		},
		advice: "Find what stops the world: runtime.ReadMemStats, goroutine and heap profiles, GOMAXPROCS changes, or a tracer.",
	},
	{
		cause:     CauseGC,
		holds:     func(w *window) bool { return w.load[CauseGC] >= gcAtLeast*w.processors || w.gcLimited },
		condition: "the collector used at least 0.35 of the processors, or its CPU limiter was on",
		evidence:  gcEvidence,
		advice:    "Allocate less (take an allocation profile), or give it room: raise GOGC, or GOMEMLIMIT if the heap presses against it.",
	},
	{
		cause: CauseCPUContended,
		holds: func(w *window) bool {
			delay := w.load[CauseCPUContended]
			return delay >= delayAtLeast*w.cpus && delay >= delayShare*(w.cpu+delay) &&
				w.contendedFactor() >= w.saturatedFactor()
		},
		condition: "threads waited for a processor at least 0.25 of the CPUs and half of the time that they wanted one, and that slows more than the run queue does",
		evidence: func(w *window) string {
			evidence := fmt.Sprintf("%.2f threads were ready without a processor while %.2f ran, on %.3g CPUs with GOMAXPROCS %.0f",
				w.load[CauseCPUContended], w.cpu, w.cpus, w.processors)
			if w.stealKnown {
				evidence += fmt.Sprintf("; the hypervisor took %.0f %%", 100*w.steal)
			}
			return evidence
		},
		advice: "Other processes or machines have the CPU: move one away, or lower GOMAXPROCS to the CPUs that are there. Where the process has them itself, its C code runs on more threads than that.",
	},
	{
		cause: CauseCPUSaturated,
		holds: func(w *window) bool {
			return w.medianRunnable >= queueAtLeast*w.processors && w.isBusy()
		},
		condition: "the median run queue was at least 1.5 goroutines a processor, and the process used at least 0.75 of the CPUs, or used or waited for at least 0.95 of what the hypervisor left of them",
		evidence: func(w *window) string {
			return fmt.Sprintf("%.1f goroutines were ready without a processor (median %.0f) for %.0f processors; the process used %.2f CPUs",
				w.load[CauseCPUSaturated], w.medianRunnable, w.processors, w.cpu)
		},
		advice: "Take a CPU profile, admit less at once, or add processors.",
	},
	{
		cause:     CauseOutputWrite,
		holds:     func(w *window) bool { return w.load[CauseOutputWrite] >= writeAtLeast },
		condition: "at least 0.9 output writes were under way on average",
		evidence: func(w *window) string {
			return fmt.Sprintf("%.1f output writes were under way", w.load[CauseOutputWrite])
		},
		advice: "Look at the disk or the store, write in larger pieces, or write beside the rollouts instead of in them.",
	},
	{
		cause:     CauseLock,
		holds:     func(w *window) bool { return w.load[CauseLock] >= lockAtLeast },
		condition: "at least 2 goroutines waited for a mutex",
		evidence: func(w *window) string {
			return fmt.Sprintf("%.1f goroutines waited for a mutex", w.load[CauseLock])
		},
		advice: "Take a goroutine profile: the stack that most share waits for it. Hold the lock for less, or split it.",
	},
	{
		cause: CauseDownstream,
		holds: func(w *window) bool {
			outbound := w.load[CauseDownstream]
			return outbound >= outboundAtLeast && w.outboundWait >= outboundWaitAtLeast && outbound >= w.active/2
		},
		condition: "at least 8 outbound requests waited, 100 ms each on average, and at least half as many as there are active rollouts",
		evidence: func(w *window) string {
			evidence := fmt.Sprintf("%.1f outbound requests waited for their response headers, %v each", w.load[CauseDownstream], w.outboundWait.Round(time.Millisecond))
			if w.active > 0 {
				evidence += fmt.Sprintf("; %.1f rollouts were active", w.active)
			}
			return evidence
		},
		advice: "The time goes by in another server: look there. For a driver that waits for its model this is as it should be.",
	},
	{
		cause:     CauseAdmission,
		holds:     func(w *window) bool { return w.load[CauseAdmission] >= admissionAtLeast },
		condition: "at least 1 rollout waited for the limit on average",
		evidence: func(w *window) string {
			return fmt.Sprintf("%.1f rollouts waited for admission while %.1f were active", w.load[CauseAdmission], w.active)
		},
		advice: "Raise the limit if what is behind it has room; no cause that comes before it explains the wait.",
	},
	{
		cause:     CauseBlockedThread,
		holds:     func(w *window) bool { return w.load[CauseBlockedThread] >= blockedAtLeast },
		condition: "at least 8 goroutines were in system calls or C code",
		evidence: func(w *window) string {
			return fmt.Sprintf("%.1f goroutines were in system calls or C code", w.load[CauseBlockedThread])
		},
		advice: "Look for blocking file access, name lookups through C, or cgo calls in a goroutine profile.",
	},
	{
		cause:     CauseDescriptors,
		holds:     func(w *window) bool { return w.load[CauseDescriptors] >= shareAtLeast },
		condition: "at least 0.9 of RLIMIT_NOFILE is in use",
		evidence: func(w *window) string {
			return fmt.Sprintf("%.0f of %.0f file descriptors are open", w.descriptors, w.descriptorLimit)
		},
		advice: "Close response bodies and files, or raise the limit: accept and open fail at it.",
		share:  true,
	},
	{
		cause:     CauseMemory,
		holds:     func(w *window) bool { return w.load[CauseMemory] >= shareAtLeast },
		condition: "at least 0.9 of GOMEMLIMIT or of the cgroup's limit is in use",
		evidence:  func(w *window) string { return w.memory.String() },
		advice:    "Take a heap profile, or raise the limit: at GOMEMLIMIT the collector never rests, at the cgroup's the process is killed.",
		share:     true,
	},
}

// causes returns the causes in the order of the rules.
func causes() []Cause {
	all := make([]Cause, 0, len(rules))
	for _, r := range rules {
		all = append(all, r.cause)
	}
	return all
}

// holding returns the causes whose rule holds, the one to blame first. It is
// unknown alone where there is lag and no cause, and empty where nothing is
// slow.
func holding(w *window) []Cause {
	var held []Cause
	for _, r := range rules {
		if r.holds(w) {
			held = append(held, r.cause)
		}
	}
	if len(held) == 0 && w.lagShare >= lagAtLeast {
		held = append(held, CauseUnknown)
	}
	return held
}

// contendedFactor is how many times slower the threads ran than alone.
func (w *window) contendedFactor() float64 {
	delay := w.load[CauseCPUContended]
	if delay == 0 {
		return 1
	}
	return (w.cpu + delay) / w.cpu // +Inf for a process that did not get to run
}

// saturatedFactor is how many times slower goroutines ran than with a processor
// each. Run queues and run delays have no unit in common, and a run delay
// cannot exceed P: so the factors are compared.
func (w *window) saturatedFactor() float64 {
	return 1 + w.medianRunnable/w.processors
}

// isBusy reports whether the process keeps the CPUs busy, or would if others did
// not have them. The run delay alone does not tell: each thread that wakes up
// adds some, so that a server with a third of its CPUs idle reads up to 0.91.
func (w *window) isBusy() bool {
	wanted := w.cpu + w.load[CauseCPUContended]
	return w.cpu >= busyAtLeast*w.cpus || wanted >= wantedAtLeast*w.cpus*(1-w.steal)
}

func gcEvidence(w *window) string {
	evidence := fmt.Sprintf("the collector used %.1f of %.0f processors", w.load[CauseGC], w.processors)
	if w.gcLimited {
		evidence += ", and its CPU limiter was on"
	}
	evidence += fmt.Sprintf("; %s of heap live", bytesText(w.memory.heapLive))
	if w.memory.goLimit > 0 {
		evidence += fmt.Sprintf(" under a GOMEMLIMIT of %s", bytesText(w.memory.goLimit))
	}
	return evidence
}

// memoryUse is how near the process is to its memory limits, in bytes. A limit
// of 0 is none.
type memoryUse struct {
	heapLive    int64
	goUsed      int64 // live heap and what is not heap
	goLimit     int64 // GOMEMLIMIT
	groupUsed   int64
	groupLimit  int64
	groupFailed bool // the cgroup could not be read
}

// share is that of the limit that is nearest. It is not known where the only
// limit that there may be cannot be read.
func (m memoryUse) share() (share float64, known bool) {
	if m.goLimit > 0 {
		share = float64(m.goUsed) / float64(m.goLimit)
	}
	if m.groupLimit > 0 {
		share = max(share, float64(m.groupUsed)/float64(m.groupLimit))
	}
	return share, m.goLimit > 0 || !m.groupFailed
}

func (m memoryUse) String() string {
	var parts []string
	if m.goLimit > 0 {
		parts = append(parts, fmt.Sprintf("%s of a GOMEMLIMIT of %s are live or not heap", bytesText(m.goUsed), bytesText(m.goLimit)))
	}
	if m.groupLimit > 0 {
		parts = append(parts, fmt.Sprintf("%s of the cgroup's %s are in use", bytesText(m.groupUsed), bytesText(m.groupLimit)))
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

// hysteresis turns the causes of each window into a verdict that does not
// flicker. The zero value has the verdict none.
type hysteresis struct {
	verdict Cause
	before  []Cause // what held in the window before
}

// next takes what held in one window, and reports whether the verdict changed.
// It does when the window's first cause held in the window before, too, though
// perhaps behind another: two causes that take turns at the top are no reason
// to name none.
func (h *hysteresis) next(held []Cause) (changed bool) {
	cause := CauseNone
	agreed := len(h.before) == 0
	if len(held) > 0 {
		cause, agreed = held[0], slices.Contains(h.before, held[0])
	}
	h.before = held
	if h.verdict == "" {
		h.verdict = CauseNone
	}
	if !agreed || cause == h.verdict {
		return false
	}
	h.verdict = cause
	return true
}
