package observer

import (
	"context"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sys/cpu"
)

const (
	// maxPendingRecordings is how many recordings may wait; the next ones are made
	// by the rollout itself.
	maxPendingRecordings = 1024

	// recordingPatience is how long they wait where nobody collects.
	recordingPatience = 10 * time.Second

	// passOnPatience is how long a collection waits for them, should the provider
	// hang in one. What it goes on without is in the next.
	passOnPatience = time.Second
)

// recordings takes what rollouts and samplers record, and passes it to the
// histograms on other goroutines: a rollout pays 15 ns for one, where the SDK's
// Record takes 120, and more when several cores fight for its counters. A sampler
// of an idle process saves more, since code that runs ten times a second finds
// nothing of itself in any cache. Whoever collects sees all of it, since the
// callback first has passed on what waits.
//
// It is a ring for many writers and one reader. Each cell's turn says whose it is:
// the writer's of that position, or, one more, the reader's.
type recordings struct {
	_     cpu.CacheLinePad
	tail  atomic.Uint64 // the next position to write
	_     cpu.CacheLinePad
	cells [maxPendingRecordings]pendingRecording

	wake  chan struct{}    // has room for one: told when the ring is half full, or something waits for long
	asked chan chan<- bool // answered, whether all was passed on, when that is done
	head  uint64           // the next position to read; run's alone

	passed   atomic.Uint64 // everything before this position has been passed on
	passedAt atomic.Int64  // when, on the clock of sinceBase
}

// run passes on what waits whenever it is told, until done. Nobody else does, so
// that a provider that hangs in a recording holds up nothing else, neither a
// sampler, which must not be late by its own making, nor an export. One that calls
// Goexit ends the goroutine, and another takes its place.
func (r *recordings) run(done <-chan struct{}) {
	ended := false
	defer func() {
		if !ended {
			go r.run(done)
		}
	}()
	for {
		select {
		case <-done:
			ended = true
			return
		case <-r.wake:
			r.flush()
		case answer := <-r.asked:
			answer <- r.flush()
		}
	}
}

// passOn returns when everything recorded before has been passed on, or says
// that it has not until the timeout. The answer is an empty channel with room for
// one; after a timeout it must not be used again.
func (r *recordings) passOn(answer chan bool, timeout <-chan time.Time) (all bool) {
	if r.passed.Load() == r.tail.Load() {
		return true
	}
	select {
	case r.asked <- answer:
	case <-timeout:
		return false
	}
	select {
	case all = <-answer:
		return all
	case <-timeout:
		return false
	}
}

// passOnAll passes on what waits for good: a rollout may be in the middle of a
// recording, and no new one comes.
func (r *recordings) passOnAll() {
	for deadline := time.Now().Add(passOnPatience); time.Now().Before(deadline); runtime.Gosched() {
		timeout := time.NewTimer(time.Until(deadline))
		all := r.passOn(make(chan bool, 1), timeout.C)
		timeout.Stop()
		if all {
			return
		}
	}
}

// hasten has passed on what waits, if the last time was longer ago than patience.
func (r *recordings) hasten(patience time.Duration) {
	if r.passed.Load() != r.tail.Load() && sinceBase()-time.Duration(r.passedAt.Load()) >= patience {
		r.wakeUp()
	}
}

func (r *recordings) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
}

// pendingRecording is one value on its way to one of the two histograms.
type pendingRecording struct {
	turn atomic.Uint64 // less the cell's index, so that the zero ring is ready
	recording
	_ [8]byte // to a cache line, which writers of neighbours would fight for
}

// recording is one value for one of two histograms.
type recording struct {
	ctx     context.Context
	float   *floatHistogram
	integer *intHistogram
	bits    uint64                 // of the float, or the integer
	options *[]metric.RecordOption // nil for none
}

// duration records a duration that is not negative, in milliseconds.
func (r *recordings) duration(ctx context.Context, to *floatHistogram, took time.Duration, options *[]metric.RecordOption) {
	if took >= 0 {
		r.put(recording{ctx: ctx, float: to, bits: math.Float64bits(milliseconds(took)), options: options})
	}
}

// count records a count that is not negative.
func (r *recordings) count(ctx context.Context, to *intHistogram, n int64, options *[]metric.RecordOption) {
	if n >= 0 {
		r.put(recording{ctx: ctx, integer: to, bits: uint64(n), options: options})
	}
}

// put takes one recording, and makes it where the ring is full.
func (r *recordings) put(value recording) {
	for {
		position := r.tail.Load()
		index := position % maxPendingRecordings
		cell := &r.cells[index]
		switch turn := cell.turn.Load() + index; {
		case turn == position:
			if r.tail.CompareAndSwap(position, position+1) {
				cell.recording = value
				cell.turn.Store(position + 1 - index)
				if (position+1)%(maxPendingRecordings/2) == 0 {
					r.wakeUp()
				}
				return
			}
		case turn < position: // not read since the last time round
			value.record()
			return
		}
	}
}

// flush makes the recordings that wait, and reports whether it could: a writer
// in the middle of one holds up those behind it.
func (r *recordings) flush() (all bool) {
	defer func() {
		r.passed.Store(r.head)
		r.passedAt.Store(int64(sinceBase()))
	}()
	end := r.tail.Load() // what comes later is the next flush's: busy writers would keep this one for ever
	for r.head != end {
		index := r.head % maxPendingRecordings
		cell := &r.cells[index]
		if cell.turn.Load()+index != r.head+1 {
			return false
		}
		value := cell.recording
		cell.ctx = nil // it may hold on to much
		r.head++
		cell.turn.Store(r.head - 1 + maxPendingRecordings - index)
		value.record()
	}
	return true
}

// record hands the value to the histogram's provider.
func (v *recording) record() {
	var options []metric.RecordOption
	if v.options != nil {
		options = *v.options
	}
	if v.float != nil {
		v.float.record(v.ctx, math.Float64frombits(v.bits), options...)
	} else {
		v.integer.record(v.ctx, int64(v.bits), options...)
	}
}
