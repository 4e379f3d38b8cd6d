package observer_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer"
)

// waysIn are the ways to run a rollout inside a limit that wait for it.
var waysIn = map[string]func(ctx context.Context, a *observer.MeteredAdmission, rollout func()) error{
	"Acquire": func(ctx context.Context, a *observer.MeteredAdmission, rollout func()) error {
		if err := a.Acquire(ctx, 1); err != nil {
			return err
		}
		defer a.Release(1)
		rollout()
		return nil
	},
	"Admit": func(ctx context.Context, a *observer.MeteredAdmission, rollout func()) error {
		release, err := a.Admit(ctx)
		defer release() // also beside an error, as callers do
		if err == nil {
			rollout()
		}
		return err
	},
	"Do": func(ctx context.Context, a *observer.MeteredAdmission, rollout func()) error {
		return a.Do(ctx, func(context.Context) error { rollout(); return nil })
	},
}

// inEveryWay runs a test of each way in, inside a bubble, where nothing takes
// time but waiting.
func inEveryWay(t *testing.T, test func(t *testing.T, in func(ctx context.Context, a *observer.MeteredAdmission, rollout func()) error)) {
	for name, in := range waysIn {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, in) })
		})
	}
}

type wayIn = func(ctx context.Context, a *observer.MeteredAdmission, rollout func()) error

// active is the gauge as it is exported.
func active(t testing.TB, o *observed) float64 {
	t.Helper()
	return o.collect(t).require(t, observer.DriverActiveInstrument)
}

// abandoned counts the waits that were abandoned since.
func abandoned() (since func() int64) {
	before := observer.Driver().Counts().Abandoned
	return func() int64 { return observer.Driver().Counts().Abandoned - before }
}

// waits are the admissions that were recorded; the observer is stopped.
func (o *observed) waits() distribution { return o.recorded(observer.DriverAdmissionInstrument) }

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestH51CancelledBeforeAsking(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		o := start(t, "driver")
		gaveUp := abandoned()
		a := observer.NewMeteredAdmission(semaphore.NewWeighted(1))
		err := in(ended(), a, func() { t.Error("admitted") })
		assert.Equal(t, context.Canceled, err)
		assert.EqualValues(t, 1, gaveUp())

		admitted := false
		require.NoError(t, in(context.Background(), a, func() { admitted = true }))
		assert.True(t, admitted)
		waits := o.waits()
		assert.EqualValues(t, 1, waits.Count)
		assert.Zero(t, waits.Sum, "at once")
	})
}

func TestH52WorkThatPanics(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		o := start(t, "driver")
		a := observer.NewMeteredAdmission(semaphore.NewWeighted(1))
		assert.PanicsWithValue(t, "bang", func() { _ = in(context.Background(), a, func() { panic("bang") }) })
		assert.Zero(t, active(t, o))
		require.NoError(t, in(context.Background(), a, func() { assert.Equal(t, 1.0, active(t, o)) }))
		assert.Zero(t, o.waits().Sum, "the next admission is immediate")
	})
}

func TestH52WorkThatCallsGoexit(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		o := start(t, "driver")
		a := observer.NewMeteredAdmission(semaphore.NewWeighted(1))
		var rollout sync.WaitGroup
		rollout.Go(func() { _ = in(context.Background(), a, runtime.Goexit) })
		rollout.Wait()
		assert.Zero(t, active(t, o))
		require.NoError(t, in(context.Background(), a, func() { assert.Equal(t, 1.0, active(t, o)) }))
		assert.Zero(t, o.waits().Sum, "the next admission is immediate")
	})
}

func TestH53FailedAdmission(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		o := start(t, "driver")
		limit := semaphore.NewWeighted(1)
		a := observer.NewMeteredAdmission(limit)
		require.NoError(t, in(context.Background(), a, func() {
			impatient, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			assert.Equal(t, context.DeadlineExceeded, in(impatient, a, func() { t.Error("admitted") }))
			assert.Equal(t, 1.0, active(t, o))
			assert.False(t, limit.TryAcquire(1), "the clean-up has given back what was never taken")
		}))
		assert.Zero(t, active(t, o))
		assert.True(t, limit.TryAcquire(1))
		assert.False(t, limit.TryAcquire(1))
	})
}

