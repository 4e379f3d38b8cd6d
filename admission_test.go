package observer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
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

// scripted is a limit that does what a test says and notes what it is asked.
type scripted struct {
	acquire    func(ctx context.Context, n int64) error
	tryAcquire bool
	asked      []string
	weights    []int64
}

func (s *scripted) Acquire(ctx context.Context, n int64) error {
	s.asked, s.weights = append(s.asked, "Acquire"), append(s.weights, n)
	if s.acquire == nil {
		return nil
	}
	return s.acquire(ctx, n)
}

func (s *scripted) TryAcquire(n int64) bool {
	s.asked, s.weights = append(s.asked, "TryAcquire"), append(s.weights, n)
	return s.tryAcquire
}

func (s *scripted) Release(n int64) {
	s.asked, s.weights = append(s.asked, "Release"), append(s.weights, n)
}

func TestTheLimitsAcquireIsAskedAndNothingBeforeIt(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		for _, running := range []bool{false, true} {
			if running {
				start(t, "driver")
			}
			limit := &scripted{tryAcquire: true}
			require.NoError(t, in(context.Background(), observer.NewMeteredAdmission(limit), func() {}))
			assert.Equal(t, []string{"Acquire", "Release"}, limit.asked)
			assert.Equal(t, []int64{1, 1}, limit.weights)
		}
	})
}

func TestTheWeightReachesTheLimit(t *testing.T) {
	start(t, "driver")
	for _, n := range []int64{0, 3, -1} {
		limit := &scripted{tryAcquire: true}
		a := observer.NewMeteredAdmission(limit)
		require.NoError(t, a.Acquire(context.Background(), n))
		a.Release(n)
		require.True(t, a.TryAcquire(n))
		a.Release(n)
		assert.Equal(t, []int64{n, n, n, n}, limit.weights)
	}
}

func TestTheContextReachesTheLimit(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		start(t, "driver")
		ctx := context.WithValue(context.Background(), t, "this one")
		limit := &scripted{acquire: func(got context.Context, _ int64) error {
			assert.Same(t, ctx, got)
			return nil
		}}
		require.NoError(t, in(ctx, observer.NewMeteredAdmission(limit), func() {}))
	})
}

func TestAnErrorOfTheLimitsOwnRecordsNothing(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		o := start(t, "driver")
		gaveUp := abandoned()
		full := errors.New("the queue is full")
		limit := &scripted{acquire: func(context.Context, int64) error { return full }}
		assert.Same(t, full, in(context.Background(), observer.NewMeteredAdmission(limit), nil))
		assert.Equal(t, []string{"Acquire"}, limit.asked, "nothing is given back")
		assert.Zero(t, active(t, o))
		assert.Zero(t, gaveUp())
		assert.Zero(t, o.waits().Count)
	})
}

func TestAnErrorOfTheLimitsOwnAfterTheContextEndedIsAbandoned(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		start(t, "driver")
		gaveUp := abandoned()
		late := errors.New("too late")
		limit := &scripted{acquire: func(ctx context.Context, _ int64) error { <-ctx.Done(); return late }}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		assert.Same(t, late, in(ctx, observer.NewMeteredAdmission(limit), nil))
		assert.EqualValues(t, 1, gaveUp())
	})
}

func TestAGrantIsAnAdmissionThoughTheContextHasEnded(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		o := start(t, "driver")
		gaveUp := abandoned()
		admitted := false
		require.NoError(t, in(ended(), observer.NewMeteredAdmission(new(scripted)), func() { admitted = true }))
		assert.True(t, admitted)
		assert.Zero(t, gaveUp())
		assert.EqualValues(t, 1, o.waits().Count)
	})
}

func TestALimitThatPanicsLeavesNothingBehind(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		o := start(t, "driver")
		gaveUp := abandoned()
		limit := &scripted{acquire: func(context.Context, int64) error { panic("broken") }}
		assert.PanicsWithValue(t, "broken", func() { _ = in(context.Background(), observer.NewMeteredAdmission(limit), nil) })
		assert.Equal(t, []string{"Acquire"}, limit.asked)
		assert.Zero(t, active(t, o))
		assert.Zero(t, gaveUp())
		assert.Zero(t, o.waits().Count)
	})
}

// barging is a limit of one that is first come, first served to those who wait,
// while one who only tries may take the slot before them.
type barging struct {
	mu    sync.Mutex
	free  bool
	queue []chan struct{}
}

