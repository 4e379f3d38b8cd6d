package ring

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// still is a ring whose goroutine does not run, so that the test flushes.
func still(pass func(int)) *Ring[int] {
	return &Ring[int]{pass: pass, wake: make(chan struct{}, 1)}
}

// running is a ring that is stopped when the test ends.
func running(t *testing.T, pass func(int)) *Ring[int] {
	r := New(pass)
	t.Cleanup(func() { <-r.Stop() })
	return r
}

func TestValuesKeepTheirOrder(t *testing.T) {
	var heard []int
	r := still(func(value int) { heard = append(heard, value) })
	for i := range 5 {
		r.Put(i)
	}
	assert.Empty(t, heard, "they wait")
	r.flush()
	assert.Equal(t, []int{0, 1, 2, 3, 4}, heard)
	r.flush()
	assert.Len(t, heard, 5)
}

func TestAFullRingPassesOnAtOnce(t *testing.T) {
	heard := 0
	r := still(func(int) { heard++ })
	for range Size {
		r.Put(0)
	}
	assert.Zero(t, heard)
	r.Put(0)
	assert.Equal(t, 1, heard)
	r.flush()
	assert.Equal(t, Size+1, heard)
}

func TestAHalfFullRingIsPassedOn(t *testing.T) {
	var heard atomic.Int64
	r := running(t, func(int) { heard.Add(1) })
	for range Size/2 - 1 {
		r.Put(0)
	}
	assert.Empty(t, r.wake, "nobody is woken")
	assert.Zero(t, heard.Load())
	r.Put(0)
	require.Eventually(t, func() bool { return heard.Load() == Size/2 }, 10*time.Second, time.Millisecond)
}

func TestWhatWaitsForLongIsPassedOn(t *testing.T) {
	r := still(func(int) {})
	r.Hasten(time.Second, time.Second)
	r.Put(0)
	r.Hasten(2*time.Second, time.Second)
	r.Hasten(3*time.Second-1, time.Second)
	assert.Empty(t, r.wake, "it has waited for less than a second")
	r.Hasten(3*time.Second, time.Second)
	assert.Len(t, r.wake, 1)
	<-r.wake
	r.flush()
	r.Hasten(9*time.Second, 0)
	assert.Empty(t, r.wake, "nothing waits")
}

func TestTheRingGoesOnAfterAProviderThatExits(t *testing.T) {
	var heard atomic.Int64
	r := running(t, func(value int) {
		if value == 0 {
			runtime.Goexit()
		}
		heard.Add(1)
	})
	r.Put(0)
	r.wakeUp()
	require.Eventually(t, func() bool { return r.passed.Load() == 1 }, 10*time.Second, time.Millisecond)
	r.Put(1)
	assert.True(t, r.PassOn(10*time.Second))
	assert.EqualValues(t, 1, heard.Load())
}

func TestAFlushEndsThoughOthersGoOn(t *testing.T) {
	var r *Ring[int]
	heard := 0
	r = still(func(int) {
		if heard++; heard < 100 {
			r.Put(0) // as another goroutine might, each time
		}
	})
	r.Put(0)
	r.Put(0)
	r.flush()
	assert.Equal(t, 2, heard)
}

// beginPut does the first half of Put, in which another goroutine may interrupt
// it, and returns the second.
func beginPut(r *Ring[int], value int) (finish func()) {
	position := r.tail.Add(1) - 1
	cell := &r.cells[position%Size]
	return func() {
		cell.value = value
		cell.turn.Store(position + 1 - position%Size)
	}
}

func TestAFlushReportsAWriterInTheMiddle(t *testing.T) {
	var heard []int
	r := still(func(value int) { heard = append(heard, value) })
	finish := beginPut(r, 1)
	r.Put(2)
	r.flush()
	assert.Empty(t, heard)
	finish()
	r.flush()
	assert.Equal(t, []int{1, 2}, heard)
}

func TestPassOnWaitsForAWriterInTheMiddle(t *testing.T) {
	var heard atomic.Int64
	r := running(t, func(int) { heard.Add(1) })
	finish := beginPut(r, 1)
	r.Put(2)
	assert.False(t, r.PassOn(10*time.Millisecond))
	var writer sync.WaitGroup
	writer.Go(finish)
	assert.True(t, r.PassOn(10*time.Second))
	assert.EqualValues(t, 2, heard.Load())
	writer.Wait()
}

func TestAProviderThatHangsCostsItsReadersTheirPatienceAlone(t *testing.T) {
	free := make(chan struct{})
	r := running(t, func(int) { <-free })
	r.Put(0)
	for range 10 {
		assert.False(t, r.PassOn(time.Millisecond))
	}
	close(free)
	assert.True(t, r.PassOn(10*time.Second))
}

func TestPassOnAllocatesNothingWhereTheProviderIsQuick(t *testing.T) {
	r := running(t, func(int) {})
	assert.Less(t, testing.AllocsPerRun(100, func() {
		r.Put(0)
		r.PassOn(time.Second)
	}), 1.0)
}

func TestH81ARingIsAskedInsideAndOutsideOfABubble(t *testing.T) {
	next := make(chan struct{}, 1)
	var heard atomic.Int64
	r := running(t, func(int) { next <- struct{}{}; heard.Add(1) })
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			r.Put(0)
			r.Put(0) // which hangs until somebody takes what the one before has sent
			assert.False(t, r.PassOn(time.Second))
		})
		<-next
		<-next
		assert.True(t, r.PassOn(10*time.Second))
	}
	assert.EqualValues(t, 6, heard.Load())
}

func TestStopEndsTheGoroutine(t *testing.T) {
	synctest.Test(t, func(*testing.T) { // which ends only when no goroutine is left
		r := New(func(int) {})
		<-r.Stop()
		r.Put(0)
		assert.False(t, r.PassOn(time.Second), "nobody is left to pass it on")
	})
}
