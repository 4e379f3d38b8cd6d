package observer_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/testlog"
)

func TestLoopsShareTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := start(t, "first", observer.WithTaskCount(true), observer.WithSampleInterval(time.Second))
		before := first.collect(t)
		second := observer.Start(t.Context(), "second", observer.WithTaskCount(true), observer.WithSampleInterval(2*time.Second))
		defer second.Stop()
		silent := observer.Start(t.Context(), "silent", observer.WithSampleInterval(4*time.Second))
		defer silent.Stop()
		process, err := observer.Acquire(t.Context())
		require.NoError(t, err)
		defer process.Release()

		observer.Requests().CountUnhandledException()
		end := observer.Requests().Begin()
		defer end()
		time.Sleep(time.Minute)
		now := first.collect(t)
		assert.Equal(t, before.require(t, observer.RequestsUnhandledExceptionsInstrument)+1, now.require(t, observer.RequestsUnhandledExceptionsInstrument))
		assert.Equal(t, before.require(t, observer.RequestsInFlightInstrument)+1, now.require(t, observer.RequestsInFlightInstrument))
		assert.Len(t, now.points(observer.ProcessMemoryUsageInstrument), 1)

		// Each loop has an interval and a task count of its own.
		assert.Len(t, now.points(observer.EventLoopTasksInstrument), 2)
		assert.Positive(t, now.require(t, observer.EventLoopTasksInstrument, ofLoop("first")))
		assert.Equal(t, now.require(t, observer.EventLoopTasksInstrument, ofLoop("first")), now.require(t, observer.EventLoopTasksInstrument, ofLoop("second")))
		for name, interval := range map[string]float64{"first": 1, "second": 2, "silent": 4} {
			for _, instrument := range []string{observer.EventLoopLagInstrument, observer.EventLoopRunQueueInstrument} {
				samples := now.require(t, instrument, ofLoop(name))
				assert.InDelta(t, 60/interval, samples, 60/interval/5+1, "%s of %s", instrument, name)
			}
		}
		assert.Equal(t, 2*time.Second, second.Settings().SampleInterval)
		assert.True(t, second.Settings().TaskCount)
		assert.False(t, silent.Settings().TaskCount)

		// The last one out ends it, not the first one in.
		first.Stop()
		assert.ErrorIs(t, first.Err(), observer.ErrStopped)
		assert.NoError(t, second.Err())
		assert.NotEmpty(t, first.collect(t))
		second.Stop()
		silent.Stop()
		assert.True(t, observes())
		process.Release()
		assert.False(t, observes())
		assert.Empty(t, observables(first.collect(t)))
	})
}

// observables drops the histograms, which a cumulative reader exports for ever.
func observables(e exported) exported {
	for name, m := range e {
		switch m.Data.(type) {
		case metricdata.Histogram[int64], metricdata.Histogram[float64]:
			delete(e, name)
		}
	}
	return e
}

func TestTwoLoopsOfOneNameHaveOnePoint(t *testing.T) {
	first := start(t, "same", observer.WithTaskCount(false))
	for range 2 {
		o := observer.Start(t.Context(), "same", observer.WithTaskCount(true))
		defer o.Stop()
	}
	points := first.collect(t).points(observer.EventLoopTasksInstrument)
	require.Len(t, points, 1)
	assert.LessOrEqual(t, points[0].value, float64(runtime.NumGoroutine()+10), "not the sum of two")
}

func TestOptionsOfALaterHandleAreIgnored(t *testing.T) {
	first := start(t, "first")
	var log testlog.Log
	reader := sdkmetric.NewManualReader()
	opens := 0
	later := observer.Start(t.Context(), "later", observer.WithLogger(log.Logger()),
		observer.WithProvider(func(context.Context, string, observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
			opens++
			return providerOf(reader), nil, nil
		}))
	defer later.Stop()
	require.NoError(t, later.Err())
	assert.Len(t, log.Of("INFO", "ignored", "provider", "logger"), 1)
	assert.Zero(t, opens)

	another := observer.Start(t.Context(), "another", observer.WithLogger(log.Logger()), observer.WithMeterProvider(providerOf(reader)))
	defer another.Stop()
	require.NoError(t, another.Err())
	assert.Len(t, log.Of("INFO", "ignored", "provider", "logger"), 2)
	assert.Empty(t, collect(t, reader))

	diagnosis := observer.Start(t.Context(), "diagnosis", observer.WithLogger(log.Logger()), observer.WithWindow(time.Minute), observer.WithCapture(t.TempDir()))
	defer diagnosis.Stop()
	assert.Len(t, log.Of("INFO", "ignored", "window", "capture", "logger"), 1)

	same := observer.Start(t.Context(), "same", observer.WithLogger(first.Settings().Logger), observer.WithMeterProvider(first.provider), observer.WithWindow(10*time.Second))
	defer same.Stop()
	assert.Empty(t, first.log.Of("ignored"), "what is the same is not ignored")
}

// pauses returns how many pauses of the collector the runtime has counted.
func pauses() (total float64) {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	for _, count := range sample[0].Value.Float64Histogram().Counts {
		total += float64(count)
	}
	return total
}

var generation = attribute.Int("nemo.gym.gc.generation", 0)

func TestOldestLoopSamplesThePausesAndHandsOver(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // none but those of the test
	runtime.GC()
	before := pauses()
	first := start(t, "first")
	second := observer.Start(t.Context(), "second", observer.WithSampleInterval(time.Hour))
	defer second.Stop()
	recorded := func() float64 {
		n, _ := first.collect(t).value(observer.GCPauseInstrument, generation)
		return n
	}

	runtime.GC()
	second.Stop()
	assert.Zero(t, recorded(), "the last sample of a younger loop has no pauses")
	third := observer.Start(t.Context(), "third", observer.WithSampleInterval(time.Hour))
	defer third.Stop()
	first.Stop()
	require.Positive(t, pauses()-before)
	assert.Equal(t, pauses()-before, recorded(), "the last sample of the oldest loop")
	runtime.GC()
	third.Stop()
	assert.Equal(t, pauses()-before, recorded(), "none is lost or doubled in the hand-over")
}

func TestPausesBeforeALoopAreNotReported(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	reader := sdkmetric.NewManualReader()
	process, err := observer.Acquire(t.Context(), observer.WithMeterProvider(providerOf(reader)))
	require.NoError(t, err)
	defer process.Release()
	for range 2 { // also those between two loops
		runtime.GC()
		o := observer.Start(t.Context(), "test", observer.WithSampleInterval(time.Hour))
		o.Stop()
		_, reported := collect(t, reader).value(observer.GCPauseInstrument, generation)
		assert.False(t, reported)
	}
}

func TestAcquireHasNoSampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		ctx, cancel := context.WithCancel(t.Context())
		process, err := observer.Acquire(ctx, observer.WithMeterProvider(providerOf(reader)),
			observer.WithTaskCount(true), observer.WithSampleInterval(time.Millisecond))
		require.NoError(t, err)
		time.Sleep(time.Second)
		now := collect(t, reader)
		now.require(t, observer.RequestsInFlightInstrument)
		for _, name := range []string{observer.EventLoopLagInstrument, observer.EventLoopRunQueueInstrument, observer.EventLoopTasksInstrument, observer.GCPauseInstrument} {
			assert.NotContains(t, now, name)
		}

		cancel() // acts like Release
		synctest.Wait()
		assert.False(t, observes())
		assert.Empty(t, collect(t, reader))
		process.Release()
		process.Release()
	})
}
