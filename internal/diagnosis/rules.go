package diagnosis

import "time"

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

func (w *Window) isCollecting() bool {
	share := w.load(GC) / w.Processors
	return share >= gcAtLeast || w.GCLimited && share >= gcLimitedAtLeast
}

// isContended reports whether others have the CPUs. A run delay alone does not
// say so: each thread that wakes up adds some, so it must be felt, too.
//
// A process whose work arrives at a rate that it could do alone queues without
// end once others take its CPUs, and then its own run queue slows it more than
// they do. That it gets little CPU and that its threads wait long each time tells
// it from one that overloads itself. There, the delay need not outweigh the own
// CPU: in the windows of half a load on one CPU, its share was 0.37 to 0.54.
func (w *Window) isContended() bool {
	delay, used := w.load(CPUContended), w.CPU.Or(0)
	if delay < delayAtLeast*w.CPUs || w.Idle.Or(0) >= idleAtLeast {
		return false
	}
	slice := w.DelayPerSlice.Or(0)
	felt := slice >= sliceHurts.Seconds() || w.LagShare >= lagHurts
	outweighs := delay >= delayShare*(used+delay) && w.contendedFactor() >= w.saturatedFactor()
	starved := used < starvedBelow*w.CPUs && slice >= sliceStarves.Seconds()
	return felt && (outweighs || starved)
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

// isSaturated reports whether there is more work than processors. In bursts the
// queue is empty most of the time; then the lag tells them from a herd that wakes
// at once and is gone. After a process was stopped its work comes all at once, too:
// what tells the two apart is the CPU time that it used while it was late. The mean
// run queue does not, since the sampler sees a short burst once, at its end, among 20
// samples: 1.7 to 9.5 in windows of bursts with 32 goroutines. On two CPUs, these used
// 2.2 to 2.5 s for each second of lateness, and idle processes that were stopped 0.01.
func (w *Window) isSaturated() bool {
	queue := queueAtLeast * w.Processors
	if w.MedianRunnable >= queue {
		return w.isBusy()
	}
	if w.LagShare < burstLag {
		return false
	}
	if used, known := w.LateCPU.Get(); known {
		return w.LateRunnable.Or(0) >= queue && used >= busyAtLeast*w.CPUs
	}
	return w.MostlyRunnable.Or(0) >= queue // after a stop, all of it came once
}

// isBusy reports whether the process keeps the CPUs busy, or would if others did
// not have them. The run delay alone does not tell: each thread that wakes up
// adds some, so that a server with a third of its CPUs idle reads up to 0.91.
func (w *Window) isBusy() bool {
	used := w.CPU.Or(0)
	wanted := used + w.load(CPUContended)
	return used >= busyAtLeast*w.CPUs || wanted >= wantedAtLeast*w.CPUs*(1-w.Steal.Or(0))
}

// isWriting reports whether rollouts wait for the output: in the write itself, or
// for the lock that is held over it.
func (w *Window) isWriting() bool {
	writing := w.load(OutputWrite)
	return writing >= writeAtLeast && (w.load(Lock) >= lockAtLeast || writing >= writeShare*w.Active)
}

// isDownstream reports whether the time goes by in another server. Any call will
// do where rollouts are active: a driver with a small limit has no more of them.
func (w *Window) isDownstream() bool {
	return w.isHeldUpBy(w.load(Downstream), w.OutboundWait)
}

// isHeldUpBy reports whether so many calls out, which take so long each, hold the
// process up.
func (w *Window) isHeldUpBy(calls float64, each time.Duration) bool {
	enough := calls >= outboundAtLeast || w.Active > 0 && calls >= drivenAtLeast
	return enough && each >= waitAtLeast && calls >= outboundShare*w.Active
}

// isOutOfConnections reports whether calls out wait for the process's own pool, by the
// measure of isDownstream. Whatever waits behind them, as rollouts do for the limit,
// waits for that.
func (w *Window) isOutOfConnections() bool {
	return w.isHeldUpBy(w.Pooled, w.PoolWait)
}

// isWaitingForLimit reports whether rollouts wait for the limit. It is no cause where
// what is inside of the limit waits for connections: a higher limit would only make
// that queue longer.
func (w *Window) isWaitingForLimit() bool {
	return w.load(Admission) >= admissionAtLeast && w.AdmissionWait >= waitAtLeast && !w.isOutOfConnections()
}

func (w *Window) isWaiting() bool {
	requests := w.AsksForWaits() && w.Waiting >= requestsAtLeast && w.Waiting >= owedShare*w.Owed
	return requests || w.isOutOfConnections()
}

// AsksForWaits reports whether the rule of Wait could hold, as far as was counted
// for nothing. Only then are snapshots of the goroutines worth what they cost.
func (w *Window) AsksForWaits() bool {
	return w.Owed >= requestsAtLeast && w.RequestWait >= waitAtLeast
}

// AsksForLocks reports whether it matters how many goroutines wait for a mutex: those
// that wait for a write under a lock tell one slow write from many short ones, and the
// runtime's count of mutex waits, which follows every eighth, comes too late for that
// in some windows.
func (w *Window) AsksForLocks() bool { return w.load(OutputWrite) >= writeAtLeast }
