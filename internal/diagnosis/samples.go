package diagnosis

import (
	"time"

	"github.com/gym-observer/observer/internal/number"
)

// Samples add up the samples of one window.
type Samples struct {
	count                                      float64
	runnable, notInGo                          mean
	queue                                      queueLengths
	waiting, outbound, writing, active, served int64
	pooled                                     int64
	lagExcess, worstLag                        time.Duration
	late                                       late
}

// Add counts one sample. It allocates nothing.
func (s *Samples) Add(sample *Sample) {
	s.count++
	s.runnable.add(sample.Runnable)
	s.notInGo.add(sample.NotInGo)
	if runnable, ok := sample.Runnable.Get(); ok {
		s.queue.add(runnable)
	}
	s.waiting += sample.Waiting
	s.writing += sample.Writing
	s.active += sample.Active
	s.outbound += max(0, sample.Outbound-sample.ExpectedOutbound-sample.Pooled)
	s.pooled += sample.Pooled
	s.served += max(0, sample.Requests-sample.ExpectedRequests-sample.Streams)
	s.lagExcess += max(0, sample.Lag-lagAllowance)
	s.worstLag = max(s.worstLag, sample.Lag)
	s.late.add(sample)
}

// late adds up what was going on while the sampler waited for a processor.
type late struct {
	at  time.Time     // of the sample before
	cpu number.Number // then

	used, lag      float64 // CPU time in the intervals that ended late, and how late, in seconds
	queued, excess float64 // runnable goroutines, by how late the sample that saw them was; and that, in seconds
}

func (l *late) add(sample *Sample) {
	excess := (sample.Lag - lagAllowance).Seconds()
	used, known := sample.CPU.Growth(l.cpu).Get()
	if runnable, seen := sample.Runnable.Get(); known && seen && excess > 0 {
		l.used += used
		l.lag += sample.Lag.Seconds()
		l.queued += runnable * excess
		l.excess += excess
	}
	l.at, l.cpu = sample.At, sample.CPU
}

// cpus is how many CPUs the process used while it was late: or a little before, since
// what it used up to the moment at which the sampler was due is not known.
func (l *late) cpus() number.Number { return number.Mean(l.used, l.lag) }

// queue is the run queue when the sampler got to run at last. A sampler that waits
// behind a burst of work sees that once, however long it was: hence by lateness.
func (l *late) queue() number.Number { return number.Mean(l.queued, l.excess) }

// mean of a count at each sample.
func (s *Samples) mean(sum int64) number.Number { return number.Mean(float64(sum), s.count) }

// mean is that of the samples which knew the number: others do not dilute it.
type mean struct{ sum, known, largest float64 }

func (m *mean) add(n number.Number) {
	if v, ok := n.Get(); ok {
		m.sum += v
		m.known++
		m.largest = max(m.largest, v)
	}
}

func (m *mean) number() number.Number { return number.Mean(m.sum, m.known) }

// withoutLargest is the mean of all samples but the largest one.
func (m *mean) withoutLargest() number.Number { return number.Mean(m.sum-m.largest, m.known-1) }

// queueLengths counts run queues by their length, for the median. Samples at
// the wrong moment make the mean a poor witness: the median is robust to them.
type queueLengths struct {
	counts [4097]uint32 // the last one is for all that are longer
}

func (q *queueLengths) add(length float64) {
	q.counts[int(min(max(length, 0), float64(len(q.counts)-1)))]++
}

func (q *queueLengths) median(samples float64) float64 {
	below := 0.0
	for length, count := range q.counts {
		below += float64(count)
		if below > 0 && below >= samples/2 {
			return float64(length)
		}
	}
	return 0
}
