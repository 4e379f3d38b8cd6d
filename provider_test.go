package observer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/testlog"
)

// install makes a provider the global one until the test ends. The global
// provider that nobody has set cannot be had back: what it was before goes on to
// delegate to the first one.
func install(t *testing.T, provider metric.MeterProvider) {
	t.Helper()
	t.Cleanup(func() { otel.SetMeterProvider(noop.NewMeterProvider()) })
	otel.SetMeterProvider(provider)
}

func TestOffWithoutAProviderSaysHowToTurnItOn(t *testing.T) {
	t.Setenv("NEMO_GYM_OTEL_ENABLED", "true") // which turns nothing on by itself
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	var log testlog.Log
	o := observer.Start(t.Context(), "test", observer.WithLogger(log.Logger()))
	defer o.Stop()
	assert.ErrorIs(t, o.Err(), observer.ErrOff)
	assert.Len(t, log.Of(""), 1)
	assert.Len(t, log.Of("INFO", "WithMeterProvider", "export.FromEnv", "NEMO_GYM_OTEL_ENABLED", "OTEL_EXPORTER_OTLP_ENDPOINT", "otel.SetMeterProvider"), 1)
}

func TestMeterProviderHoldsOverTheOtherOptions(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	given := observer.WithMeterProvider(providerOf(reader))
	opens := 0
	other := observer.WithProvider(func(context.Context, string, observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
		opens++
		return nil, nil, nil
	})
	for _, options := range [][]observer.Option{{given, other}, {other, given}} {
		var log testlog.Log
		o := observer.Start(t.Context(), "test", append(options, observer.WithLogger(log.Logger()))...)
		assert.NoError(t, o.Err())
		assert.NotEmpty(t, collect(t, reader))
		assert.Len(t, log.Of("INFO", "several providers"), 1)
		o.Stop()
	}
	assert.Zero(t, opens)
}

func TestLastProviderOptionHolds(t *testing.T) {
	var opened []string
	opening := func(name string) observer.Option {
		return observer.WithProvider(func(context.Context, string, observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
			opened = append(opened, name)
			return providerOf(sdkmetric.NewManualReader()), nil, nil
		})
	}
	var log testlog.Log
	o := observer.Start(t.Context(), "test", opening("first"), opening("last"), observer.WithLogger(log.Logger()))
	defer o.Stop()
	assert.NoError(t, o.Err())
	assert.Equal(t, []string{"last"}, opened)
	assert.Len(t, log.Of("INFO", "several providers"), 1)

	first, last := sdkmetric.NewManualReader(), sdkmetric.NewManualReader()
	o.Stop()
	o = observer.Start(t.Context(), "test", observer.WithMeterProvider(providerOf(first)), observer.WithMeterProvider(providerOf(last)))
	defer o.Stop()
	assert.Empty(t, collect(t, first))
	assert.NotEmpty(t, collect(t, last))
}

func TestOpenIsGivenTheContextTheLoopAndTheSettings(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "value")
	t.Setenv(intervalVariable, "0.5")
	opens := 0
	option := observer.WithProvider(func(given context.Context, loop string, s observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
		opens++
		assert.Equal(t, "value", given.Value(key{}))
		assert.Equal(t, map[int]string{1: "server", 2: ""}[opens], loop)
		assert.Equal(t, "500ms", s.SampleInterval.String())
		assert.True(t, s.TaskCount)
		s.Logger.WithGroup("group").With("a", 1).Warn("from open")
		return providerOf(sdkmetric.NewManualReader()), nil, nil
	})
	var log testlog.Log
	o := observer.Start(ctx, "server", option, observer.WithTaskCount(true), observer.WithLogger(log.Logger()))
	require.NoError(t, o.Err())
	assert.Len(t, log.Of("WARN", "from open"), 1)
	o.Stop()
	process, err := observer.Acquire(ctx, option, observer.WithTaskCount(true), observer.WithLogger(log.Logger()))
	require.NoError(t, err)
	process.Release()
	assert.Equal(t, 2, opens, "each first handle opens one")
}

// What logs for as long as the provider lives goes straight through.
func TestLoggerOfOpenOutlivesStart(t *testing.T) {
	var log testlog.Log
	var kept observer.Settings
	o := observer.Start(t.Context(), "test", observer.WithLogger(log.Logger()),
		observer.WithProvider(func(_ context.Context, _ string, s observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
			kept = s
			return providerOf(sdkmetric.NewManualReader()), nil, nil
		}))
	defer o.Stop()
	kept.Logger.Warn("an outage")
	assert.Len(t, log.Of("WARN", "an outage"), 1)
}

// A nil provider with a nil error means that the environment leaves it off, and
// the next rung of the ladder is the global one. An error does not fall back.
func TestOpenThatLeavesItOffFallsBackToTheGlobalProvider(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	install(t, providerOf(reader))
	o := observer.Start(t.Context(), "test", open(nil, nil, nil))
	assert.NoError(t, o.Err())
	assert.NotEmpty(t, collect(t, reader))
	o.Stop()

	o = observer.Start(t.Context(), "test", open(nil, nil, errOfTest))
	defer o.Stop()
	assert.ErrorIs(t, o.Err(), errOfTest)
	assert.Empty(t, observables(collect(t, reader)))
}