func (b *barging) Acquire(_ context.Context, _ int64) error {
	turn := make(chan struct{})
	b.mu.Lock()
	b.queue = append(b.queue, turn)
	b.mu.Unlock()
	<-turn
	return nil
}

func (b *barging) TryAcquire(int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	free := b.free
	b.free = false
	return free
}

func (b *barging) Release(int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = true
}

// grant gives the slot, if it is free, to whoever has waited longest.
func (b *barging) grant() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free && len(b.queue) > 0 {
		close(b.queue[0])
		b.free, b.queue = false, b.queue[1:]
	}
}

func TestMeteringKeepsTheLimitsOrder(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		start(t, "driver")
		limit := &barging{free: true} // and so it stays until granted: a chance for each to barge in
		a := observer.NewMeteredAdmission(limit)
		var order []int
		for i := range 5 {
			go func() { _ = in(context.Background(), a, func() { order = append(order, i) }) }()
			synctest.Wait() // it waits
		}
		for range 5 {
			limit.grant()
			synctest.Wait() // it has run and given the slot back
		}
		assert.Equal(t, []int{0, 1, 2, 3, 4}, order)
	})
}

func TestTheCapacityIsTheLimits(t *testing.T) {
	inEveryWay(t, func(t *testing.T, in wayIn) {
		o := start(t, "driver")
		a := observer.NewMeteredAdmission(semaphore.NewWeighted(3))
		for range 10 {
			go func() { _ = in(context.Background(), a, func() { time.Sleep(time.Second) }) }()
		}
		for _, want := range []float64{3, 3, 3, 1, 0} {
			synctest.Wait()
			assert.Equal(t, want, active(t, o))
			time.Sleep(time.Second)
		}
	})
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

// load is what a driver under load knows of itself.
type load struct {
	limit     *semaphore.Weighted
	admission *observer.MeteredAdmission

	admitted, abandoned, refused atomic.Int64
	inside                       atomic.Int64 // the weight inside the limit
	breached                     atomic.Bool
}

// run makes all the rollouts.
func (l *load) run() {
	var left atomic.Int64
	left.Store(loadRollouts)
	var workers sync.WaitGroup
	for range loadWorkers {
		workers.Go(func() {
			for left.Add(-1) >= 0 {
				l.rollout()
			}
		})
	}
	workers.Wait()
}

// rollout makes one rollout in a way drawn by lot. Its context is cancelled at
// about the time that it is admitted, or never.
func (l *load) rollout() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rand.IntN(2) == 0 {
		patience := rand.IntN(30)
		go func() {
			for range patience {
				runtime.Gosched()
			}
			cancel()
		}()
	}
	switch rand.IntN(4) {
	case 0:
		weight := rand.Int64N(4)
		if l.counted(l.admission.Acquire(ctx, weight)) {
			defer l.admission.Release(weight)
			l.work(weight)
		}
	case 1:
		release, err := l.admission.Admit(ctx)
		defer release()
		if l.counted(err) {
			l.work(1)
		}
	case 2:
		l.do(ctx)
	default:
		weight := rand.Int64N(4)
		if !l.admission.TryAcquire(weight) {
			l.refused.Add(1)
			return
		}
		defer l.admission.Release(weight)
		l.counted(nil)
		l.work(weight)
	}
}

// do makes a rollout whose work may end in any way.
func (l *load) do(ctx context.Context) {
	var rollout sync.WaitGroup
	rollout.Go(func() { // of its own, for Goexit
		defer func() { _ = recover() }()
		admitted := false
		err := l.admission.Do(ctx, func(context.Context) error {
			admitted = true
			l.counted(nil)
			l.work(1)
			switch rand.IntN(4) {
			case 0:
				panic("work")
			case 1:
				runtime.Goexit()
			case 2:
				return errors.New("work")
			}
			return nil
		})
		if !admitted {
			l.counted(err)
		}
	})
	rollout.Wait()
}

// counted counts one outcome, and reports whether it is an admission.
func (l *load) counted(err error) bool {
	if err != nil {
		l.abandoned.Add(1)
		return false
	}
	l.admitted.Add(1)
	return true
}

func (l *load) work(weight int64) {
	if l.inside.Add(weight) > loadCapacity {
		l.breached.Store(true)
	}
	runtime.Gosched()
	l.inside.Add(-weight)
}

