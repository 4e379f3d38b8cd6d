package diagnosis

import (
	"log/slog"

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

	// spared reports whether a load that is not known need not be: what was counted
	// for nothing acquits the cause, so that nobody looked. Nil is never.
	spared func(*Window) bool
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
		evidence:  throttledEvidence,
		advice:    "Raise the CPU limit, or set GOMAXPROCS to it so that the quota is not burnt in a burst.",
		level:     slog.LevelWarn,
	},
	StopTheWorld: {
		name:      "stop_the_world",
		load:      stoppedLoad,
		holds:     func(w *Window) bool { return w.load(StopTheWorld) >= stoppedAtLeast*w.Processors },
		condition: "pauses that are not the collector's took at least 0.1 of the time",
		evidence:  stoppedEvidence,
		advice:    "Find what stops the world: runtime.ReadMemStats, goroutine and heap profiles, GOMAXPROCS changes, or a tracer.",
		level:     slog.LevelWarn,
	},
	GC: {
		name:      "gc",
		load:      collectorLoad,
		holds:     (*Window).isCollecting,
		condition: "the collector used at least 0.35 of the processors, or at least 0.2 while its CPU limiter was on",
		evidence:  gcEvidence,
		advice:    "Allocate less, or give it room: raise GOGC, or GOMEMLIMIT if the heap presses against it.",
		level:     slog.LevelWarn,
	},
	CPUContended: {
		name:  "cpu_contended",
		load:  contendedLoad,
		holds: (*Window).isContended,
		condition: "threads waited for a processor at least 0.25 of the CPUs, these were less than 0.5 idle, and it was felt: 0.5 ms each time, or a lag share of 0.01; " +
			"and either the wait took 0.5 of the time that threads wanted a processor and slows more than the run queue does, or the process used less than 0.6 of the CPUs while its threads waited 0.2 ms each time",
		evidence: contendedEvidence,
		advice:   "Other processes or machines have the CPU: move one away, or lower GOMAXPROCS to the CPUs that are there. Where the process has them itself, its C code runs on more threads than that.",
		level:    slog.LevelWarn,
	},
	CPUSaturated: {
		name:  "cpu_saturated",
		load:  saturatedLoad,
		holds: (*Window).isSaturated,
		condition: "the median run queue was at least 1.5 goroutines a processor, and the process used at least 0.75 of the CPUs, or used or waited for at least 0.95 of what the hypervisor left of them; " +
			"or in bursts, the median below 1.5, with a lag share of 0.1, where goroutines woke up behind 1.5 a processor and the process used 0.75 of the CPUs while they were late (where that cannot be read: the mean without the longest sample at least 1.5)",
		evidence: saturatedEvidence,
		advice:   "Take a CPU profile, admit less at once, or add processors.",
		level:    slog.LevelWarn,
	},
	OutputWrite: {
		name:      "output_write",
		load:      writeLoad,
		holds:     (*Window).isWriting,
		condition: "at least 0.9 output writes were under way on average, and they are waited for: at least 2 goroutines wait for a mutex, or 0.5 of the active rollouts write",
		evidence:  writeEvidence,
		advice:    "Look at the disk or the store, write in larger pieces, or write beside the rollouts instead of in them.",
		level:     slog.LevelWarn,
	},
	Lock: {
		name:      "lock",
		load:      lockLoad,
		holds:     func(w *Window) bool { return w.load(Lock) >= lockAtLeast },
		condition: "at least 2 goroutines waited for a mutex",
		evidence:  lockEvidence,
		advice:    "Hold the lock for less, or split it. Where no line is named, a goroutine profile has the stack that most share.",
		level:     slog.LevelWarn,
	},
	Descriptors: {
		name:      "descriptors",
		load:      descriptorShare,
		holds:     func(w *Window) bool { return w.load(Descriptors) >= shareAtLeast },
		condition: "at least 0.9 of RLIMIT_NOFILE is in use",
		evidence:  descriptorEvidence,
		advice:    "Close response bodies and files, or raise the limit: accept and open fail at it.",
		share:     true,
		level:     slog.LevelWarn,
	},
	Memory: {
		name:      "memory",
		load:      memoryShare,
		holds:     func(w *Window) bool { return w.load(Memory) >= shareAtLeast },
		condition: "at least 0.9 of GOMEMLIMIT or of the cgroup's limit is in use",
		evidence:  memoryEvidence,
		advice:    "Take a heap profile, or raise the limit: at GOMEMLIMIT the collector never rests, at memory.high the process is put to sleep, at the cgroup's limit it is killed.",
		share:     true,
		level:     slog.LevelWarn,
	},
	Downstream: {
		name:      "downstream",
		load:      outboundLoad,
		holds:     (*Window).isDownstream,
		condition: "at least 8 outbound requests waited, or 0.5 where rollouts are active, for 100 ms each on average, and at least 0.5 as many as there are active rollouts",
		evidence:  outboundEvidence,
		advice:    "The time goes by in another server: look there. For a driver that waits for its model this is as it should be.",
		level:     slog.LevelInfo,
	},
	Admission: {
		name:      "admission",
		load:      admissionLoad,
		holds:     (*Window).isWaitingForLimit,
		condition: "at least 1 rollout waited for the limit on average, for 100 ms each, and not because those that were admitted wait for the process's own connection pool (`wait`)",
		evidence:  admissionEvidence,
		advice:    "Raise the limit if what is behind it has room; no cause that comes before it explains the wait.",
		level:     slog.LevelInfo,
	},
	BlockedThread: {
		name:      "blocked_thread",
		load:      blockedLoad,
		holds:     func(w *Window) bool { return w.load(BlockedThread) >= blockedAtLeast },
		condition: "at least 8 goroutines were in system calls or C code, without those that wait for a child process",
		evidence:  blockedEvidence,
		advice:    "Look for blocking file access, name lookups through C, or cgo calls in a goroutine profile.",
		level:     slog.LevelWarn,
	},
	Wait: {
		name:      "wait",
		load:      waitLoad,
		holds:     (*Window).isWaiting,
		condition: "at least 8 requests in flight waited for something in this process that no cause above covers, at least 0.5 of those that somebody waits for, which took 100 ms each; or so many calls out as `downstream` asks for waited for a connection of the process's own pool",
		evidence:  waitEvidence,
		advice:    "Give the channel, pool, semaphore or limiter that they wait for more room, or hold it for less. Where no line is named, a goroutine profile has the stack that most share.",
		level:     slog.LevelWarn,
		spared:    func(w *Window) bool { return !w.AsksForWaits() },
	},
	Unknown: {
		name:      "unknown",
		holds:     func(w *Window) bool { return w.LagShare >= lagAtLeast },
		condition: "no rule above holds, and goroutines woke up late, by more than 20 ms each time, for at least 0.1 of the window",
		evidence:  unknownEvidence,
		level:     slog.LevelWarn,
	},
}
