package observer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer"
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
		time.Sleep(20 * time.Millisecond) // long enough for waits that begin and end
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
