package observer_test

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/otlptest"
	"github.com/gym-observer/observer/internal/testlog"
)

const (
	startBound = time.Second     // Start blocks for nobody
	stopBound  = 3 * time.Second // a Stop returns within it whatever the provider does
)

func TestStartSurvivesWhatItIsGiven(t *testing.T) {
	var typedNil *sdkmetric.MeterProvider
	sdk := providerOf(sdkmetric.NewManualReader())
	registering := func(register func() (metric.Registration, error)) observer.Option {
		return observer.WithMeterProvider(brokenProvider{sdk, func() metric.Meter {
			return brokenMeter{sdk.Meter("broken"), register}
		}})
	}
	for _, test := range []struct {
		name   string
		option observer.Option
		err    error  // that Err wraps; nil if it observes
		text   string // in what Err or the log says
	}{
		{name: "no option", err: observer.ErrOff},
		{name: "nil provider", option: observer.WithMeterProvider(nil), err: observer.ErrOff},
		{name: "typed nil provider", option: observer.WithMeterProvider(typedNil), err: observer.ErrOff},
		{name: "nil open", option: observer.WithProvider(nil), err: observer.ErrOff},
		{name: "open returns nothing", option: open(nil, nil, nil), err: observer.ErrOff},
		{name: "open returns a typed nil", option: open(typedNil, nil, nil), err: observer.ErrOff},
		{name: "open returns an error", option: open(nil, nil, errOfTest), err: errOfTest},
		{name: "open returns a provider and an error", option: open(sdk, nil, errOfTest), err: errOfTest},
		{name: "open panics", option: observer.WithProvider(func(context.Context, string, observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
			panic("thrown by open")
		}), text: "thrown by open"},
		{name: "Meter panics", option: observer.WithMeterProvider(brokenProvider{sdk, func() metric.Meter { panic("thrown by Meter") }}), text: "thrown by Meter"},
		{name: "Meter returns nil", option: observer.WithMeterProvider(brokenProvider{sdk, func() metric.Meter { return nil }}), text: "nil pointer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log testlog.Log
			var o *observer.Observer
			within(t, startBound, "Start", func() {
				o = observer.Start(nil, "test", nil, observer.WithLogger(log.Logger()), observer.WithLogger(nil), test.option) //nolint:staticcheck // nil is the subject
			})
			defer o.Stop()
			require.NotNil(t, o)
			require.Error(t, o.Err())
			if test.err != nil {
				assert.ErrorIs(t, o.Err(), test.err)
			}
			assert.ErrorContains(t, o.Err(), test.text)
			assert.Equal(t, errors.Is(test.err, observer.ErrOff), errors.Is(o.Err(), observer.ErrOff), "%v", o.Err())
			assert.Len(t, log.Of("observer"), 1, "one line tells that it does not observe")
			assert.False(t, observes(), "nothing observes")

			process, err := observer.Acquire(nil, nil, observer.WithLogger(log.Logger()), test.option) //nolint:staticcheck // as above
			assert.Nil(t, process)
			assert.ErrorContains(t, err, test.text)
			within(t, startBound, "Stop of what never observed", o.Stop)
		})
	}

	for name, register := range map[string]func() (metric.Registration, error){
		"RegisterCallback returns an error": func() (metric.Registration, error) { return nil, errOfTest },
		"RegisterCallback panics":           func() (metric.Registration, error) { panic(errOfTest.Error()) },
		"RegisterCallback returns nothing":  func() (metric.Registration, error) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			var log testlog.Log
			o := observer.Start(nil, "test", observer.WithLogger(log.Logger()), registering(register)) //nolint:staticcheck // as above
			defer o.Stop()
			assert.NoError(t, o.Err(), "a part that fails is logged, and the rest observes")
			assert.True(t, observes())
			if strings.HasSuffix(name, "nothing") {
				assert.Empty(t, log.Of("observer"))
			} else {
				assert.Len(t, log.Of(errOfTest.Error()), 1)
			}
			within(t, stopBound, "Stop", o.Stop)
			assert.ErrorIs(t, o.Err(), observer.ErrStopped)
		})
	}
}

// uncomparable is a provider of which two cannot be compared with ==, although
// the type that holds it says that they can.
type uncomparable struct{ metric.MeterProvider }

type slicedProvider struct {
	metric.MeterProvider
	_ []int
}

