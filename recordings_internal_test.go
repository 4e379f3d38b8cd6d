package observer

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// hearing is a histogram that calls a function with each value.
type hearing struct {
	noop.Float64Histogram
	heard func(value float64)
}

func (h hearing) Record(_ context.Context, value float64, _ ...metric.RecordOption) { h.heard(value) }

// ringTo is a ring, and the histogram to which its values go.
func ringTo(heard func(value float64)) (*recordings, *floatHistogram) {
	return &recordings{wake: make(chan struct{}, 1)}, &floatHistogram{to: hearing{heard: heard}}
}

func TestRecordingsKeepTheirOrder(t *testing.T) {
	var heard []float64
	r, to := ringTo(func(value float64) { heard = append(heard, value) })
	for i := range 5 {
		r.duration(context.Background(), to, time.Duration(i)*time.Millisecond, nil)
	}
	assert.Empty(t, heard, "they wait")
	assert.True(t, r.flush())
	assert.Equal(t, []float64{0, 1, 2, 3, 4}, heard)
	assert.True(t, r.flush())
	assert.Len(t, heard, 5)
}

func TestAFullRingRecordsAtOnce(t *testing.T) {
	heard := 0
	r, to := ringTo(func(float64) { heard++ })
	for range maxPendingRecordings {
		r.duration(context.Background(), to, 0, nil)
	}
	assert.Zero(t, heard)
	r.duration(context.Background(), to, 0, nil)
	assert.Equal(t, 1, heard)
	r.flush()
	assert.Equal(t, maxPendingRecordings+1, heard)
}

// passingOn runs the goroutine of a ring until the test ends.
func passingOn(t *testing.T, r *recordings) {
	r.asked = make(chan chan<- bool)
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go r.run(done)
}

func TestAHalfFullRingIsPassedOn(t *testing.T) {
	var heard atomic.Int64
	r, to := ringTo(func(float64) { heard.Add(1) })
	passingOn(t, r)
	for range maxPendingRecordings/2 - 1 {
		r.duration(context.Background(), to, 0, nil)
	}
	time.Sleep(10 * time.Millisecond)
	assert.Zero(t, heard.Load())
	r.duration(context.Background(), to, 0, nil)
	require.Eventually(t, func() bool { return heard.Load() == maxPendingRecordings/2 }, 10*time.Second, time.Millisecond)
}

func TestRecordingsGoOnAfterAProviderThatExits(t *testing.T) {
	var heard atomic.Int64
	r, to := ringTo(func(value float64) {
		if value == 0 {
			runtime.Goexit()
		}
		heard.Add(1)
	})
	passingOn(t, r)
	r.duration(context.Background(), to, 0, nil)
	r.wakeUp()
	require.Eventually(t, func() bool { return r.passed.Load() == 1 }, 10*time.Second, time.Millisecond)
	r.duration(context.Background(), to, time.Millisecond, nil)
	r.passOnAll()
	assert.EqualValues(t, 1, heard.Load())
}

func TestAFlushEndsThoughOthersGoOnRecording(t *testing.T) {
	var r *recordings
	var to *floatHistogram
	heard := 0
	r, to = ringTo(func(float64) {
		if heard++; heard < 100 {
			r.duration(context.Background(), to, 0, nil) // as another goroutine might, each time
		}
	})
	r.duration(context.Background(), to, 0, nil)
	r.duration(context.Background(), to, 0, nil)
	r.flush()
	assert.Equal(t, 2, heard)
}

func TestAFlushReportsAWriterInTheMiddle(t *testing.T) {
	var heard []float64
	r, to := ringTo(func(value float64) { heard = append(heard, value) })
	finish := beginPut(r, to, 1)
	r.duration(context.Background(), to, 2*time.Millisecond, nil)
	assert.False(t, r.flush())
	finish()
	assert.True(t, r.flush())
	assert.Equal(t, []float64{1, 2}, heard)
}

// beginPut does the first half of put, in which another goroutine may interrupt
// it, and returns the second.
func beginPut(r *recordings, to *floatHistogram, value float64) (finish func()) {
	position := r.tail.Add(1) - 1
	cell := &r.cells[position%maxPendingRecordings]
	return func() {
		cell.ctx, cell.float, cell.bits = context.Background(), to, math.Float64bits(value)
		cell.turn.Store(position + 1 - position%maxPendingRecordings)
	}
}

func TestStopWaitsForAWriterInTheMiddle(t *testing.T) {
	i := manually(t)
	Driver().Offer(1)
	finish := beginPut(&i.recordings, &i.instruments.Load().materialize, 1)
	Driver().RecordMaterialize(context.Background(), time.Millisecond)
	var writer sync.WaitGroup
	writer.Go(func() {
		for !i.ended.Load() {
			runtime.Gosched()
		}
		finish()
	})
	i.holder.Release()
	writer.Wait()
	assert.EqualValues(t, 2, i.histogram(t, DriverMaterializeInstrument).Count)
}
