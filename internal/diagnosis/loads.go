package diagnosis

import (
	"time"

	"github.com/gym-observer/observer/internal/number"
)

// How the load of each cause is computed, in the order of the rules.

func throttledLoad(s *span) number.Number {
	return s.perSecond(func(r *Reading) number.Number { return r.Throttled })
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
	readable := throttledLoad(s).Or(0) < throttledBarely && !s.after.ThrottlingFailed && s.cpu().IsKnown()
	return number.If(delay.IsKnown() && readable, delay.Or(0))
}

func saturatedLoad(s *span) number.Number { return s.samples.runnable.number() }

func writeLoad(s *span) number.Number {
	recorded := max(0, (s.after.Written-s.before.Written).Seconds()/s.length.Seconds())
	return s.samples.mean(s.samples.writing).Plus(number.Known(recorded))
}

func lockLoad(s *span) number.Number {
	return s.perSecond(func(r *Reading) number.Number { return r.Locked })
}

func outboundLoad(s *span) number.Number { return s.samples.mean(s.samples.outbound) }

func admissionLoad(s *span) number.Number { return s.samples.mean(s.samples.waiting) }

func blockedLoad(s *span) number.Number { return s.samples.notInGo.number() }

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

// outboundWait is the mean wait of an outbound request: by Little's law, or at
// least the window where none has ended.
func (s *span) outboundWait() time.Duration {
	waiting := outboundLoad(s).Or(0)
	if ended := s.after.OutboundEnded - s.before.OutboundEnded; ended > 0 {
		return time.Duration(waiting / float64(ended) * float64(s.length))
	}
	if waiting > 0 {
		return s.length
	}
	return 0
}
