package export

import (
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func TestRebucket(t *testing.T) {
	infinity := math.Inf(1)
	for _, test := range []struct {
		name    string
		edges   []float64
		counts  []uint64
		targets []float64
		bounds  []float64
		want    []uint64
		sum     float64
	}{
		{"targets on edges", []float64{0, 1, 2, 4, 8}, []uint64{1, 2, 3, 4}, []float64{1, 4}, []float64{1, 4}, []uint64{1, 5, 4}, 0.5 + 3 + 9 + 24},
		{"targets between edges", []float64{0, 1, 2, 4, 8}, []uint64{1, 2, 3, 4}, []float64{1.5, 2.5}, []float64{2, 4}, []uint64{3, 3, 4}, 0.5 + 3 + 9 + 24},
		{"two targets in one bucket", []float64{0, 1, 4, 8}, []uint64{1, 2, 3}, []float64{2, 3, 5}, []float64{4, 8}, []uint64{3, 3, 0}, 0.5 + 5 + 18},
		{"target below the first edge", []float64{1, 2, 3}, []uint64{5, 6}, []float64{0.5}, []float64{1}, []uint64{0, 11}, 7.5 + 15},
		{"target beyond the last edge", []float64{0, 1, 2}, []uint64{5, 6}, []float64{1, 3}, []float64{1}, []uint64{5, 6}, 2.5 + 9},
		{"infinite edges", []float64{-infinity, 0, 1, 2, infinity}, []uint64{1, 2, 3, 4}, []float64{1, 2, 10}, []float64{1, 2}, []uint64{3, 3, 4}, 0 + 1 + 4.5 + 8},
		{"only infinite edges", []float64{-infinity, infinity}, []uint64{7}, []float64{1}, nil, []uint64{7}, 0},
		{"a bucket below zero", []float64{-2, -1, 1}, []uint64{3, 4}, []float64{1}, []float64{1}, []uint64{7, 0}, 0},
		{"no targets", []float64{0, 1, 2}, []uint64{5, 6}, nil, nil, []uint64{11}, 2.5 + 9},
		{"no buckets", nil, nil, []float64{1}, nil, []uint64{0}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			from := &metrics.Float64Histogram{Buckets: test.edges, Counts: test.counts}
			point := rebucket(from, test.targets)
			assert.Equal(t, test.bounds, point.Bounds)
			assert.Equal(t, test.want, point.BucketCounts)
			assert.Equal(t, test.sum, point.Sum)
			var count uint64
			for _, n := range test.counts {
				count += n
			}
			assert.Equal(t, count, point.Count)
		})
	}
}

func TestRebucketCopiesTheCounts(t *testing.T) {
	from := &metrics.Float64Histogram{Buckets: []float64{0, 1, 2}, Counts: []uint64{5, 6}}
	point := rebucket(from, []float64{1})
	from.Counts[0], from.Buckets[1] = 100, 1.5 // as the runtime's next reading does
	assert.Equal(t, []uint64{5, 6}, point.BucketCounts)
	assert.Equal(t, []float64{1}, point.Bounds)
}

// scheduleHistogram returns the only point that the producer gives.
func scheduleHistogram(t *testing.T, produced []metricdata.ScopeMetrics) metricdata.HistogramDataPoint[float64] {
	t.Helper()
	require.Len(t, produced, 1)
	assert.Equal(t, "github.com/gym-observer/observer/export", produced[0].Scope.Name)
	require.Len(t, produced[0].Metrics, 1)
	metric := produced[0].Metrics[0]
	assert.Equal(t, "go.schedule.duration", metric.Name)
	assert.Equal(t, "s", metric.Unit)
	assert.NotEmpty(t, metric.Description)
	histogram, ok := metric.Data.(metricdata.Histogram[float64])
	require.True(t, ok, "%T", metric.Data)
	assert.Equal(t, metricdata.CumulativeTemporality, histogram.Temporality)
	require.Len(t, histogram.DataPoints, 1)
	return histogram.DataPoints[0]
}

