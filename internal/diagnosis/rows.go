package diagnosis

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/gym-observer/observer/internal/number"
)

// row is all that there is to say of one cause in the program. What only people
// read of it stands in documentation.go.
type row struct {
	name      string
	load      func(*span) number.Number
	holds     func(*Window) bool
	condition string // when holds does, in words
	evidence  func(*Window) string
	advice    string
	share     bool // its load is the share of a limit that is in use
	level     slog.Level
	captures  bool
}

// rows are asked in this order, and the first that holds has the verdict. An
// unmeasured load is 0 to a rule, and blames nobody.
var rows = [NumCauses]row{
	None: {
		name:      "none",
		condition: "no rule holds",
		evidence:  func(*Window) string { return "nothing waits beyond its normal bounds" },
	},
	CPUThrottled: {
		name:      "cpu_throttled",
		load:      throttledLoad,
		holds:     func(w *Window) bool { return w.load(CPUThrottled) >= throttledAtLeast },
		condition: "the quota stopped the process for at least 0.1 s per second",
		evidence: func(w *Window) string {
			return fmt.Sprintf("the CPU quota stopped the process for %.2f s per second, in %d of its periods; it may use %.3g CPUs",
				w.load(CPUThrottled), w.ThrottledPeriods, w.CPUs)
		},
		advice:   "Raise the CPU limit, or set GOMAXPROCS to it so that the quota is not burnt in a burst.",
		level:    slog.LevelWarn,
		captures: true,
	},
	StopTheWorld: {
		name:      "stop_the_world",
		load:      stoppedLoad,
		holds:     func(w *Window) bool { return w.load(StopTheWorld) >= stoppedAtLeast*w.Processors },
		condition: "pauses that are not the collector's took at least 0.1 of the time",
		evidence: func(w *Window) string {
			return fmt.Sprintf("pauses that are not the collector's took %.0f %% of the time", 100*w.load(StopTheWorld)/w.Processors)
		},
		advice:   "Find what stops the world: runtime.ReadMemStats, goroutine and heap profiles, GOMAXPROCS changes, or a tracer.",
		level:    slog.LevelWarn,
		captures: true,
	},
	GC: {
		name:      "gc",
		load:      collectorLoad,
		holds:     func(w *Window) bool { return w.load(GC) >= gcAtLeast*w.Processors || w.GCLimited },
		condition: "the collector used at least 0.35 of the processors, or its CPU limiter was on",
		evidence:  gcEvidence,
		advice:    "Allocate less (take an allocation profile), or give it room: raise GOGC, or GOMEMLIMIT if the heap presses against it.",
		level:     slog.LevelWarn,
		captures:  true,
	},
	CPUContended: {
		name: "cpu_contended",
		load: contendedLoad,
		holds: func(w *Window) bool {
			delay := w.load(CPUContended)
			return delay >= delayAtLeast*w.CPUs && delay >= delayShare*(w.CPU.Or(0)+delay) &&
				w.contendedFactor() >= w.saturatedFactor()
		},
		condition: "threads waited for a processor at least 0.25 of the CPUs and half of the time that they wanted one, and that slows more than the run queue does",
		evidence: func(w *Window) string {
			evidence := fmt.Sprintf("%.2f threads were ready without a processor while %.2f ran, on %.3g CPUs with GOMAXPROCS %.0f",
				w.load(CPUContended), w.CPU.Or(0), w.CPUs, w.Processors)
			if steal, ok := w.Steal.Get(); ok {
				evidence += fmt.Sprintf("; the hypervisor took %.0f %%", 100*steal)
			}
			return evidence
		},
		advice:   "Other processes or machines have the CPU: move one away, or lower GOMAXPROCS to the CPUs that are there. Where the process has them itself, its C code runs on more threads than that.",
		level:    slog.LevelWarn,
		captures: true,
	},
	CPUSaturated: {
		name: "cpu_saturated",
		load: saturatedLoad,
		holds: func(w *Window) bool {
			return w.MedianRunnable >= queueAtLeast*w.Processors && w.isBusy()
		},
		condition: "the median run queue was at least 1.5 goroutines a processor, and the process used at least 0.75 of the CPUs, or used or waited for at least 0.95 of what the hypervisor left of them",
		evidence: func(w *Window) string {
			return fmt.Sprintf("%.1f goroutines were ready without a processor (median %.0f) for %.0f processors; the process used %.2f CPUs",
				w.load(CPUSaturated), w.MedianRunnable, w.Processors, w.CPU.Or(0))
		},
		advice:   "Take a CPU profile, admit less at once, or add processors.",
		level:    slog.LevelWarn,
		captures: true,
	},
	OutputWrite: {
		name:      "output_write",
		load:      writeLoad,
		holds:     func(w *Window) bool { return w.load(OutputWrite) >= writeAtLeast },
		condition: "at least 0.9 output writes were under way on average",
		evidence: func(w *Window) string {
			return fmt.Sprintf("%.1f output writes were under way", w.load(OutputWrite))
		},
		advice:   "Look at the disk or the store, write in larger pieces, or write beside the rollouts instead of in them.",
		level:    slog.LevelWarn,
		captures: true,
	},
	Lock: {
		name:      "lock",
		load:      lockLoad,
		holds:     func(w *Window) bool { return w.load(Lock) >= lockAtLeast },
		condition: "at least 2 goroutines waited for a mutex",
		evidence: func(w *Window) string {
			return fmt.Sprintf("%.1f goroutines waited for a mutex", w.load(Lock))
		},
		advice:   "Take a goroutine profile: the stack that most share waits for it. Hold the lock for less, or split it.",
		level:    slog.LevelWarn,
		captures: true,
	},
	Downstream: {
		name: "downstream",
		load: outboundLoad,
		holds: func(w *Window) bool {
			outbound := w.load(Downstream)
			return outbound >= outboundAtLeast && w.OutboundWait >= outboundWaitAtLeast && outbound >= w.Active/2
		},
		condition: "at least 8 outbound requests waited, 100 ms each on average, and at least half as many as there are active rollouts",
		evidence: func(w *Window) string {
			evidence := fmt.Sprintf("%.1f outbound requests waited for their response headers, %v each", w.load(Downstream), w.OutboundWait.Round(time.Millisecond))
			if w.Active > 0 {
				evidence += fmt.Sprintf("; %.1f rollouts were active", w.Active)
			}
			return evidence
		},
		advice: "The time goes by in another server: look there. For a driver that waits for its model this is as it should be.",
		level:  slog.LevelInfo,
	},
	Admission: {
		name:      "admission",
		load:      admissionLoad,
		holds:     func(w *Window) bool { return w.load(Admission) >= admissionAtLeast },
		condition: "at least 1 rollout waited for the limit on average",
		evidence: func(w *Window) string {
			return fmt.Sprintf("%.1f rollouts waited for admission while %.1f were active", w.load(Admission), w.Active)
		},
		advice:   "Raise the limit if what is behind it has room; no cause that comes before it explains the wait.",
		level:    slog.LevelWarn,
		captures: true,
	},
	BlockedThread: {
		name:      "blocked_thread",
		load:      blockedLoad,
		holds:     func(w *Window) bool { return w.load(BlockedThread) >= blockedAtLeast },
		condition: "at least 8 goroutines were in system calls or C code",
		evidence: func(w *Window) string {
			return fmt.Sprintf("%.1f goroutines were in system calls or C code", w.load(BlockedThread))
		},
		advice:   "Look for blocking file access, name lookups through C, or cgo calls in a goroutine profile.",
		level:    slog.LevelWarn,
		captures: true,
	},
	Descriptors: {
		name:      "descriptors",
		load:      descriptorShare,
		holds:     func(w *Window) bool { return w.load(Descriptors) >= shareAtLeast },
		condition: "at least 0.9 of RLIMIT_NOFILE is in use",
		evidence: func(w *Window) string {
			return fmt.Sprintf("%.0f of %.0f file descriptors are open", w.Descriptors.Or(0), w.DescriptorLimit.Or(0))
		},
		advice:   "Close response bodies and files, or raise the limit: accept and open fail at it.",
		share:    true,
		level:    slog.LevelWarn,
		captures: true,
	},
	Memory: {
		name:      "memory",
		load:      memoryShare,
		holds:     func(w *Window) bool { return w.load(Memory) >= shareAtLeast },
		condition: "at least 0.9 of GOMEMLIMIT or of the cgroup's limit is in use",
		evidence:  func(w *Window) string { return w.Memory.String() },
		advice:    "Take a heap profile, or raise the limit: at GOMEMLIMIT the collector never rests, at the cgroup's the process is killed.",
		share:     true,
		level:     slog.LevelWarn,
		captures:  true,
	},
	Unknown: {
		name:      "unknown",
		holds:     func(w *Window) bool { return w.LagShare >= lagAtLeast },
		condition: "no rule above holds, and goroutines woke up late, by more than 20 ms each time, for at least 0.1 of the window",
		evidence: func(w *Window) string {
			return fmt.Sprintf("goroutines woke up to %v late, and no measured cause says why; a machine that was stopped or suspended looks like this",
				w.WorstLag.Round(time.Millisecond))
		},
		level:    slog.LevelWarn,
		captures: true,
	},
}

