package observer

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer/internal/reading"
	"github.com/gym-observer/observer/internal/record"
	"github.com/gym-observer/observer/internal/testlog"
)

// start observes the process until the test ends, as start of the tests from outside
// does: it samples once an hour, unless an option says otherwise.
func start(t testing.TB, loop string, options ...Option) *Observer {
	t.Helper()
	o := Start(context.Background(), loop, append([]Option{
		WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))),
		WithLogger(new(testlog.Log).Logger()), WithSampleInterval(time.Hour),
	}, options...)...)
	require.NoError(t, o.Err())
	t.Cleanup(o.Stop)
	awaitFirstWindow(o)
	return o
}

// manual is a running observer seen from inside. Its one loop has no goroutine:
// the test itself takes the samples.
type manual struct {
	*session
	loop   *loop
	holder *Process
	reader *sdkmetric.ManualReader
	log    testlog.Log
}

// manually observes the process until the test ends.
func manually(t testing.TB, options ...Option) *manual {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	i := manuallyOver(t, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), options...)
	i.reader = reader
	return i
}

// manuallyOver does that with a provider of the test's own.
func manuallyOver(t testing.TB, provider metric.MeterProvider, options ...Option) *manual {
	t.Helper()
	i := new(manual)
	holder, err := Acquire(context.Background(), append([]Option{WithMeterProvider(provider), WithLogger(i.log.Logger())}, options...)...)
	require.NoError(t, err)
	t.Cleanup(holder.Release)
	i.holder, i.session = holder, holder.handle.session
	<-i.instrumented
	i.loop = newLoop("inside", holder.handle.settings, &i.sampler, &i.loops)
	changing.Lock()
	i.loops.Add(i.loop)
	changing.Unlock()
	i.sampler.begin(i.loop.Now())
	return i
}

// collect returns the metrics that have points, by name.
func (m *manual) collect(t testing.TB) map[string]metricdata.Aggregation {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, m.reader.Collect(context.Background(), &all))
	metrics := make(map[string]metricdata.Aggregation)
	for _, scoped := range all.ScopeMetrics {
		for _, m := range scoped.Metrics {
			metrics[m.Name] = m.Data
		}
	}
	return metrics
}

// names returns the names of the metrics that have points.
func (m *manual) names(t testing.TB) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(m.collect(t)))
}

// histogram returns the one point of a histogram of durations; its count is 0
// where there is none.
func (m *manual) histogram(t testing.TB, name string) metricdata.HistogramDataPoint[float64] {
	t.Helper()
	data, _ := m.collect(t)[name].(metricdata.Histogram[float64])
	if len(data.DataPoints) == 0 {
		return metricdata.HistogramDataPoint[float64]{}
	}
	require.Len(t, data.DataPoints, 1)
	return data.DataPoints[0]
}

// wallMoved returns at with its wall clock moved and its monotonic clock as it
// is: what time.Now returns after the machine's clock was set. No function of
// package time does that, hence the reach into its layout, which the check at
// the end would find changed.
func wallMoved(t *testing.T, at time.Time, by time.Duration) time.Time {
	t.Helper()
	moved := at
	wall := (*uint64)(unsafe.Pointer(&moved)) // the first field: 1 bit, 33 bits of seconds, 30 bits of nanoseconds
	*wall += uint64(int64(by/time.Second) << 30)
	require.Equal(t, at.Unix()+int64(by/time.Second), moved.Unix(), "the wall clock has moved")
	require.Zero(t, moved.Sub(at), "the monotonic clock has not")
	return moved
}

func TestH29LagIsMeasuredOnTheMonotonicClock(t *testing.T) {
	for name, jump := range map[string]time.Duration{"an hour back": -time.Hour, "an hour ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			i := manually(t)
			due := time.Now()
			i.loop.Now = func() time.Time { return wallMoved(t, due.Add(7*time.Millisecond), jump) }
			i.loop.sample(due)
			lag := i.histogram(t, EventLoopLagInstrument)
			assert.EqualValues(t, 1, lag.Count)
			assert.Equal(t, 7.0, lag.Sum, "milliseconds")
		})
	}
}

func TestLagOfATimerThatFiredEarlyIsZero(t *testing.T) {
	i := manually(t)
	i.loop.sample(time.Now().Add(time.Hour))
	lag := i.histogram(t, EventLoopLagInstrument)
	assert.EqualValues(t, 1, lag.Count)
	assert.Zero(t, lag.Sum)
}