func TestH54FrontWaiterGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start(t, "driver")
		gaveUp := abandoned()
		a := observer.NewMeteredAdmission(semaphore.NewWeighted(2))
		require.NoError(t, a.Acquire(context.Background(), 1))
		ctx, cancel := context.WithCancel(context.Background())
		front := make(chan error, 1)
		go func() { front <- a.Acquire(ctx, 2) }()
		synctest.Wait()
		second := make(chan error, 1)
		go func() { second <- a.Acquire(context.Background(), 1) }()
		synctest.Wait()
		require.Empty(t, second, "it waits behind the first")

		cancel()
		assert.Equal(t, context.Canceled, <-front)
		assert.NoError(t, <-second)
		assert.EqualValues(t, 1, gaveUp())
		a.Release(1)
		a.Release(1)
	})
}

// In fake time, where nothing passes but the work: a busy machine may take the
// processor away for more than the bound between two looks at a real clock.
func TestH55WaitExcludesWork(t *testing.T) {
	for name, in := range waysIn {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := start(t, "driver")
				a := observer.NewMeteredAdmission(semaphore.NewWeighted(1))
				began := time.Now()
				require.NoError(t, in(context.Background(), a, func() { time.Sleep(200 * time.Millisecond) }))
				assert.Equal(t, 200*time.Millisecond, time.Since(began))
				waits := o.waits()
				assert.EqualValues(t, 1, waits.Count)
				assert.Less(t, waits.Max, 5.0)
			})
		})
	}
}

func TestTheWaitForTheLimitIsRecorded(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		o := start(t, "driver")
		a := observer.NewMeteredAdmission(semaphore.NewWeighted(1))
		require.True(t, a.TryAcquire(1))
		waiter := make(chan error, 1)
		go func() { waiter <- in(context.Background(), a, func() { time.Sleep(time.Minute) }) }()
		time.Sleep(20 * time.Millisecond)
		a.Release(1)
		require.NoError(t, <-waiter)
		waits := o.waits()
		assert.EqualValues(t, 2, waits.Count)
		assert.Zero(t, waits.Min, "of TryAcquire")
		assert.Equal(t, 20.0, waits.Sum)
	})
}

func TestAWaitThatEndsByCancellationIsAbandoned(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		o := start(t, "driver")
		gaveUp := abandoned()
		a := observer.NewMeteredAdmission(semaphore.NewWeighted(0))
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Second, cancel)
		assert.Equal(t, context.Canceled, in(ctx, a, nil))
		assert.EqualValues(t, 1, gaveUp())
		assert.Zero(t, active(t, o))
		assert.Zero(t, o.waits().Count)
	})
}

func TestAbandonedIsExported(t *testing.T) {
	o := start(t, "driver")
	_ = observer.NewMeteredAdmission(nil).Acquire(ended(), 1)
	assert.EqualValues(t, observer.Driver().Counts().Abandoned, o.collect(t).require(t, observer.DriverAbandonedInstrument))
}

func TestACustomCauseReachesTheCallerAsTheLimitReportsIt(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		start(t, "driver")
		gaveUp := abandoned()
		ctx, cancel := context.WithCancelCause(context.Background())
		cause := errors.New("cause")
		time.AfterFunc(time.Second, func() { cancel(cause) })
		a := observer.NewMeteredAdmission(semaphore.NewWeighted(0))
		assert.Equal(t, context.Canceled, in(ctx, a, nil), "what the semaphore itself returns")
		assert.EqualValues(t, 1, gaveUp())
	})
}

func TestAFailedTryAcquireRecordsNothing(t *testing.T) {
	o := start(t, "driver")
	gaveUp := abandoned()
	a := observer.NewMeteredAdmission(semaphore.NewWeighted(1))
	assert.False(t, a.TryAcquire(2))
	assert.Zero(t, active(t, o))
	assert.Zero(t, gaveUp())
	assert.Zero(t, o.waits().Count)
}

