package diagnosis

import (
	"fmt"
	"strings"
	"time"
)

// What each cause did in a window, in the order of the rules. A sentence has no
// full stop: more may follow.

func throttledEvidence(w *Window) string {
	evidence := fmt.Sprintf("the CPU quota stopped the process for %.2f s per second", w.load(CPUThrottled))
	// Of a quota above a container's own groups Linux 6.6 and later tell how long it
	// stopped the process, and neither in how many periods nor what it allows.
	if w.ThrottledPeriods == 0 {
		return evidence
	}
	return evidence + fmt.Sprintf(", in %d of its periods; it may use %.3g CPUs", w.ThrottledPeriods, w.CPUs)
}

func stoppedEvidence(w *Window) string {
	return fmt.Sprintf("pauses that are not the collector's took %.0f %% of the time", 100*w.load(StopTheWorld)/w.Processors)
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

func contendedEvidence(w *Window) string {
	evidence := fmt.Sprintf("%.2f threads were ready without a processor while %.2f ran, on %.3g CPUs with GOMAXPROCS %.0f",
		w.load(CPUContended), w.CPU.Or(0), w.CPUs, w.Processors)
	if slice, ok := w.DelayPerSlice.Get(); ok {
		evidence += fmt.Sprintf("; each waited %.2f ms a time", 1000*slice)
	}
	if steal, ok := w.Steal.Get(); ok {
		evidence += fmt.Sprintf("; the hypervisor took %.0f %%", 100*steal)
	}
	return evidence
}

func saturatedEvidence(w *Window) string {
	evidence := fmt.Sprintf("%.1f goroutines were ready without a processor (median %.0f) for %.0f processors; the process used %.2f CPUs",
		w.load(CPUSaturated), w.MedianRunnable, w.Processors, w.CPU.Or(0))
	if w.MedianRunnable < queueAtLeast*w.Processors && w.LagShare >= burstLag {
		evidence += fmt.Sprintf("; they came in bursts, and goroutines woke up to %v late", w.WorstLag.Round(time.Millisecond))
	}
	return evidence
}

func writeEvidence(w *Window) string {
	return fmt.Sprintf("%.1f output writes were under way", w.load(OutputWrite))
}

func lockEvidence(w *Window) string {
	return fmt.Sprintf("%.1f goroutines waited for a mutex", w.load(Lock))
}

func descriptorEvidence(w *Window) string {
	return fmt.Sprintf("%.0f of %.0f file descriptors are open", w.Descriptors.Or(0), w.DescriptorLimit.Or(0))
}

func outboundEvidence(w *Window) string {
	evidence := fmt.Sprintf("%.1f outbound requests waited for their response headers, %v each", w.load(Downstream), w.OutboundWait.Round(time.Millisecond))
	if w.Active > 0 {
		evidence += fmt.Sprintf("; %.1f rollouts were active", w.Active)
	}
	return evidence
}

// admissionEvidence says what the rollouts inside the limit wait for: a driver that
// is in balance with its model and a limit that is too low look the same from
// here, and a reader who knows the model can tell them apart by that.
func admissionEvidence(w *Window) string {
	return fmt.Sprintf("%.1f rollouts waited for admission, %v each; %.1f of %s active wait outbound",
		w.load(Admission), w.AdmissionWait.Round(time.Millisecond), min(w.load(Downstream), w.Active),
		strings.TrimSuffix(fmt.Sprintf("%.1f", w.Active), ".0")) // mostly the limit, a whole number
}

func blockedEvidence(w *Window) string {
	return fmt.Sprintf("%.1f goroutines were in system calls or C code", w.load(BlockedThread))
}

func waitEvidence(w *Window) string {
	if w.Pooled > w.Waiting {
		evidence := fmt.Sprintf("%.1f outbound requests waited for a connection of this process's own pool, %v each", w.Pooled, w.PoolWait.Round(time.Millisecond))
		if w.Active > 0 {
			evidence += fmt.Sprintf("; %.1f rollouts were active", w.Active)
		}
		return evidence
	}
	evidence := fmt.Sprintf("%.1f of %.1f requests in flight wait in this process, and take %v each", w.Waiting, w.Owed, w.RequestWait.Round(time.Millisecond))
	if w.WaitsOutside {
		evidence += "; most of them for another server or process"
	}
	return evidence
}

func unknownEvidence(w *Window) string {
	return fmt.Sprintf("goroutines woke up to %v late, and no measured cause says why; a machine that was stopped or suspended looks like this",
		w.WorstLag.Round(time.Millisecond))
}