func TestLagIsNotClamped(t *testing.T) {
	i := manually(t)
	i.loop.sample(time.Now().Add(-24 * time.Hour))
	assert.GreaterOrEqual(t, i.histogram(t, EventLoopLagInstrument).Sum, 24*3600e3)
}

// TestSampleReadsTheQueueYieldsAndThenReadsTheClock queues goroutines on one
// processor. An attempt counts in which none of them had run when the queue had
// been read: all of them were in it, and all are done when the sampler has
// waited its turn. The runtime may interrupt the test's goroutine at any point
// before, most of all under the race detector.
func TestSampleReadsTheQueueYieldsAndThenReadsTheClock(t *testing.T) {
	const goroutines, each = 2000, 20 * time.Microsecond
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	attempt := func() (i *manual, whole bool) {
		i = manually(t)
		var queued sync.WaitGroup
		var ran atomic.Bool
		queues := i.loop.Queues
		i.loop.Queues = func() reading.Queues {
			read := queues()
			whole = !ran.Load()
			return read
		}
		for range goroutines {
			queued.Go(func() {
				ran.Store(true)
				for began := time.Now(); time.Since(began) < each; {
				}
			})
		}
		i.loop.sample(time.Now())
		queued.Wait()
		return i, whole
	}

	i, whole := attempt()
	for attempts := 1; !whole; attempts++ {
		require.Less(t, attempts, 100, "the test's goroutine is interrupted each time")
		i.holder.Release()
		i, whole = attempt()
	}
	queue := i.collect(t)[EventLoopRunQueueInstrument].(metricdata.Histogram[int64]).DataPoints[0]
	assert.EqualValues(t, 1, queue.Count)
	assert.GreaterOrEqual(t, queue.Sum, int64(goroutines), "the queue was read before the yield")
	lag := i.histogram(t, EventLoopLagInstrument)
	assert.GreaterOrEqual(t, lag.Sum, record.Milliseconds(goroutines*each)/2, "the clock was read after the yield")
}

func TestH32AMissingQueueMetricIsLeftOutAlone(t *testing.T) {
	i := manually(t)
	i.loop.Queues = func() reading.Queues { return reading.Queues{} } // as a Go that does not tell
	for range 3 {
		i.loop.sample(time.Now())
	}
	names := i.names(t)
	assert.NotContains(t, names, EventLoopRunQueueInstrument)
	assert.EqualValues(t, 3, i.histogram(t, EventLoopLagInstrument).Count)
	assert.Len(t, i.log.Of("cause="+EventLoopRunQueueInstrument), 1)
}

// The page shows what a driver records as it comes.
func TestSamplePassesOnWhatADriverRecords(t *testing.T) {
	i := manually(t)
	Driver().Offer(1)
	Driver().RecordMaterialize(context.Background(), time.Millisecond)
	waits := i.sampler.recorder.Load().Rollouts
	assert.EqualValues(t, 1, waits.Waiting(), "nobody has asked for it")
	i.loop.sample(time.Now())
	require.Eventually(t, func() bool { return waits.Waiting() == 0 }, 10*time.Second, time.Millisecond)
}

// Where a view drops every observable, the SDK calls no callback: nobody asks for
// what waits.
func TestRecordingsDoNotWaitForeverForACollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		dropped := sdkmetric.NewView(sdkmetric.Instrument{Name: "*"}, sdkmetric.Stream{Aggregation: sdkmetric.AggregationDrop{}})
		kept := func(i sdkmetric.Instrument) (sdkmetric.Stream, bool) {
			if i.Name == EventLoopLagInstrument {
				return sdkmetric.Stream{}, false
			}
			return dropped(i)
		}
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithView(kept))
		slow := Start(t.Context(), "slow", WithMeterProvider(provider), WithSampleInterval(time.Hour))
		quick := Start(t.Context(), "quick", WithSampleInterval(100*time.Millisecond))
		require.NoError(t, errors.Join(slow.Err(), quick.Err()))
		time.Sleep(20 * time.Second)
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		count := all.ScopeMetrics[0].Metrics[0].Data.(metricdata.Histogram[float64]).DataPoints[0].Count
		assert.Greater(t, count, uint64(80), "of about 200, those of the last ten seconds may be on their way")
		quick.Stop()
		slow.Stop()
	})
}
