//go:build !race

package observer

import (
	"context"
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