func TestGlobalProvider(t *testing.T) {
	shutDown := providerOf(sdkmetric.NewManualReader())
	require.NoError(t, shutDown.Shutdown(t.Context()))
	dropHistograms := sdkmetric.NewView(sdkmetric.Instrument{Name: "gym.event_loop.*"}, sdkmetric.Stream{Aggregation: sdkmetric.AggregationDrop{}})
	for _, test := range []struct {
		name     string
		provider metric.MeterProvider
		on       bool
	}{
		{"the no-op", noop.NewMeterProvider(), false},
		{"an SDK without a reader", sdkmetric.NewMeterProvider(), false},
		{"an SDK that is shut down", shutDown, false},
		{"one that panics", brokenProvider{}, false},
		{"an SDK with a reader", providerOf(sdkmetric.NewManualReader()), true},
		{"an SDK whose View drops some instruments", sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()), sdkmetric.WithView(dropHistograms)), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			install(t, test.provider)
			o := observer.Start(t.Context(), "test")
			defer o.Stop()
			if test.on {
				assert.NoError(t, o.Err())
			} else {
				assert.ErrorIs(t, o.Err(), observer.ErrOff)
			}
			assert.Equal(t, test.on, observes())
		})
	}
}

func TestStartLooksForAGlobalProviderOnceAndALaterStartAgain(t *testing.T) {
	install(t, noop.NewMeterProvider())
	early := observer.Start(t.Context(), "early")
	defer early.Stop()
	reader := sdkmetric.NewManualReader()
	otel.SetMeterProvider(providerOf(reader))
	assert.ErrorIs(t, early.Err(), observer.ErrOff)
	assert.Empty(t, collect(t, reader))

	later := observer.Start(t.Context(), "later")
	defer later.Stop()
	assert.NoError(t, later.Err())
	assert.NotEmpty(t, collect(t, reader))
	assert.ErrorIs(t, early.Err(), observer.ErrOff)
}

func TestStartReturnsWhileTheGlobalProviderCollects(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := providerOf(reader)
	entered, release := make(chan struct{}), make(chan struct{})
	_, err := provider.Meter("of the application").Int64ObservableGauge("slow", metric.WithInt64Callback(func(context.Context, metric.Int64Observer) error {
		close(entered)
		<-release
		return nil
	}))
	require.NoError(t, err)
	install(t, provider)
	var wg sync.WaitGroup
	wg.Go(func() { _ = reader.Collect(context.Background(), new(metricdata.ResourceMetrics)) })
	<-entered
	var o *observer.Observer
	within(t, startBound, "Start", func() { o = observer.Start(t.Context(), "test") })
	assert.NoError(t, o.Err(), "only a provider that collects makes its callers wait")
	close(release)
	wg.Wait()
	o.Stop()
}

// A child, since the global provider that nobody has set can be had only once.
func init() {
	observer.ChildModes["unset global provider"] = func() error {
		if err := observer.Start(context.Background(), "test").Err(); !errors.Is(err, observer.ErrOff) {
			return fmt.Errorf("observes, or does not for another reason: %v", err)
		}
		return nil
	}
}

func TestGlobalProviderThatNobodyHasSetIsOff(t *testing.T) {
	require.NoError(t, observer.Child(t, "unset global provider").Run())
}

// Application code may end the goroutine that it is called on, as FailNow of a
// test does. That must not take a lock, a step or a goroutine with it.
func TestProviderThatCallsGoexit(t *testing.T) {
	t.Run("while it is opened", func(t *testing.T) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			observer.Start(context.Background(), "test", observer.WithProvider(func(context.Context, string, observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
				runtime.Goexit()
				return nil, nil, nil
			}))
		}()
		<-done
		start(t, "next")
	})
	t.Run("in its flush", func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		provider := &hooked{MeterProvider: providerOf(reader), onFlush: func(context.Context) error { runtime.Goexit(); return nil }}
		o := observer.Start(t.Context(), "test", observer.WithMeterProvider(provider))
		require.NoError(t, o.Err())
		within(t, stopBound, "Stop", o.Stop)
		assert.Contains(t, provider.callsSoFar(), "unregister")
		assert.Empty(t, observables(collect(t, reader)))
	})
	t.Run("while it makes instruments", func(t *testing.T) {
		provider := &hooked{MeterProvider: providerOf(sdkmetric.NewManualReader()), onMeter: func() { runtime.Goexit() }}
		o := observer.Start(t.Context(), "test", observer.WithMeterProvider(provider))
		assert.ErrorContains(t, o.Err(), "Goexit")
		within(t, stopBound, "Stop", o.Stop)
	})
}
