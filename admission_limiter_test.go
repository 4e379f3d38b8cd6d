package observer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer"
)

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