func TestStartSurvivesAProviderThatCannotBeCompared(t *testing.T) {
	for name, provider := range map[string]metric.MeterProvider{
		"by its type":  slicedProvider{MeterProvider: providerOf(sdkmetric.NewManualReader())},
		"by its value": uncomparable{slicedProvider{MeterProvider: providerOf(sdkmetric.NewManualReader())}},
	} {
		t.Run(name, func(t *testing.T) {
			var log testlog.Log
			a := observer.Start(t.Context(), "a", observer.WithMeterProvider(provider), observer.WithLogger(log.Logger()))
			defer a.Stop()
			b := observer.Start(t.Context(), "b", observer.WithMeterProvider(provider), observer.WithLogger(log.Logger()))
			defer b.Stop()
			assert.NoError(t, a.Err())
			assert.NoError(t, b.Err())
		})
	}
}

func TestMethodsOfNothing(t *testing.T) {
	var none *observer.Observer
	var zero observer.Observer
	for _, o := range []*observer.Observer{none, &zero} {
		o.Stop()
		assert.ErrorIs(t, o.Err(), observer.ErrOff)
		assert.Equal(t, observer.Settings{}, o.Settings())
	}
	var noProcess *observer.Process
	noProcess.Release()
	new(observer.Process).Release()
}

func TestNilShutdownIsAllowed(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	o := observer.Start(t.Context(), "test", open(providerOf(reader), nil, nil))
	require.NoError(t, o.Err())
	assert.NotEmpty(t, collect(t, reader))
	within(t, stopBound, "Stop", o.Stop)
	assert.Empty(t, observables(collect(t, reader)), "the provider is left to whoever opened it")
}

func TestStartWithAContextThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOfTest)
	opens := 0
	o := observer.Start(ctx, "test", observer.WithProvider(func(context.Context, string, observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
		opens++
		return nil, nil, nil
	}))
	defer o.Stop()
	assert.ErrorIs(t, o.Err(), observer.ErrStopped)
	assert.ErrorIs(t, o.Err(), errOfTest, "the cause is kept")
	assert.Zero(t, opens)
	assert.False(t, observes())
}

// The SDK makes no instrument while a callback runs.
func TestStartReturnsWhileAnotherMetersCallbackHangs(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := providerOf(reader)
	meter := provider.Meter("of the application")
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	_, err := meter.Int64ObservableGauge("slow", metric.WithInt64Callback(func(context.Context, metric.Int64Observer) error {
		once.Do(func() {
			close(entered)
			<-release
		})
		return nil
	}))
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() { _ = reader.Collect(context.Background(), new(metricdata.ResourceMetrics)) })
	<-entered

	var o *observer.Observer
	within(t, startBound, "Start", func() {
		o = observer.Start(t.Context(), "test", observer.WithMeterProvider(provider), observer.WithSampleInterval(time.Millisecond))
	})
	defer o.Stop()
	assert.NoError(t, o.Err())
	assert.True(t, observes(), "requests count from the start")
	close(release)
	wg.Wait()
	require.Eventually(t, func() bool {
		now := collect(t, reader)
		_, observes := now.value(observer.RequestsInFlightInstrument)
		_, samples := now.value(observer.EventLoopLagInstrument, ofLoop("test"))
		return observes && samples
	}, 10*time.Second, time.Millisecond, "everything works once the callback has returned")
}

func TestStopReturnsWhileTheProviderStillMakesInstruments(t *testing.T) {
	release := make(chan struct{})
	reader := sdkmetric.NewManualReader()
	provider := &hooked{MeterProvider: providerOf(reader), onMeter: func() { <-release }}
	var o *observer.Observer
	within(t, startBound, "Start", func() {
		o = observer.Start(t.Context(), "test", observer.WithMeterProvider(provider))
	})
	within(t, stopBound, "Stop", o.Stop)
	close(release)
	require.Eventually(t, func() bool { return slices.Contains(provider.callsSoFar(), "unregister") }, 10*time.Second, time.Millisecond)
	assert.Empty(t, collect(t, reader))
}

