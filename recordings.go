package observer

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sys/cpu"
)

// maxPendingRecordings is how many recordings may wait; the next ones are made
// by the rollout itself.
const maxPendingRecordings = 1024

// recordings takes what rollouts and samplers record, and passes it to the
// histograms on other goroutines: a rollout pays 15 ns for one, where the SDK's
// Record takes 120, and more when several cores fight for its counters. A sampler
// of an idle process saves more, since code that runs ten times a second finds
// nothing of itself in any cache. Whoever collects sees all of it, since the
// callback passes on first what waits.
//
// It is a ring for many writers and one reader at a time. Each cell's turn says
// whose it is: the writer's of that position, or, one more, the reader's.
type recordings struct {
	_     cpu.CacheLinePad
	tail  atomic.Uint64 // the next position to write
	_     cpu.CacheLinePad
	cells [maxPendingRecordings]pendingRecording
	wake  chan struct{} // has room for one: told when the ring is half full

	mu   sync.Mutex // those who flush take turns; none takes another lock in it
	head uint64     // the next position to read
}

// run flushes whenever the ring is half full, until done. The sampler does not
// do it, since it must not be late by its own making.
func (r *recordings) run(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-r.wake:
			r.flush()
		}
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
				if position%(maxPendingRecordings/2) == 0 {
					select {
					case r.wake <- struct{}{}:
					default: // it is awake
					}
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
// in the middle of one holds up those behind it. The lock is held until the last
// of them is made, so that a reader who comes second does not read without them.
func (r *recordings) flush() (all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
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