// Holding returns the causes whose rule holds: Unknown alone where there is lag
// and no cause, and none where nothing is slow.
func (w *Window) Holding() (held Set) {
	for c := range All() {
		if rows[c].holds(w) {
			held |= SetOf(c)
		}
	}
	if held == 0 && rows[Unknown].holds(w) {
		return SetOf(Unknown)
	}
	return held
}

// contendedFactor is how many times slower the threads ran than alone.
func (w *Window) contendedFactor() float64 {
	delay := w.load(CPUContended)
	if delay == 0 {
		return 1
	}
	return (w.CPU.Or(0) + delay) / w.CPU.Or(0) // +Inf for a process that did not get to run
}

// saturatedFactor is how many times slower goroutines ran than with a processor
// each. Run queues and run delays have no unit in common, and a run delay
// cannot exceed P: so the factors are compared.
func (w *Window) saturatedFactor() float64 {
	return 1 + w.MedianRunnable/w.Processors
}

// isBusy reports whether the process keeps the CPUs busy, or would if others did
// not have them. The run delay alone does not tell: each thread that wakes up
// adds some, so that a server with a third of its CPUs idle reads up to 0.91.
func (w *Window) isBusy() bool {
	used := w.CPU.Or(0)
	wanted := used + w.load(CPUContended)
	return used >= busyAtLeast*w.CPUs || wanted >= wantedAtLeast*w.CPUs*(1-w.Steal.Or(0))
}

func gcEvidence(w *Window) string {
	evidence := fmt.Sprintf("the collector used %.1f of %.0f processors", w.load(GC), w.Processors)
	if w.GCLimited {
		evidence += ", and its CPU limiter was on"
	}
	evidence += fmt.Sprintf("; %s of heap live", bytesText(w.Memory.HeapLive))
	if w.Memory.GoLimit > 0 {
		evidence += fmt.Sprintf(" under a GOMEMLIMIT of %s", bytesText(w.Memory.GoLimit))
	}
	return evidence
}
