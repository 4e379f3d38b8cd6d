//go:build !race

package observer

import (
	"context"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sync/semaphore"
)

// The race detector allocates, and takes ten times as long: what is claimed of
// either holds without it.

func TestSampleAllocatesNothing(t *testing.T) {
	i := manually(t, WithTaskCount(true))
	assert.Zero(t, testing.AllocsPerRun(100, func() { i.loop.sample(time.Now()) }))
	assert.EqualValues(t, 101, i.histogram(t, EventLoopLagInstrument).Count)
}

func TestNewPausesAllocatesNothing(t *testing.T) {
	h := &metrics.Float64Histogram{Counts: []uint64{0, 0}, Buckets: []float64{0, 1, 2}}
	seen := make([]uint64, 2)
	sum := 0.0
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		h.Counts[1]++
		seen = newPauses(h, seen, maxPausesPerPoll, func(s float64) { sum += s })
	}))
	assert.Equal(t, 1.5*101, sum)
}

func TestH32ABurstOfPausesIsRecordedInTime(t *testing.T) {
	i := manually(t)
	h := &metrics.Float64Histogram{Counts: []uint64{100_000}, Buckets: []float64{1e-5, 2e-5}}
	seen := make([]uint64, 1)
	fastest := time.Hour // the other polls had to share the processor
	for range 10 {
		began := time.Now()
		seen = newPauses(h, seen, maxPausesPerPoll, i.recordPause)
		fastest = min(fastest, time.Since(began))
	}
	assert.Less(t, fastest, 50*time.Millisecond)
	assert.EqualValues(t, 100_000, i.histogram(t, GCPauseInstrument).Count)
}

func TestDriverRecordsAllocateNothing(t *testing.T) {
	manually(t)
	driver, ctx := Driver(), context.Background()
	driver.Offer(1)
	for name, record := range map[string]func(){
		"RecordMaterialize": func() { driver.RecordMaterialize(ctx, time.Millisecond) },
		"RecordOutputWrite": func() { driver.RecordOutputWrite(ctx, time.Millisecond, 100) },
		"RecordRollout":     func() { driver.RecordRollout(ctx, RolloutSize{InputItems: 1, OutputItems: 2, Turns: 3, ToolCalls: 4}) },
		"Offer":             func() { driver.Offer(1) },
	} {
		t.Run(name, func(t *testing.T) {
			assert.Zero(t, testing.AllocsPerRun(1000, record))
		})
	}
}

func TestAdmissionAllocatesNothing(t *testing.T) {
	admission, ctx := NewMeteredAdmission(semaphore.NewWeighted(1)), context.Background()
	admit := func() {
		if admission.Acquire(ctx, 1) == nil {
			admission.Release(1)
		}
		if admission.TryAcquire(1) {
			admission.Release(1)
		}
	}
	t.Run("while nothing observes", func(t *testing.T) {
		assert.Zero(t, testing.AllocsPerRun(1000, admit))
	})
	t.Run("observed", func(t *testing.T) {
		i := manually(t)
		assert.Zero(t, testing.AllocsPerRun(1000, admit))
		i.holder.Release()
		assert.EqualValues(t, 2*1001, i.histogram(t, DriverAdmissionInstrument).Count)
	})
}