// meanwhile calls f over and over until the function that it returns is called.
func meanwhile(f func()) (end func()) {
	var ended atomic.Bool
	var calls sync.WaitGroup
	calls.Go(func() {
		for !ended.Load() {
			f()
		}
	})
	return func() { ended.Store(true); calls.Wait() }
}

// underLoad runs the load while two readers collect, the delta one adding up,
// and something else goes on.
func underLoad(t *testing.T, provider *sdkmetric.MeterProvider, cumulative, delta *sdkmetric.ManualReader, flap func()) (l *load, fromDelta map[string]float64) {
	limit := semaphore.NewWeighted(loadCapacity)
	l = &load{limit: limit, admission: observer.NewMeteredAdmission(limit)}
	fromDelta = make(map[string]float64)
	// Weightless rollouts are not limited, but each is one of the workers'.
	look := func(active float64) {
		if active < 0 || active > loadWorkers {
			t.Errorf("%v rollouts are active", active)
		}
	}
	ends := []func(){
		meanwhile(flap),
		meanwhile(func() { look(driverSeries(cumulative)[observer.DriverActiveInstrument]) }),
		meanwhile(func() {
			for name, value := range driverSeries(delta) {
				fromDelta[name] += value
			}
		}),
	}
	l.run()
	for _, end := range ends {
		end()
	}
	for name, value := range driverSeries(delta) {
		fromDelta[name] += value
	}
	assert.False(t, l.breached.Load(), "more ran than the limit allows")
	assert.True(t, limit.TryAcquire(loadCapacity), "a share was lost")
	assert.False(t, limit.TryAcquire(1), "a share was invented")
	assert.Greater(t, l.abandoned.Load(), int64(1000))
	assert.Greater(t, l.refused.Load(), int64(1000))
	assert.Greater(t, l.admitted.Load(), int64(1000))
	return l, fromDelta
}

func TestAdmissionsAreExactUnderLoad(t *testing.T) {
	cumulative, delta := sdkmetric.NewManualReader(), deltaReader()
	provider := providerOf(cumulative, delta)
	keeper := observer.Start(context.Background(), "keeper", observer.WithMeterProvider(provider))
	t.Cleanup(keeper.Stop)
	gaveUp := abandoned()
	l, fromDelta := underLoad(t, provider, cumulative, delta, func() {
		o := observer.Start(context.Background(), "flapping", observer.WithSampleInterval(time.Millisecond))
		time.Sleep(time.Millisecond) // long enough for a sample
		o.Stop()
	})
	assert.Equal(t, l.abandoned.Load(), gaveUp())
	assert.Zero(t, observer.Driver().Counts().Active)
	series := driverSeries(cumulative)
	assert.Zero(t, series[observer.DriverActiveInstrument])
	assert.Zero(t, fromDelta[observer.DriverActiveInstrument])
	assert.EqualValues(t, l.admitted.Load(), series[observer.DriverAdmissionInstrument])
	assert.EqualValues(t, l.admitted.Load(), fromDelta[observer.DriverAdmissionInstrument])
	assert.EqualValues(t, observer.Driver().Counts().Abandoned, fromDelta[observer.DriverAbandonedInstrument])
}

func TestAdmissionsAreSoundWhileTheObserverComesAndGoes(t *testing.T) {
	cumulative, delta := sdkmetric.NewManualReader(), deltaReader()
	provider := providerOf(cumulative, delta)
	l, _ := underLoad(t, provider, cumulative, delta, func() {
		o := observer.Start(context.Background(), "flapping", observer.WithMeterProvider(provider), observer.WithSampleInterval(time.Millisecond))
		time.Sleep(time.Millisecond) // long enough for a sample
		o.Stop()
	})
	o, _ := startDriver(t)
	assert.Zero(t, active(t, o))
	recorded := distributionOf(cumulative, observer.DriverAdmissionInstrument).Count
	assert.LessOrEqual(t, recorded, uint64(l.admitted.Load()))
	assert.Positive(t, recorded)
}

func BenchmarkAdmission(b *testing.B) {
	ctx := context.Background()
	bench := func(limit observer.Limiter) func(b *testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = limit.Acquire(ctx, 1)
				limit.Release(1)
			}
		}
	}
	b.Run("the semaphore", bench(semaphore.NewWeighted(1)))
	b.Run("metered while nothing observes", bench(observer.NewMeteredAdmission(semaphore.NewWeighted(1))))
	start(b, "driver")
	b.Run("metered", bench(observer.NewMeteredAdmission(semaphore.NewWeighted(1))))
}
