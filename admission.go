package observer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gym-observer/observer/internal/monotonic"
	"github.com/gym-observer/observer/internal/survive"
)

// Limiter is a limit on concurrent work. *semaphore.Weighted of
// golang.org/x/sync is one, and so is [*MeteredAdmission].
type Limiter interface {
	// Acquire waits for a share of n, or for the end of ctx.
	Acquire(ctx context.Context, n int64) error
	// TryAcquire takes a share of n if that needs no wait.
	TryAcquire(n int64) bool
	// Release gives a share of n back.
	Release(n int64)
}

// MeteredAdmission is a [Limiter] that measures the one it wraps: how long a
// rollout waits for admission, how many run past it, and how many gave up. It
// takes the wrapped limit's place where that is made, and no call site changes.
//
// Admission itself is the wrapped limit's: its order, capacity, cancellation and
// errors. Methods are safe for concurrent use if the limit's are. While nothing
// observes they pass through. A nil *MeteredAdmission admits at once, unless the
// context has ended, and measures nothing; the zero value has no limit either,
// and measures.
type MeteredAdmission struct {
	limit Limiter // nil for none

	// held are the rollouts that Acquire and TryAcquire have counted as active
	// and Release has not. A Release whose Acquire was not observed finds none
	// left, instead of taking active below zero.
	held atomic.Int64
}

// NewMeteredAdmission wraps limit. A nil limit, or a nil pointer in it, admits
// at once unless the context has ended. It may be called before [Start].
//
// Wrapping a MeteredAdmission again measures every rollout twice.
func NewMeteredAdmission(limit Limiter) *MeteredAdmission {
	if survive.IsNil(limit) {
		limit = nil
	}
	return &MeteredAdmission{limit: limit}
}

// Acquire waits for the limit as the wrapped limit does, and returns its error.
// A success counts as one active rollout, whatever its weight n, until
// [MeteredAdmission.Release], and its wait is recorded. An error while ctx has
// ended counts as abandoned.
func (a *MeteredAdmission) Acquire(ctx context.Context, n int64) error {
	observed, err := a.wait(ctx, n)
	if err == nil && observed {
		a.hold()
	}
	return err
}

// TryAcquire takes a share of n if that needs no wait. A success counts as an
// admission after 0 ms, a failure not at all.
func (a *MeteredAdmission) TryAcquire(n int64) bool {
	if a == nil {
		return unlimited{}.TryAcquire(n)
	}
	observed := n >= 0 && totals.observing.Load()
	if observed {
		totals.driver.drive()
	}
	if !a.wrapped().TryAcquire(n) {
		return false
	}
	if observed {
		totals.driver.recordAdmission(context.Background(), 0)
		a.hold()
	}
	return true
}

// Release gives a share of n back to the limit and ends one rollout, whatever
// its weight.
func (a *MeteredAdmission) Release(n int64) {
	if a == nil {
		return
	}
	if n >= 0 {
		a.letGo()
	}
	a.wrapped().Release(n)
}

// Admit waits for a share of one and returns the function that gives it back.
// That function is never nil, may be called from any goroutine, does nothing
// when called again, and does nothing where Admit returned an error.
func (a *MeteredAdmission) Admit(ctx context.Context) (release func(), err error) {
	observed, err := a.wait(ctx, 1)
	if err != nil {
		return func() {}, err
	}
	if a == nil {
		return func() {}, nil
	}
	// The rollout is counted here and not in held: whether it was observed is
	// known exactly when it ends, whatever starts or stops in between.
	if observed {
		totals.driver.active.Add(1)
	}
	var released atomic.Bool
	return func() {
		if !released.CompareAndSwap(false, true) {
			return
		}
		if observed {
			totals.driver.active.Add(-1)
		}
		a.wrapped().Release(1)
	}, nil
}

// Do runs rollout inside the limit, with a weight of one, and returns its
// error, or that of the wait. The share is given back also where rollout panics
// or calls runtime.Goexit.
func (a *MeteredAdmission) Do(ctx context.Context, rollout func(context.Context) error) error {
	release, err := a.Admit(ctx)
	if err != nil {
		return err
	}
	defer release()
	return rollout(survive.ContextOrBackground(ctx))
}

// wait asks the limit for a share of n, and says whether that was observed.
//
// It does not try TryAcquire first to spare the clock: a limit that is not
// first come, first served would let the try overtake those who wait.
func (a *MeteredAdmission) wait(ctx context.Context, n int64) (observed bool, err error) {
	ctx = survive.ContextOrBackground(ctx)
	if a == nil {
		return false, unlimited{}.Acquire(ctx, n)
	}
	if n < 0 || !totals.observing.Load() {
		return false, a.wrapped().Acquire(ctx, n)
	}
	totals.driver.drive()
	totals.driver.waiting.Begin()
	defer totals.driver.waiting.End() // also where the limit panics
	began := monotonic.Now()
	err = a.wrapped().Acquire(ctx, n)
	switch {
	case err == nil:
		totals.driver.recordAdmission(ctx, monotonic.Now()-began)
	case ctx.Err() != nil:
		totals.driver.abandoned.Add(1)
	}
	return true, err
}

// wrapped returns the limit, which admits all where there is none.
func (a *MeteredAdmission) wrapped() Limiter {
	if a.limit == nil {
		return unlimited{}
	}
	return a.limit
}

// hold counts one rollout as active until letGo. The gauge goes up first and
// down last, so that it is never below what is held, and never negative.
func (a *MeteredAdmission) hold() {
	totals.driver.active.Add(1)
	a.held.Add(1)
}

// letGo ends one rollout that hold has counted, if there is one.
func (a *MeteredAdmission) letGo() {
	for {
		held := a.held.Load()
		if held <= 0 {
			return
		}
		if a.held.CompareAndSwap(held, held-1) {
			totals.driver.active.Add(-1)
			return
		}
	}
}

// recordAdmission records the wait of one admitted rollout.
func (m *DriverMetrics) recordAdmission(ctx context.Context, waited time.Duration) {
	if to := m.recorded(); to != nil {
		to.Duration(ctx, &to.admission, waited)
	}
}

// unlimited is the limit that admits at once.
type unlimited struct{}

func (unlimited) Acquire(ctx context.Context, _ int64) error { return ctx.Err() }
func (unlimited) TryAcquire(int64) bool                      { return true }
func (unlimited) Release(int64)                              {}