func TestTheReleaseOfAdmitIsIdempotent(t *testing.T) {
	o := start(t, "driver")
	limit := semaphore.NewWeighted(2)
	a := observer.NewMeteredAdmission(limit)
	release, err := a.Admit(context.Background())
	require.NoError(t, err)
	other, err := a.Admit(context.Background())
	require.NoError(t, err)
	var releasers sync.WaitGroup
	for range 8 {
		releasers.Go(release)
	}
	releasers.Wait()
	assert.Equal(t, 1.0, active(t, o))
	assert.True(t, limit.TryAcquire(1))
	assert.False(t, limit.TryAcquire(1))
	other()
	assert.Zero(t, active(t, o))
}

func TestTheReleaseBesideAnErrorDoesNothing(t *testing.T) {
	o := start(t, "driver")
	limit := semaphore.NewWeighted(1)
	a := observer.NewMeteredAdmission(limit)
	held, err := a.Admit(context.Background())
	require.NoError(t, err)
	release, err := a.Admit(ended())
	require.Error(t, err)
	release()
	release()
	assert.Equal(t, 1.0, active(t, o))
	assert.False(t, limit.TryAcquire(1))
	held()
}

func TestDoPassesTheContextAndTheErrorOn(t *testing.T) {
	start(t, "driver")
	ctx := context.WithValue(context.Background(), t, "this one")
	failed := errors.New("failed")
	err := observer.NewMeteredAdmission(nil).Do(ctx, func(got context.Context) error {
		assert.Same(t, ctx, got)
		return failed
	})
	assert.Same(t, failed, err)
}

func TestANilContextIsTheBackground(t *testing.T) {
	for name, a := range map[string]*observer.MeteredAdmission{
		"a limit":    observer.NewMeteredAdmission(semaphore.NewWeighted(1)),
		"no limit":   observer.NewMeteredAdmission(nil),
		"no metered": nil,
	} {
		for _, running := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				if running {
					start(t, "driver")
				}
				require.NoError(t, a.Acquire(nil, 1)) //nolint:staticcheck // what is tested
				a.Release(1)
				release, err := a.Admit(nil) //nolint:staticcheck // what is tested
				require.NoError(t, err)
				release()
				require.NoError(t, a.Do(nil, func(ctx context.Context) error { //nolint:staticcheck // what is tested
					assert.NotNil(t, ctx)
					return nil
				}))
			})
		}
	}
}

func TestARolloutOfAnyWeightIsOneRollout(t *testing.T) {
	o := start(t, "driver")
	a := observer.NewMeteredAdmission(semaphore.NewWeighted(10))
	require.NoError(t, a.Acquire(context.Background(), 5))
	require.NoError(t, a.Acquire(context.Background(), 0))
	require.True(t, a.TryAcquire(3))
	assert.Equal(t, 3.0, active(t, o))
	a.Release(5)
	a.Release(0)
	assert.Equal(t, 1.0, active(t, o))
	a.Release(3)
	assert.Zero(t, active(t, o))
	assert.EqualValues(t, 3, o.waits().Count)
}

func TestANegativeWeightIsNotRecorded(t *testing.T) {
	o, driver := startDriver(t)
	before := driver.Counts()
	a := observer.NewMeteredAdmission(&scripted{tryAcquire: true})
	require.NoError(t, a.Acquire(context.Background(), -1))
	require.True(t, a.TryAcquire(-1))
	failing := observer.NewMeteredAdmission(&scripted{acquire: func(ctx context.Context, _ int64) error { return ctx.Err() }})
	require.Error(t, failing.Acquire(ended(), -1))
	assert.Equal(t, before, driver.Counts())
	assert.Zero(t, o.waits().Count)
}

func TestANegativeReleaseEndsNoRollout(t *testing.T) {
	o := start(t, "driver")
	a := observer.NewMeteredAdmission(&scripted{})
	require.NoError(t, a.Acquire(context.Background(), 1))
	before := active(t, o)
	a.Release(-1)
	assert.Equal(t, before, active(t, o))
	a.Release(1)
	assert.Equal(t, before-1, active(t, o))
}