// startsThatLog calls Start in each way that logs, and says which.
func startsThatLog(t *testing.T, logger *slog.Logger, bound time.Duration, each func(o *observer.Observer)) {
	t.Helper()
	withLogger := observer.WithLogger(logger)
	provider := providerOf(sdkmetric.NewManualReader())
	for _, test := range []struct {
		name    string
		options []observer.Option
	}{
		{"off", nil},
		{"open fails", []observer.Option{open(nil, nil, errOfTest)}},
		{"open logs", []observer.Option{observer.WithProvider(func(_ context.Context, _ string, s observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
			s.Logger.Warn("from open")
			return provider, nil, nil
		})}},
		{"interval out of range", []observer.Option{observer.WithMeterProvider(provider), observer.WithSampleInterval(-1)}},
		{"flush fails", []observer.Option{observer.WithMeterProvider(&hooked{
			MeterProvider: provider,
			onFlush:       func(context.Context) error { return errOfTest },
		})}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var o *observer.Observer
			within(t, bound, "Start", func() { o = observer.Start(t.Context(), "test", append(test.options, withLogger)...) })
			each(o)
			within(t, stopBound, "Stop", o.Stop)
		})
	}
}

func TestLoggerThatPanics(t *testing.T) {
	var lines atomic.Int64
	log := testlog.Log{On: func() {
		lines.Add(1)
		panic("thrown by the handler")
	}}
	startsThatLog(t, log.Logger(), startBound, func(o *observer.Observer) {})
	assert.EqualValues(t, 6, lines.Load(), "each has a line, and open two: its own, and that it panicked")
	within(t, stopBound, "Start and Stop over the zero logger", observer.Start(t.Context(), "test", observer.WithLogger(new(slog.Logger))).Stop)
}

// A Start within a Start, from a log handler that the provider's opening calls,
// cannot be waited for: it gives up in a few seconds.
func TestLoggerThatCallsThePackage(t *testing.T) {
	var inside atomic.Bool
	var outer atomic.Pointer[observer.Observer]
	reader := sdkmetric.NewManualReader()
	provider := providerOf(reader)
	log := testlog.Log{On: func() {
		if !inside.CompareAndSwap(false, true) {
			return
		}
		defer inside.Store(false)
		_ = outer.Load().Err()
		o := observer.Start(context.Background(), "inner", observer.WithMeterProvider(provider))
		_ = o.Err()
		o.Stop()
		outer.Load().Stop()
	}}
	startsThatLog(t, log.Logger(), 5*time.Second, func(o *observer.Observer) { outer.Store(o) })
}

func TestEmptyLoopNameLeavesTheAttributeEmpty(t *testing.T) {
	o := start(t, "", observer.WithTaskCount(true))
	o.collect(t).require(t, observer.EventLoopTasksInstrument, ofLoop(""))
}

// Protobuf refuses a string that is not UTF-8, and with it the whole export.
func TestNamesThatAreNotUTF8AreStillExported(t *testing.T) {
	o := start(t, "lo\xffop", observer.WithTaskCount(true))
	observer.Requests().CountCancellation("/ro\xffute", false)
	now := o.collect(t)
	now.require(t, observer.EventLoopTasksInstrument, ofLoop("lo\uFFFDop"))
	now.require(t, observer.RequestsCancelledInstrument,
		attribute.String("http.route", "/ro\uFFFDute"), attribute.String("nemo.gym.request.phase", "before_response"))

	var all metricdata.ResourceMetrics
	require.NoError(t, o.reader.Collect(t.Context(), &all))
	collector := otlptest.Start(t, otlptest.HTTP)
	exporter, err := otlpmetrichttp.New(t.Context(), otlpmetrichttp.WithEndpointURL(collector.Endpoint()+"/v1/metrics"))
	require.NoError(t, err)
	assert.NoError(t, exporter.Export(t.Context(), &all))
	collector.WaitForMetric(t, observer.RequestsCancelledInstrument)
}

func TestProviderThatCannotBeUsedIsShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shutDown := false
		o := observer.Start(t.Context(), "test", open(brokenProvider{}, func(context.Context) error {
			shutDown = true
			return nil
		}, nil))
		require.Error(t, o.Err())
		synctest.Wait()
		assert.True(t, shutDown)
	})
}

func TestRootImportsTheAPIOnly(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "go.opentelemetry.io/otel/metric\n")
	for dependency := range strings.Lines(string(output)) {
		for _, unwanted := range []string{"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters", "go.opentelemetry.io/proto", "google.golang.org/", scope + "/export"} {
			assert.False(t, strings.HasPrefix(dependency, unwanted), "the root package imports %s", dependency)
		}
	}
}