func TestProducerGivesTheRuntimesDistribution(t *testing.T) {
	producer := NewProducer()
	before, err := producer.Produce(t.Context())
	require.NoError(t, err)
	first := scheduleHistogram(t, before)

	const switches = 1000
	var work sync.WaitGroup
	for range switches {
		work.Go(runtime.Gosched)
	}
	work.Wait()
	runtimes := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(runtimes)
	var least uint64
	for _, count := range runtimes[0].Value.Float64Histogram().Counts {
		least += count
	}

	after, err := producer.Produce(t.Context())
	require.NoError(t, err)
	second := scheduleHistogram(t, after)
	assert.GreaterOrEqual(t, second.Count, least, "no count of the runtime is lost")
	assert.Greater(t, second.Count, first.Count)
	assert.Greater(t, second.Sum, first.Sum)
	assert.Equal(t, first.Bounds, second.Bounds)
	assert.Equal(t, first.StartTime, second.StartTime)
	assert.True(t, second.StartTime.Before(first.Time))
	for i := range second.BucketCounts {
		assert.GreaterOrEqual(t, second.BucketCounts[i], first.BucketCounts[i])
	}
	assert.False(t, math.IsNaN(second.Sum) || math.IsInf(second.Sum, 0))
}

func TestScheduleBoundsAreEdgesOfTheRuntime(t *testing.T) {
	runtimes := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(runtimes)
	edges := runtimes[0].Value.Float64Histogram().Buckets
	produced, err := NewProducer().Produce(t.Context())
	require.NoError(t, err)
	bounds := scheduleHistogram(t, produced).Bounds
	require.Len(t, bounds, len(scheduleTargets))
	for i, target := range scheduleTargets {
		at := slices.IndexFunc(edges, func(edge float64) bool { return edge >= target })
		assert.Equal(t, edges[at], bounds[i])
		assert.Less(t, bounds[i], target*1.25)
	}
	assert.True(t, slices.IsSorted(bounds))
}

func TestProducersReadConcurrently(t *testing.T) {
	producer := NewProducer()
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			var last uint64
			for range 100 {
				produced, err := producer.Produce(t.Context())
				if !assert.NoError(t, err) {
					return
				}
				point := produced[0].Metrics[0].Data.(metricdata.Histogram[float64]).DataPoints[0]
				var sum uint64
				for _, count := range point.BucketCounts {
					sum += count
				}
				assert.Equal(t, point.Count, sum)
				assert.GreaterOrEqual(t, point.Count, last)
				last = point.Count
			}
		})
	}
	readers.Wait()
}

func TestProducerGivesNothingWhereTheRuntimeDoesNotKnowIt(t *testing.T) {
	producer := &scheduleProducer{sample: []metrics.Sample{{Name: "/sched/unheard-of:seconds"}}}
	produced, err := producer.Produce(t.Context())
	assert.NoError(t, err)
	assert.Empty(t, produced)
}

// TestH83CountIsOneInEight counts what NewProducer's comment says of this Go's
// runtime: if another one counts all transitions, or one in ten, the comment has
// to change.
func TestH83CountIsOneInEight(t *testing.T) {
	text, err := os.ReadFile("schedule.go")
	require.NoError(t, err)
	require.Contains(t, string(text), "// The runtime measures one transition in eight of each goroutine,")

	count := func() uint64 {
		produced, err := NewProducer().Produce(t.Context())
		require.NoError(t, err)
		return produced[0].Metrics[0].Data.(metricdata.Histogram[float64]).DataPoints[0].Count
	}
	before := count()
	const exchanges = 50_000
	there, back := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for range there {
			back <- struct{}{}
		}
	})
	for range exchanges { // each of the two blocks once
		there <- struct{}{}
		<-back
	}
	close(there)
	wg.Wait()
	const transitions = 2 * exchanges
	counted := count() - before
	assert.Greater(t, counted, uint64(transitions/12), "of %d transitions", transitions)
	assert.Less(t, counted, uint64(transitions/5), "of %d transitions", transitions)
	t.Logf("%d of %d", counted, transitions)
}
