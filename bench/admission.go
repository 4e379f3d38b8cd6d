package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer"
)

const (
	slots      = 64
	goroutines = 16_000
)

const (
	bareSemaphore  = "bare semaphore"
	otelByHand     = "OpenTelemetry by hand, no attributes"
	otelAttributes = "OpenTelemetry by hand, two attributes"
	promByHand     = "client_golang histogram by hand"
)

// limiting is one way to measure the wait for a limit.
type limiting struct {
	name     string
	role     role
	observed bool
	wrap     func(observer.Limiter) observer.Limiter
}

var limitings = []limiting{
	{bareSemaphore, floor, false, func(l observer.Limiter) observer.Limiter { return l }},
	{withObserver, ours, true, metered},
	{notRunning, ours, false, metered},
	{otelByHand, peer, false, func(l observer.Limiter) observer.Limiter {
		record := otelHistogram()
		return timed{l, func(ctx context.Context, ms float64) { record.Record(ctx, ms) }}
	}},
	{otelAttributes, peer, false, func(l observer.Limiter) observer.Limiter {
		record := otelHistogram()
		return timed{l, func(ctx context.Context, ms float64) {
			record.Record(ctx, ms, metric.WithAttributes(attribute.String("limit", "rollouts"), attribute.Bool("admitted", true)))
		}}
	}},
	{promByHand, peer, false, func(l observer.Limiter) observer.Limiter {
		histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "wait"})
		return timed{l, func(_ context.Context, ms float64) { histogram.Observe(ms) }}
	}},
}

func metered(l observer.Limiter) observer.Limiter { return observer.NewMeteredAdmission(l) }

func otelHistogram() metric.Float64Histogram {
	histogram, err := providerOf(sdkmetric.NewManualReader()).Meter("bench").Float64Histogram("wait")
	if err != nil {
		panic(err) // the name is a constant
	}
	return histogram
}

// timed is a limit whose wait is recorded as one does it by hand.
type timed struct {
	observer.Limiter
	record func(context.Context, float64)
}

func (t timed) Acquire(ctx context.Context, n int64) error {
	began := time.Now()
	if err := t.Limiter.Acquire(ctx, n); err != nil {
		return err
	}
	t.record(ctx, float64(time.Since(began))/float64(time.Millisecond))
	return nil
}

// pacedBatch is how many recordings a driver makes between two samples, at most:
// few enough that the observer's ring never fills.
const pacedBatch = 256

func admissions() *family {
	return admissionFamily(&family{
		name:  admission,
		about: "Acquire and Release without contention, as a driver at realistic rates sees them: 256, then what waits to be exported is passed on with the clock stopped.",
		unit:  "ns",
	}, pacedBatch)
}

func tightAdmissions() *family {
	return admissionFamily(&family{
		name:  tight,
		about: "The same without a pause: once the observer's ring is full, the loop waits for the histogram as the peers do.",
		unit:  "ns",
	}, 0)
}

func admissionFamily(f *family, batch int) *family {
	for _, l := range limitings {
		run := func(o *observed, e effort) (sample, error) {
			limit, ctx := l.wrap(semaphore.NewWeighted(slots)), context.Background()
			return operation{
				repeat: func(n int) {
					for range n {
						if limit.Acquire(ctx, 1) == nil {
							limit.Release(1)
						}
					}
				},
				batch:   batch,
				between: o.collectIfAny,
			}.time(e), nil
		}
		f.cases = append(f.cases, &testCase{l.name, l.role, observedOrNot(l.observed, run)})
	}
	return f
}

func contendedAdmissions() *family {
	f := &family{
		name:         crowd,
		about:        "Admissions a second; each goroutine yields once inside the limit and asks again.",
		unit:         "1/s",
		moreIsBetter: true,
	}
	for _, l := range limitings {
		run := func(_ *observed, e effort) (sample, error) {
			return uncounted(contend(l.wrap(semaphore.NewWeighted(slots)))), nil
		}
		f.cases = append(f.cases, &testCase{l.name, l.role, observedOrNot(l.observed, run)})
	}
	return f
}

// contend returns how many admissions a second many goroutines get out of a
// limit.
func contend(limit observer.Limiter) float64 {
	const window = 300 * time.Millisecond
	var admitted atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for limit.Acquire(ctx, 1) == nil {
				runtime.Gosched()
				admitted.Add(1)
				limit.Release(1)
			}
		})
	}
	for admitted.Load() < goroutines { // until all of them have come
		time.Sleep(time.Millisecond)
	}
	before, began := admitted.Load(), time.Now()
	time.Sleep(window)
	rate := float64(admitted.Load()-before) / time.Since(began).Seconds()
	cancel()
	all.Wait()
	return rate
}
