package export

import (
	"context"
	"math"
	"runtime/metrics"
	"sync"
	"time"

	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// scheduleTargets are the boundaries to come close to, in seconds: 50 µs, which a
// healthy goroutine waits for a processor, to 10 s.
var scheduleTargets = []float64{
	5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
}

// processStart is when the runtime began to count, as near as a package can tell.
var processStart = time.Now()

// NewProducer returns a producer of go.schedule.duration: how long goroutines
// were ready before they ran, for every goroutine since the process began, as
// the runtime counts it. [FromEnv] has it in its exporter; a reader of the
// application's own takes it with the SDK's WithProducer.
//
// The runtime measures one transition in eight of each goroutine, beginning with
// one that it draws by lot, and does not multiply. The count is therefore about an
// eighth of the times that goroutines became ready, and the sum about an eighth of
// all their waiting; the shape, and with it every quantile and the mean, is right.
// A goroutine that becomes ready a few times in its life may not be in it at all.
//
// It is a histogram in seconds, under the scope
// github.com/gym-observer/observer/export. Its sum is an estimate from the middle
// of the runtime's buckets, within 12.5 %. It is cumulative even for a reader
// that prefers deltas, since a producer is not told. Where this Go does not know
// the distribution, the producer gives nothing.
//
// The producer is safe for concurrent use, and may serve several readers.
func NewProducer() sdkmetric.Producer {
	return &scheduleProducer{sample: []metrics.Sample{{Name: "/sched/latencies:seconds"}}}
}

type scheduleProducer struct {
	mu     sync.Mutex
	sample []metrics.Sample // reused, so that a reading allocates no buckets; guarded by mu
}

// Produce never returns an error, which would cost the reader its whole export.
func (p *scheduleProducer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	metrics.Read(p.sample)
	if p.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return nil, nil
	}
	point := rebucket(p.sample[0].Value.Float64Histogram(), scheduleTargets)
	point.StartTime, point.Time = processStart, time.Now()
	return []metricdata.ScopeMetrics{{
		Scope: instrumentation.Scope{Name: "github.com/gym-observer/observer/export"},
		Metrics: []metricdata.Metrics{{
			Name:        "go.schedule.duration",
			Description: "Time that goroutines were ready to run before they ran.",
			Unit:        "s",
			Data: metricdata.Histogram[float64]{
				Temporality: metricdata.CumulativeTemporality,
				DataPoints:  []metricdata.HistogramDataPoint[float64]{point},
			},
		}},
	}}, nil
}

// rebucket copies a distribution into fewer buckets. Each boundary is the
// smallest finite edge of the runtime's that is not below its target, so that no
// bucket is split; a target beyond the last edge has none. The runtime counts a
// value on an edge above it, OpenTelemetry below: such values, a nanosecond
// wide, are one bucket too high.
func rebucket(from *metrics.Float64Histogram, targets []float64) metricdata.HistogramDataPoint[float64] {
	to := metricdata.HistogramDataPoint[float64]{BucketCounts: []uint64{0}}
	for i, edge := range from.Buckets {
		if len(targets) > 0 && edge >= targets[0] && !math.IsInf(edge, 1) {
			to.Bounds = append(to.Bounds, edge)
			to.BucketCounts = append(to.BucketCounts, 0)
			for len(targets) > 0 && edge >= targets[0] {
				targets = targets[1:] // more than one where the runtime's buckets are wide
			}
		}
		if i == len(from.Counts) {
			break // the last edge ends a bucket and begins none
		}
		count := from.Counts[i]
		to.BucketCounts[len(to.BucketCounts)-1] += count
		to.Count += count
		to.Sum += float64(count) * middle(edge, from.Buckets[i+1])
	}
	return to
}

// middle returns a value for all of a bucket: a wait is never negative nor
// infinite, and neither may its sum be.
func middle(lower, upper float64) float64 {
	switch {
	case upper <= 0 || math.IsInf(lower, -1):
		return 0
	case math.IsInf(upper, 1):
		return lower
	}
	return (lower + upper) / 2
}