func TestANegativeWeightPanicsAsTheLimitDoes(t *testing.T) {
	for _, running := range []bool{false, true} {
		if running {
			start(t, "driver")
		}
		a := observer.NewMeteredAdmission(semaphore.NewWeighted(1))
		for _, ask := range []func(){
			func() { _ = a.Acquire(context.Background(), -1) },
			func() { a.TryAcquire(-1) },
			func() { a.Release(-1) },
		} {
			assert.PanicsWithValue(t, "semaphore: n < 0", ask)
		}
	}
}

// unlimited are the admissions that admit at once.
func unlimited() map[string]*observer.MeteredAdmission {
	return map[string]*observer.MeteredAdmission{
		"nil limit":              observer.NewMeteredAdmission(nil),
		"nil semaphore":          observer.NewMeteredAdmission((*semaphore.Weighted)(nil)),
		"nil metered in metered": observer.NewMeteredAdmission((*observer.MeteredAdmission)(nil)),
		"zero metered":           {},
		"nil metered":            nil,
	}
}

func TestWithoutALimitAllAreAdmitted(t *testing.T) {
	for name, a := range unlimited() {
		t.Run(name, func(t *testing.T) {
			for _, running := range []bool{false, true} {
				if running {
					start(t, "driver")
				}
				for range 100 {
					require.NoError(t, a.Acquire(context.Background(), 1<<40))
					require.True(t, a.TryAcquire(1<<40))
					a.Release(1 << 40)
					a.Release(1 << 40)
				}
				release, err := a.Admit(context.Background())
				require.NoError(t, err)
				release()
				require.NoError(t, a.Do(context.Background(), func(context.Context) error { return nil }))
			}
		})
	}
}

func TestWithoutALimitAnEndedContextIsNotAdmitted(t *testing.T) {
	for name, a := range unlimited() {
		t.Run(name, func(t *testing.T) {
			for _, running := range []bool{false, true} {
				if running {
					start(t, "driver")
				}
				for _, in := range waysIn {
					assert.Equal(t, context.Canceled, in(ended(), a, func() { t.Error("admitted") }))
				}
			}
		})
	}
}

func TestANilMeteredAdmissionMeasuresNothing(t *testing.T) {
	o := start(t, "driver")
	before := observer.Driver().Counts()
	var a *observer.MeteredAdmission
	for _, in := range waysIn {
		require.NoError(t, in(context.Background(), a, func() { assert.Equal(t, before, observer.Driver().Counts()) }))
		require.Error(t, in(ended(), a, nil))
	}
	assert.True(t, a.TryAcquire(1))
	assert.Equal(t, before, observer.Driver().Counts())
	assert.Zero(t, o.waits().Count)
}

func TestANilLimitIsMeasured(t *testing.T) {
	o := start(t, "driver")
	gaveUp := abandoned()
	a := observer.NewMeteredAdmission(nil)
	for _, in := range waysIn {
		require.NoError(t, in(context.Background(), a, func() { assert.Equal(t, 1.0, active(t, o)) }))
		require.Error(t, in(ended(), a, nil))
	}
	assert.EqualValues(t, len(waysIn), gaveUp())
	assert.EqualValues(t, len(waysIn), o.waits().Count)
}

func TestWrappedTwiceMeasuresTwiceAndLimitsOnce(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		o := start(t, "driver")
		gaveUp := abandoned()
		limit := semaphore.NewWeighted(1)
		a := observer.NewMeteredAdmission(observer.NewMeteredAdmission(limit))
		require.NoError(t, in(context.Background(), a, func() {
			assert.Equal(t, 2.0, active(t, o))
			assert.False(t, limit.TryAcquire(1))
			assert.Equal(t, context.Canceled, in(ended(), a, nil))
		}))
		assert.Zero(t, active(t, o))
		assert.True(t, limit.TryAcquire(1))
		assert.EqualValues(t, 2, gaveUp())
		assert.EqualValues(t, 2, o.waits().Count)
	})
}

func TestAReleaseTooManyEndsNoRolloutOfAnother(t *testing.T) {
	o := start(t, "driver")
	one, other := observer.NewMeteredAdmission(&scripted{}), observer.NewMeteredAdmission(&scripted{})
	require.NoError(t, other.Acquire(context.Background(), 1))
	one.Release(1)
	assert.Equal(t, 1.0, active(t, o))
	other.Release(1)
}
