package observer_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer"
)

func TestAdmissionPassesThroughWhileNothingRuns(t *testing.T) {
	o, driver := startDriver(t)
	before := driver.Counts()
	o.Stop()
	exported := driverSeries(o.reader)
	a := observer.NewMeteredAdmission(semaphore.NewWeighted(1))
	for _, in := range waysIn {
		require.NoError(t, in(context.Background(), a, func() {
			assert.False(t, a.TryAcquire(1))
			assert.Equal(t, before, driver.Counts())
		}))
		assert.Equal(t, context.Canceled, in(ended(), a, nil))
	}
	require.True(t, a.TryAcquire(1))
	a.Release(1)
	assert.Equal(t, before, driver.Counts())
	assert.Equal(t, exported, driverSeries(o.reader))
}

func TestARolloutAdmittedBeforeStartEndsNone(t *testing.T) {
	a := observer.NewMeteredAdmission(semaphore.NewWeighted(10))
	require.NoError(t, a.Acquire(context.Background(), 3))
	require.True(t, a.TryAcquire(1))
	release, err := a.Admit(context.Background())
	require.NoError(t, err)
	o, _ := startDriver(t)
	for _, end := range []func(){func() { a.Release(3) }, func() { a.Release(1) }, release} {
		end()
		assert.Zero(t, active(t, o))
	}
	assert.Zero(t, o.waits().Count)
}

func TestARolloutAdmittedBeforeAStopEndsAfterIt(t *testing.T) {
	o := start(t, "driver")
	a := observer.NewMeteredAdmission(semaphore.NewWeighted(10))
	driver := observer.Driver()
	require.NoError(t, a.Acquire(context.Background(), 3))
	require.True(t, a.TryAcquire(1))
	release, err := a.Admit(context.Background())
	require.NoError(t, err)
	o.Stop()
	for i, end := range []func(){func() { a.Release(3) }, func() { a.Release(1) }, release} {
		assert.EqualValues(t, 3-i, driver.Counts().Active)
		end()
	}
	assert.Zero(t, driver.Counts().Active)
}

func TestARolloutIsActiveAcrossStopAndStart(t *testing.T) {
	for name, in := range waysIn {
		t.Run(name, func(t *testing.T) {
			first := start(t, "driver")
			a := observer.NewMeteredAdmission(semaphore.NewWeighted(1))
			require.NoError(t, in(context.Background(), a, func() {
				first.Stop()
				second := start(t, "again")
				assert.Equal(t, 1.0, active(t, second))
			}))
			assert.Zero(t, observer.Driver().Counts().Active)
		})
	}
}

// TestADoNotObservedAtItsBeginningNeverCounts starts the observer inside one
// rollout, and has another run meanwhile: the first must not end the second.
func TestARolloutNotObservedAtItsBeginningEndsNoOther(t *testing.T) {
	for _, name := range []string{"Admit", "Do"} {
		t.Run(name, func(t *testing.T) {
			in := waysIn[name]
			a := observer.NewMeteredAdmission(semaphore.NewWeighted(2))
			var o *observed
			var other func()
			require.NoError(t, in(context.Background(), a, func() {
				o = start(t, "driver")
				var err error
				other, err = a.Admit(context.Background())
				require.NoError(t, err)
				assert.Equal(t, 1.0, active(t, o))
			}))
			assert.Equal(t, 1.0, active(t, o))
			other()
			assert.Zero(t, active(t, o))
		})
	}
}

func TestActiveIsZeroOnceALimitThatStraddledAStartIsIdle(t *testing.T) {
	a := observer.NewMeteredAdmission(semaphore.NewWeighted(2))
	require.NoError(t, a.Acquire(context.Background(), 1))
	o := start(t, "driver")
	require.NoError(t, a.Acquire(context.Background(), 1))
	a.Release(1) // whose it is, the limit does not know
	assert.GreaterOrEqual(t, active(t, o), 0.0)
	a.Release(1)
	assert.Zero(t, active(t, o))
}

func TestAWaitAcrossAStopIsAbandonedToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, driver := startDriver(t)
		gaveUp := abandoned()
		a := observer.NewMeteredAdmission(semaphore.NewWeighted(0))
		ctx, cancel := context.WithCancel(context.Background())
		waiter := make(chan error, 1)
		go func() { waiter <- a.Acquire(ctx, 1) }()
		synctest.Wait()
		before := driver.Counts().Abandoned
		first.Stop()
		cancel()
		require.Equal(t, context.Canceled, <-waiter)
		assert.Equal(t, before+1, driver.Counts().Abandoned)
		start(t, "again")
		assert.EqualValues(t, 1, gaveUp())
	})
}

// The load below is scripted by what each rollout finds, so that all totals are
// known exactly.
const (
	loadRollouts = 50_000
	loadWorkers  = 24
	loadCapacity = 8
)
