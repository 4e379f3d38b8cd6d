package diagnosis

import (
	"time"

	"github.com/gym-observer/observer/internal/number"
)

// How the load of each cause is computed, in the order of the rules.

// throttledLoad is not known where a quota could not be seen, unless another was
// seen to throttle: the process was stopped for that long at least.
func throttledLoad(s *span) number.Number {
	seen := s.perSecond(func(r *Reading) number.Number { return r.Throttled })
	if s.after.ThrottlingUnseen && seen.Or(0) < throttledBarely {
		return number.Number{}
	}
	return seen
}

func stoppedLoad(s *span) number.Number {
	stopped := s.perSecond(func(r *Reading) number.Number { return r.Stopped })
	return stopped.Over(1 / s.after.Processors) // all of them stand still
}

func collectorLoad(s *span) number.Number {
	return s.perSecond(func(r *Reading) number.Number { return r.Collector })
}

// contendedLoad is not known while the quota throttles: what it stopped is in the
// run delay, in a way that depends on the kernel, and says nothing of others.
// Where a quota could not be read, it may have. The rule needs the own CPU, too.
func contendedLoad(s *span) number.Number {
	delay := s.perSecond(func(r *Reading) number.Number { return r.RunDelay })
	throttled := s.perSecond(func(r *Reading) number.Number { return r.Throttled })
	if throttled.Or(0) >= throttledBarely || s.after.ThrottlingUnseen || !s.cpu().IsKnown() {
		return number.Number{}
	}
	return delay
}

func saturatedLoad(s *span) number.Number { return s.samples.runnable.number() }

func writeLoad(s *span) number.Number {
	recorded := max(0, (s.after.Written-s.before.Written).Seconds()/s.length.Seconds())
	return s.samples.mean(s.samples.writing).Plus(number.Known(recorded))
}

// lockLoad is what the runtime counted or what snapshots saw, whichever is larger.
// The runtime counts a wait when it ends, and of each goroutine every eighth: a
// lock that is held for longer than the window reads as nothing, and so does for
// ever a goroutine whose waits come in eights.
func lockLoad(s *span) number.Number {
	counted := s.perSecond(func(r *Reading) number.Number { return r.Locked })
	return counted.Max(s.after.MutexWaiters)
}

func outboundLoad(s *span) number.Number { return s.samples.mean(s.samples.outbound) }

func admissionLoad(s *span) number.Number { return s.samples.mean(s.samples.waiting) }

// blockedLoad leaves out the goroutines that wait for a child process, one for
// each that lives.
func blockedLoad(s *span) number.Number {
	return s.samples.notInGo.number().Less(s.after.Children)
}

// waitLoad is what requests wait for or what calls out wait for, whichever is larger:
// of a server that calls others, the same work is in both. That nothing waits for the
// pool does not say that nothing waits.
func waitLoad(s *span) number.Number {
	waiting := s.waiting()
	if s.samples.pooled == 0 {
		return waiting
	}
	return waiting.Max(s.samples.mean(s.samples.pooled))
}

// waiting is at most what is owed: a snapshot may have come at a busy moment.
func (s *span) waiting() number.Number {
	waiting, seen := s.after.RequestsWaiting.Get()
	return number.If(seen, min(waiting, s.samples.mean(s.samples.served).Or(0)))
}

func descriptorShare(s *span) number.Number {
	limit := max(1, s.after.DescriptorLimit.Or(0)) // a sandbox may set 0
	return number.If(s.after.DescriptorLimit.IsKnown() && s.after.Descriptors.IsKnown(), s.after.Descriptors.Or(0)/limit)
}

func memoryShare(s *span) number.Number { return s.after.Memory.share() }

// cpu is the CPU time of the process, in seconds per second.
func (s *span) cpu() number.Number {
	return s.perSecond(func(r *Reading) number.Number { return r.CPU })
}

// steal is the share of the machine's time that the hypervisor took.
func (s *span) steal() number.Number {
	machine := s.after.Machine.Growth(s.before.Machine)
	return number.If(machine.Or(0) > 0, s.after.Steal.Growth(s.before.Steal).Or(0)/machine.Or(1))
}

// delayPerSlice is how long a thread waited each time before it got a processor.
func (s *span) delayPerSlice() number.Number {
	delay, slices := s.after.RunDelay.Growth(s.before.RunDelay), s.after.Timeslices.Growth(s.before.Timeslices)
	return number.If(delay.IsKnown() && slices.Or(0) > 0, delay.Or(0)/slices.Or(1))
}

// meanWait is how long one of those waits that were waiting, in the sum over the
// samples, while some ended.
func (s *span) meanWait(sum, endedBefore, endedAfter int64) time.Duration {
	waiting := s.samples.mean(sum).Or(0)
	if ended := endedAfter - endedBefore; ended > 0 {
		return time.Duration(min(waiting/float64(ended)*float64(s.length), 1e18)) // some 30 years; more would not fit
	}
	if waiting > 0 {
		return s.length
	}
	return 0
}
