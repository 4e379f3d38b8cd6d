package observer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
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

// within runs call, which must be done after bound by the real clock.
func within(t testing.TB, bound time.Duration, what string, call func()) (took time.Duration) {
	t.Helper()
	began := time.Now()
	call()
	took = time.Since(began)
	assert.Less(t, took, bound, "%s took too long", what)
	return took
}

// observes tells whether anything observes this process.
func observes() bool { return observer.Requests() != nil }

var errOfTest = errors.New("refused by the test")

// Providers that go wrong where the observer calls them.
type (
	brokenProvider struct {
		metric.MeterProvider
		meter func() metric.Meter
	}
	brokenMeter struct {
		metric.Meter
		register func() (metric.Registration, error)
	}
)

func (p brokenProvider) Meter(string, ...metric.MeterOption) metric.Meter { return p.meter() }

func (m brokenMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return m.register()
}

func open(provider metric.MeterProvider, shutdown func(context.Context) error, err error) observer.Option {
	return observer.WithProvider(func(context.Context, string, observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
		return provider, shutdown, err
	})
}

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

func TestStopTakesALastSampleFlushesUnregistersAndShutsDown(t *testing.T) {
	for _, how := range []struct {
		name string
		own  bool // opened for WithProvider
		want []string
	}{
		{"a provider of its own", true, []string{"register", "flush", "unregister", "shutdown"}},
		{"a provider of the application's", false, []string{"register", "flush", "unregister"}},
	} {
		t.Run(how.name, func(t *testing.T) {
			reader := sdkmetric.NewManualReader()
			provider := &hooked{MeterProvider: providerOf(reader)}
			var atFlush exported
			provider.onFlush = func(context.Context) error {
				atFlush = collect(t, reader)
				return nil
			}
			option := observer.WithMeterProvider(provider)
			if how.own {
				option = opened(provider, provider.Shutdown)
			}
			ctx, cancel := context.WithCancel(t.Context())
			o := observer.Start(ctx, "test", option, observer.WithSampleInterval(time.Hour), observer.WithTaskCount(true))
			runtime.GC()
			var wg sync.WaitGroup
			quit := make(chan struct{})
			for range 10 {
				wg.Go(func() { <-quit })
			}
			goroutines := runtime.NumGoroutine()
			cancel() // as a Stop
			o.Stop()
			close(quit)
			wg.Wait()
			assert.Equal(t, how.want, provider.callsSoFar())
			assert.GreaterOrEqual(t, atFlush.require(t, observer.GCPauseInstrument, generation), 2.0, "pauses of the last sample")
			assert.InDelta(t, goroutines, atFlush.require(t, observer.EventLoopTasksInstrument, ofLoop("test")), 5, "goroutines of the last sample")
			assert.NotContains(t, atFlush, observer.EventLoopLagInstrument, "nothing was due")
			assert.ErrorIs(t, o.Err(), observer.ErrStopped)
		})
	}
}

func untilEnd(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestStopReturnsInTimeWhateverTheProviderDoes(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	hang := func() error { <-release; return nil }
	ignoring := func(context.Context) error { return hang() }
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, test := range []struct {
		name            string
		flush, shutdown func(context.Context) error
		unregister      func() error
	}{
		{name: "flush obeys its context", flush: untilEnd},
		{name: "flush ignores its context", flush: ignoring},
		{name: "shutdown obeys its context", shutdown: untilEnd},
		{name: "shutdown ignores its context", shutdown: ignoring},
		{name: "unregister hangs", unregister: hang},
	} {
		reader := sdkmetric.NewManualReader()
		provider := &hooked{MeterProvider: providerOf(reader), onFlush: test.flush, onUnregister: test.unregister}
		o := observer.Start(t.Context(), "test", opened(provider, test.shutdown), observer.WithLogger(slog.New(slog.DiscardHandler)))
		require.NoError(t, o.Err())
		wg.Go(func() {
			within(t, stopBound, "Stop: "+test.name, o.Stop)
			within(t, startBound, "a second Stop: "+test.name, o.Stop)
			assert.Empty(t, observables(collect(t, reader)), "%s: a callback that is still registered observes nothing", test.name)
		})
		// The next one starts while this one is stuck: they are nothing to each other.
		require.Eventually(t, func() bool { return !observes() }, startBound, time.Millisecond, test.name)
	}
}

func TestStopTakesEachStepWhateverBecameOfTheOneBefore(t *testing.T) {
	for name, fail := range map[string]func() error{
		"each refuses": func() error { return errOfTest },
		"each panics":  func() error { panic(errOfTest.Error()) },
	} {
		t.Run(name, func(t *testing.T) {
			reader := sdkmetric.NewManualReader()
			provider := &hooked{
				MeterProvider: providerOf(reader),
				onFlush:       func(context.Context) error { return fail() },
				onUnregister:  fail,
			}
			var log testlog.Log
			o := observer.Start(t.Context(), "test", observer.WithLogger(log.Logger()), opened(provider, func(context.Context) error {
				provider.called("shutdown")
				return fail()
			}))
			within(t, startBound, "Stop", o.Stop)
			assert.Equal(t, []string{"register", "flush", "unregister", "shutdown"}, provider.callsSoFar())
			assert.Len(t, log.Of(errOfTest.Error()), 3, "each failure is logged")
			assert.Empty(t, observables(collect(t, reader)), "a callback that stays registered observes nothing")
		})
	}
}

func TestProviderMayCallThePackageWhileItIsLetGoOf(t *testing.T) {
	provider := &hooked{MeterProvider: providerOf(sdkmetric.NewManualReader())}
	call := func() {
		inner := observer.Start(context.Background(), "inner", observer.WithMeterProvider(providerOf(sdkmetric.NewManualReader())))
		assert.NoError(t, inner.Err())
		inner.Stop()
	}
	provider.onFlush = func(context.Context) error { call(); return nil }
	provider.onUnregister = func() error { call(); return nil }
	o := observer.Start(t.Context(), "test", opened(provider, func(context.Context) error { call(); return nil }))
	within(t, startBound, "Stop", o.Stop)
}

// stuckHistogram is an instrument in which every recording hangs.
type stuckHistogram struct {
	metric.Float64Histogram
	release <-chan struct{}
}

func (h stuckHistogram) Record(context.Context, float64, ...metric.RecordOption) { <-h.release }

type stuckMeter struct {
	metric.Meter
	release <-chan struct{}
}

func (m stuckMeter) Float64Histogram(name string, options ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	h, err := m.Meter.Float64Histogram(name, options...)
	return stuckHistogram{h, m.release}, err
}

func TestStopReturnsWhileARecordingHangs(t *testing.T) {
	for name, interval := range map[string]time.Duration{"in a sample": time.Millisecond, "in the last sample": time.Hour} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			defer close(release)
			sdk := providerOf(sdkmetric.NewManualReader())
			o := observer.Start(t.Context(), "test", observer.WithSampleInterval(interval),
				observer.WithMeterProvider(brokenProvider{sdk, func() metric.Meter { return stuckMeter{sdk.Meter("stuck"), release} }}))
			require.NoError(t, o.Err())
			runtime.GC() // whose pauses the last sample records
			within(t, stopBound, "Stop", o.Stop)
			assert.False(t, observes(), "what does not hang has stopped")
		})
	}
}

// oddMeter has one histogram that does something of its own.
type oddMeter struct {
	metric.Meter
	name   string
	record func()
}

func (m oddMeter) Float64Histogram(name string, options ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	h, err := m.Meter.Float64Histogram(name, options...)
	if name == m.name {
		h = oddHistogram{h, m.record}
	}
	return h, err
}

type oddHistogram struct {
	metric.Float64Histogram
	record func()
}

func (h oddHistogram) Record(context.Context, float64, ...metric.RecordOption) { h.record() }

// A provider that hangs in one recording, or leaves it in a way of its own, loses
// what goes there and nothing else.
func TestRestIsExportedAndTheProviderShutDownWhateverARecordingDoes(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for name, record := range map[string]func(){
		"hangs":  func() { <-release },
		"exits":  runtime.Goexit,
		"panics": func() { panic("recorded") },
	} {
		t.Run(name, func(t *testing.T) {
			reader := sdkmetric.NewManualReader()
			sdk := providerOf(reader)
			shut := make(chan struct{})
			o := observer.Start(t.Context(), "test", observer.WithSampleInterval(time.Millisecond),
				opened(brokenProvider{sdk, func() metric.Meter {
					return oddMeter{sdk.Meter(scope), observer.EventLoopLagInstrument, record}
				}}, func(context.Context) error { close(shut); return nil }))
			require.NoError(t, o.Err())
			time.Sleep(50 * time.Millisecond)
			for range 2 {
				within(t, 10*time.Second, "a collection", func() {
					_, exported := collect(t, reader).value(observer.ProcessThreadCountInstrument)
					assert.True(t, exported)
				})
			}
			within(t, stopBound, "Stop", o.Stop)
			<-shut
		})
	}
}

func TestH39ProviderShutDownFirst(t *testing.T) {
	o := start(t, "test")
	require.NoError(t, o.provider.Shutdown(t.Context()))
	within(t, stopBound, "the first Stop", o.Stop)
	within(t, startBound/2, "the second Stop", o.Stop)
	counts := observer.Requests()
	counts.CountResponse(200)
	counts.Begin()()
}

// slowFlush is a provider whose first flush begins and waits for the test.
func slowFlush(readers ...sdkmetric.Reader) (provider *hooked, flushing, release chan struct{}) {
	flushing, release = make(chan struct{}), make(chan struct{})
	provider = &hooked{MeterProvider: providerOf(readers...)}
	var once sync.Once
	provider.onFlush = func(context.Context) error {
		once.Do(func() {
			close(flushing)
			<-release
		})
		return nil
	}
	return provider, flushing, release
}

func TestStopWaitsForTheFlushOfAnother(t *testing.T) {
	for name, first := range map[string]func(o, other *observer.Observer, cancel func()){
		"of a Stop":           func(o, _ *observer.Observer, _ func()) { o.Stop() },
		"of the context":      func(_, _ *observer.Observer, cancel func()) { cancel() },
		"of another's Stop":   func(o, other *observer.Observer, _ func()) { o.Stop(); other.Stop() },
		"of another's, later": func(o, other *observer.Observer, _ func()) { o.Stop(); time.Sleep(time.Hour); other.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reader := sdkmetric.NewManualReader()
				provider, flushing, release := slowFlush(reader)
				flushed := false
				flush := provider.onFlush
				var atFlush exported
				provider.onFlush = func(ctx context.Context) error {
					defer func() { flushed, atFlush = true, collect(t, reader) }()
					return flush(ctx)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				o := observer.Start(ctx, "test", observer.WithMeterProvider(provider), observer.WithSampleInterval(time.Hour))
				other := o
				if strings.Contains(name, "another's") {
					other = observer.Start(t.Context(), "other", observer.WithSampleInterval(time.Hour))
				}
				go first(o, other, cancel)
				<-flushing

				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() {
						o.Stop()
						assert.True(t, flushed, "Stop returned before the last export")
					})
				}
				synctest.Wait()
				time.Sleep(2 * time.Second)
				close(release)
				began := time.Now()
				wg.Wait()
				assert.Zero(t, time.Since(began))
				assert.NotEmpty(t, observables(atFlush), "the last export has everything")
				o.Stop()
				assert.Zero(t, time.Since(began), "one after it returns at once")
			})
		})
	}
}

func TestConcurrentStopsShareOneBound(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	provider := &hooked{
		MeterProvider: providerOf(sdkmetric.NewManualReader()),
		onFlush:       func(context.Context) error { <-release; return nil },
	}
	ctx, cancel := context.WithCancel(t.Context())
	o := observer.Start(ctx, "test", observer.WithMeterProvider(provider))
	other := observer.Start(t.Context(), "other")
	within(t, stopBound, "all of them", func() {
		var wg sync.WaitGroup
		cancel()
		for range 4 {
			wg.Go(o.Stop)
			wg.Go(other.Stop)
		}
		wg.Wait()
	})
}

// A bubble ends only when every goroutine in it has.
func TestNoGoroutineRemainsAfterStop(t *testing.T) {
	for name, use := range map[string]func(t *testing.T){
		"stopped": func(t *testing.T) {
			start(t, "test", observer.WithSampleInterval(time.Millisecond)).Stop()
		},
		"stopped after samples": func(t *testing.T) {
			o := start(t, "test", observer.WithSampleInterval(time.Millisecond))
			time.Sleep(time.Second)
			o.Stop()
		},
		"context ended": func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			observer.Start(ctx, "test", observer.WithMeterProvider(providerOf(sdkmetric.NewManualReader())))
			cancel()
		},
		"off":          func(t *testing.T) { observer.Start(t.Context(), "test") },
		"open failed":  func(t *testing.T) { observer.Start(t.Context(), "test", open(nil, nil, errOfTest)) },
		"setup failed": func(t *testing.T) { observer.Start(t.Context(), "test", open(brokenProvider{}, nil, nil)) },
		"context ended before": func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			observer.Start(ctx, "test", observer.WithMeterProvider(providerOf(sdkmetric.NewManualReader())))
		},
		"released": func(t *testing.T) {
			process, err := observer.Acquire(t.Context(), observer.WithMeterProvider(providerOf(sdkmetric.NewManualReader())))
			require.NoError(t, err)
			process.Release()
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, use) })
	}
}

// watchedContext counts who waits for its end, as context.AfterFunc lets it.
type watchedContext struct {
	context.Context
	watchers atomic.Int64
}

func (*watchedContext) Done() <-chan struct{} { return make(chan struct{}) }

func (c *watchedContext) AfterFunc(func()) (stop func() bool) {
	c.watchers.Add(1)
	return func() bool {
		c.watchers.Add(-1)
		return true
	}
}

// One that lives as long as the process would otherwise keep every observer.
func TestStopLetsGoOfTheContext(t *testing.T) {
	ctx := &watchedContext{Context: t.Context()}
	o := observer.Start(ctx, "test", observer.WithMeterProvider(providerOf(sdkmetric.NewManualReader())))
	require.NoError(t, o.Err())
	assert.EqualValues(t, 1, ctx.watchers.Load())
	o.Stop()
	assert.Zero(t, ctx.watchers.Load())
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

// exceptions returns what the readers export of one counter.
func exceptions(t testing.TB, reader *sdkmetric.ManualReader) (float64, bool) {
	return collect(t, reader).value(observer.RequestsUnhandledExceptionsInstrument)
}

func TestStartWhileAStopFlushes(t *testing.T) {
	for name, sameProvider := range map[string]bool{"over the same provider": true, "over another provider": false} {
		t.Run(name, func(t *testing.T) {
			cumulative, delta := sdkmetric.NewManualReader(), deltaReader()
			provider, flushing, release := slowFlush(cumulative, delta)
			first := observer.Start(t.Context(), "first", observer.WithMeterProvider(provider))
			require.NoError(t, first.Err())
			observer.Requests().CountUnhandledException()
			total := float64(observer.Requests().Counts().UnhandledExceptions)
			value, _ := exceptions(t, delta)
			assert.Equal(t, total, value)
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				first.Stop()
			}()
			<-flushing

			otherCumulative, otherDelta := cumulative, delta
			next := observer.WithMeterProvider(provider)
			if !sameProvider {
				otherCumulative, otherDelta = sdkmetric.NewManualReader(), deltaReader()
				next = observer.WithMeterProvider(providerOf(otherCumulative, otherDelta))
			}
			second := observer.Start(t.Context(), "second", next)
			defer second.Stop()
			require.NoError(t, second.Err())
			observer.Requests().CountUnhandledException()
			value, _ = exceptions(t, otherCumulative)
			assert.Equal(t, total+1, value)
			if sameProvider {
				value, _ = exceptions(t, delta)
				assert.Equal(t, 1.0, value)
			} else {
				value, _ = exceptions(t, otherDelta)
				assert.Equal(t, total+1, value)
				value, _ = exceptions(t, cumulative)
				assert.Equal(t, total+1, value, "the first provider's last export goes on")
				value, _ = exceptions(t, delta)
				assert.Equal(t, 1.0, value)
			}
			close(release)
			<-stopped
			assert.NoError(t, second.Err())
			observer.Requests().CountUnhandledException()
			value, _ = exceptions(t, otherCumulative)
			assert.Equal(t, total+2, value)
			value, _ = exceptions(t, otherDelta)
			assert.Equal(t, 1.0, value)
			if !sameProvider {
				_, there := exceptions(t, cumulative)
				assert.False(t, there, "unregistered")
			}
		})
	}
}

// Making the instruments takes time, and a collection can fall into it.
func TestDeltaReaderThatCollectsWhileAStartTakesOverFromAStop(t *testing.T) {
	delta := deltaReader()
	provider, flushing, release := slowFlush(delta)
	first := observer.Start(t.Context(), "first", observer.WithMeterProvider(provider))
	observer.Requests().CountUnhandledException()
	total := float64(observer.Requests().Counts().UnhandledExceptions)
	value, _ := exceptions(t, delta)
	require.Equal(t, total, value)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		first.Stop()
	}()
	<-flushing
	sum := 0.0
	look := func() {
		value, _ := exceptions(t, delta)
		sum += value
	}
	provider.onMeter = look
	second := observer.Start(t.Context(), "second", observer.WithMeterProvider(provider))
	defer second.Stop()
	look()
	close(release)
	<-stopped
	look()
	assert.Zero(t, sum, "the total was exported once more")
}

func TestStartAndStopFromManyGoroutines(t *testing.T) {
	const rounds, goroutines = 200, 6
	cumulative, delta := sdkmetric.NewManualReader(), deltaReader()
	provider := observer.WithMeterProvider(providerOf(cumulative, delta))
	o := observer.Start(t.Context(), "before", provider)
	observer.Requests().CountUnhandledException()
	total := float64(observer.Requests().Counts().UnhandledExceptions)
	o.Stop()

	done := make(chan struct{})
	var readers sync.WaitGroup
	for _, reader := range []*sdkmetric.ManualReader{cumulative, delta} {
		readers.Go(func() {
			often := time.NewTicker(time.Millisecond)
			defer often.Stop()
			for {
				select {
				case <-done:
					return
				case <-often.C:
				}
				// A delta reader that collected while nothing ran sees the whole once more.
				if value, ok := exceptions(t, reader); ok && value != total && (reader == cumulative || value != 0) {
					t.Errorf("a reader saw %v of %v", value, total)
					return
				}
			}
		})
	}
	for range rounds {
		var wg sync.WaitGroup
		for i := range goroutines {
			wg.Go(func() {
				switch o := observer.Start(t.Context(), fmt.Sprint("loop", i%3), provider, observer.WithSampleInterval(time.Millisecond), observer.WithTaskCount(true)); {
				case i%2 == 0:
					o.Stop()
					o.Stop()
				default:
					process, err := observer.Acquire(t.Context(), provider)
					assert.NoError(t, err)
					o.Stop()
					process.Release()
				}
			})
		}
		wg.Wait()
		require.False(t, observes(), "the last one out has ended it")
	}
	close(done)
	readers.Wait()
	_, there := exceptions(t, cumulative)
	assert.False(t, there)
}

func TestNothingIsExportedWhileNothingRuns(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := providerOf(reader)
	assert.False(t, observes())
	assert.True(t, observer.Driver() == nil)
	assert.Empty(t, collect(t, reader))

	o := observer.Start(t.Context(), "test", observer.WithMeterProvider(provider), observer.WithSampleInterval(time.Millisecond))
	driver := observer.Driver()
	driver.Offer(1)
	driver.RecordMaterialize(t.Context(), time.Second)
	require.Eventually(t, func() bool {
		_, sampled := collect(t, reader).value(observer.EventLoopLagInstrument, ofLoop("test"))
		return sampled
	}, 10*time.Second, time.Millisecond)
	o.Stop()

	before := collect(t, reader)
	driver.RecordMaterialize(t.Context(), time.Second)
	driver.RecordOutputWrite(t.Context(), time.Second, 1)
	driver.RecordRollout(t.Context(), observer.RolloutSize{Turns: 1})
	runtime.GC()
	after := collect(t, reader)
	for name := range after {
		assert.Equal(t, before.points(name), after.points(name), "%s does not grow", name)
	}
	assert.Empty(t, observables(after), "no observable has a point")
	assert.False(t, observes())
	assert.True(t, observer.Driver() == nil)
}

func TestTotalsLiveAsLongAsTheProcess(t *testing.T) {
	o := start(t, "first")
	observer.Requests().CountResponse(299)
	observer.Driver().Offer(3)
	status := attribute.Int("http.response.status_code", 299)
	before := o.collect(t)
	o.Stop()
	observer.Requests().CountResponse(299) // on nil: while nothing observes, nothing counts

	o = start(t, "second")
	after := o.collect(t)
	assert.Equal(t, before.require(t, observer.ResponsesInstrument, status), after.require(t, observer.ResponsesInstrument, status))
	assert.Equal(t, before.require(t, observer.DriverOfferedInstrument), after.require(t, observer.DriverOfferedInstrument))
	for _, name := range []string{observer.GCCollectionsInstrument, observer.GCCollectedInstrument, observer.GCUncollectableInstrument} {
		assert.GreaterOrEqual(t, after.require(t, name, generation), before.require(t, name, generation), name)
	}
	for _, mode := range []string{"user", "system"} {
		mode := attribute.String("cpu.mode", mode)
		assert.GreaterOrEqual(t, after.require(t, observer.ProcessCPUTimeInstrument, mode), before.require(t, observer.ProcessCPUTimeInstrument, mode))
	}
}

// The SDK's limit, which the documentation of Stop names.
func TestDeltaReaderThatCollectsWhileNothingRunsSeesTheTotalsOnceMore(t *testing.T) {
	delta := deltaReader()
	provider := observer.WithMeterProvider(providerOf(delta))
	for _, collectsBetween := range []bool{false, true} {
		o := observer.Start(t.Context(), "first", provider)
		observer.Requests().CountUnhandledException()
		total := float64(observer.Requests().Counts().UnhandledExceptions)
		collect(t, delta)
		o.Stop()
		if collectsBetween {
			assert.Empty(t, observables(collect(t, delta)))
		}
		o = observer.Start(t.Context(), "second", provider)
		value, _ := exceptions(t, delta)
		if collectsBetween {
			assert.Equal(t, total, value)
		} else {
			assert.Zero(t, value)
		}
		o.Stop()
	}
}

func TestWhatStraddlesAStopMovesItsGaugeByOne(t *testing.T) {
	gauges := []string{observer.RequestsInFlightInstrument, observer.OutboundInFlightInstrument, observer.DriverResidentInstrument}
	values := func(e exported) (now []float64) {
		for _, name := range gauges {
			now = append(now, e.require(t, name))
		}
		return now
	}
	o := start(t, "first")
	observer.Driver().Offer(1)
	before := values(o.collect(t))
	ends := []func(){observer.Requests().Begin(), observer.Requests().BeginOutbound()}
	finish, resident := make(chan struct{}), make(chan struct{})
	driver := observer.Driver()
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = driver.CountResident(func() error { close(resident); <-finish; return nil })
	})
	<-resident
	o.Stop()

	// One that began while nothing observed was never counted, at either end.
	unobserved := []func(){observer.Requests().Begin(), observer.Requests().BeginOutbound()}
	finishUnobserved, residentUnobserved := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		_ = observer.Driver().CountResident(func() error { close(residentUnobserved); <-finishUnobserved; return nil })
	})
	<-residentUnobserved

	o = start(t, "second")
	for i, value := range values(o.collect(t)) {
		assert.Equal(t, before[i]+1, value, gauges[i])
	}
	for _, end := range append(ends, unobserved...) {
		end()
		end()
	}
	close(finish)
	close(finishUnobserved)
	wg.Wait()
	assert.Equal(t, before, values(o.collect(t)))
}

// row is what one signal looks like to who receives it.
type row struct {
	kind, number, unit string
	attributes         string // each key with the type of its value, sorted
	boundaries         []float64
}

// The whole export, as the contract has it. It is written out here and not taken
// from the catalogue, which it checks.
var (
	lagBoundaries      = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000}
	pauseBoundaries    = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000}
	durationBoundaries = []float64{0.1, 1, 10, 100, 500, 1000, 5000, 10000, 30000, 60000, 300000, 1800000}
	bytesBoundaries    = []float64{1000, 10000, 100000, 1000000, 10000000, 100000000}
	countBoundaries    = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096}
	queueBoundaries    = []float64{0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096}

	wholeExport = map[string]row{
		"gym.event_loop.lag_ms":                          {"histogram", "float64", "ms", "nemo.gym.event_loop=STRING", lagBoundaries},
		"gym.event_loop.tasks":                           {"gauge", "int64", "{task}", "nemo.gym.event_loop=STRING", nil},
		"gym.event_loop.run_queue":                       {"histogram", "int64", "{goroutine}", "nemo.gym.event_loop=STRING", queueBoundaries},
		"gym.gc.pause_duration_ms":                       {"histogram", "float64", "ms", "nemo.gym.gc.generation=INT64", pauseBoundaries},
		"gym.gc.collections_total":                       {"monotonic sum", "int64", "{collection}", "nemo.gym.gc.generation=INT64", nil},
		"gym.gc.collected_total":                         {"monotonic sum", "int64", "{object}", "nemo.gym.gc.generation=INT64", nil},
		"gym.gc.uncollectable_total":                     {"monotonic sum", "int64", "{object}", "nemo.gym.gc.generation=INT64", nil},
		"gym.gc.count":                                   {"gauge", "int64", "{object}", "nemo.gym.gc.generation=INT64", nil},
		"process.cpu.time":                               {"monotonic sum", "float64", "s", "cpu.mode=STRING", nil},
		"process.memory.usage":                           {"sum", "int64", "By", "", nil},
		"process.thread.count":                           {"sum", "int64", "{thread}", "", nil},
		"process.open_file_descriptor.count":             {"sum", "int64", "{file_descriptor}", "", nil},
		"process.unix.file_descriptor.count":             {"sum", "int64", "{file_descriptor}", "", nil},
		"gym.server.requests.in_flight":                  {"sum", "int64", "{request}", "", nil},
		"gym.server.requests.unhandled_exceptions_total": {"monotonic sum", "int64", "{exception}", "", nil},
		"gym.server.responses_total":                     {"monotonic sum", "int64", "{response}", "http.response.status_code=INT64", nil},
		"gym.server.requests.cancelled_total":            {"monotonic sum", "int64", "{request}", "http.route=STRING nemo.gym.request.phase=STRING", nil},
		"gym.http.client.requests.in_flight":             {"sum", "int64", "{request}", "", nil},
		"gym.driver.rollouts.offered_total":              {"monotonic sum", "int64", "{rollout}", "", nil},
		"gym.driver.rollouts.resident":                   {"sum", "int64", "{rollout}", "", nil},
		"gym.driver.rollouts.active":                     {"sum", "int64", "{rollout}", "", nil},
		"gym.driver.admission_duration_ms":               {"histogram", "float64", "ms", "", durationBoundaries},
		"gym.driver.admission_abandoned_total":           {"monotonic sum", "int64", "{rollout}", "", nil},
		"gym.driver.output_write_duration_ms":            {"histogram", "float64", "ms", "", durationBoundaries},
		"gym.driver.output_write_bytes":                  {"histogram", "int64", "By", "", bytesBoundaries},
		"gym.driver.materialize_duration_ms":             {"histogram", "float64", "ms", "", durationBoundaries},
		"gym.driver.rollout.input_items":                 {"histogram", "int64", "{item}", "", countBoundaries},
		"gym.driver.rollout.output_items":                {"histogram", "int64", "{item}", "", countBoundaries},
		"gym.driver.rollout.turns":                       {"histogram", "int64", "{turn}", "", countBoundaries},
		"gym.driver.rollout.tool_calls":                  {"histogram", "int64", "{call}", "", countBoundaries},
		"gym.load":                                       {"gauge", "float64", "{unit}", "nemo.gym.cause=STRING", nil},
		"gym.slow_time":                                  {"monotonic sum", "float64", "s", "nemo.gym.cause=STRING", nil},
		"gym.server.requests.oldest_age":                 {"gauge", "float64", "s", "", nil},
		"gym.driver.rollouts.oldest_age":                 {"gauge", "float64", "s", "", nil},
		"process.cpu.throttled_time":                     {"monotonic sum", "float64", "s", "", nil},
		"process.cpu.run_delay":                          {"monotonic sum", "float64", "s", "", nil},
	}

	// What not every platform can read; where it can, it looks like its row.
	elsewhereAbsent = []string{"process.open_file_descriptor.count", "process.unix.file_descriptor.count"} // other than Linux
	maybeAbsent     = []string{"process.cpu.throttled_time", "process.cpu.run_delay"}
)

// rowOf describes a metric as it was exported.
func rowOf(t testing.TB, m metricdata.Metrics) row {
	t.Helper()
	r := row{unit: m.Unit}
	sum := map[bool]string{true: "monotonic sum", false: "sum"}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		r.kind, r.number = sum[data.IsMonotonic], "int64"
	case metricdata.Sum[float64]:
		r.kind, r.number = sum[data.IsMonotonic], "float64"
	case metricdata.Gauge[int64]:
		r.kind, r.number = "gauge", "int64"
	case metricdata.Gauge[float64]:
		r.kind, r.number = "gauge", "float64"
	case metricdata.Histogram[int64]:
		r.kind, r.number, r.boundaries = "histogram", "int64", data.DataPoints[0].Bounds
	case metricdata.Histogram[float64]:
		r.kind, r.number, r.boundaries = "histogram", "float64", data.DataPoints[0].Bounds
	}
	for i, p := range (exported{"": m}).points("") {
		var keys []string
		for _, a := range p.attributes.ToSlice() { // sorted by key
			keys = append(keys, fmt.Sprintf("%s=%s", a.Key, a.Value.Type()))
		}
		attributes := strings.Join(keys, " ")
		if i > 0 {
			assert.Equal(t, r.attributes, attributes, "%s has points of two kinds", m.Name)
		}
		r.attributes = attributes
	}
	return r
}

// exercise makes every signal move, and lasts until collect has returned. It
// belongs in a bubble.
func exercise(t *testing.T, collect func()) {
	var wg sync.WaitGroup
	finish := make(chan struct{})
	wg.Go(func() { // a request in flight
		observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-finish })).
			ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	})
	driver := observer.Driver()
	driver.Offer(2)
	wg.Go(func() { // a rollout in flight
		assert.NoError(t, driver.CountResident(func() error { <-finish; return nil }))
	})
	assert.NoError(t, observer.NewMeteredAdmission(nil).Do(t.Context(), func(context.Context) error { return nil }))
	driver.RecordMaterialize(t.Context(), time.Millisecond)
	driver.RecordOutputWrite(t.Context(), time.Millisecond, 1000)
	driver.RecordRollout(t.Context(), observer.RolloutSize{InputItems: 1, OutputItems: 2, Turns: 3, ToolCalls: 4})
	for range 2 { // writes that hang are a verdict, which makes time slow
		end := driver.BeginOutputWrite(t.Context())
		defer end(1000)
	}
	observer.Requests().CountResponse(200)
	observer.Requests().CountCancellation("/exercise", true)
	runtime.GC()
	time.Sleep(5 * time.Second)
	collect()
	close(finish)
	wg.Wait()
}

func TestWholeExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := start(t, "test", observer.WithTaskCount(true), observer.WithSampleInterval(100*time.Millisecond), observer.WithWindow(time.Second))
		exercise(t, func() {
			var all metricdata.ResourceMetrics
			require.NoError(t, o.reader.Collect(t.Context(), &all))
			require.Len(t, all.ScopeMetrics, 1)
			assert.Equal(t, "github.com/gym-observer/observer", all.ScopeMetrics[0].Scope.Name)
			assert.NotEmpty(t, all.ScopeMetrics[0].Scope.Version)

			want := maps.Clone(wholeExport)
			got := make(map[string]row)
			for _, m := range all.ScopeMetrics[0].Metrics {
				got[m.Name] = rowOf(t, m)
				assert.NotEmpty(t, m.Description, m.Name)
			}
			for _, name := range maybeAbsent {
				if _, there := got[name]; !there {
					delete(want, name)
				}
			}
			for _, name := range elsewhereAbsent {
				if _, there := got[name]; !there && runtime.GOOS != "linux" {
					delete(want, name)
				}
			}
			assert.Equal(t, want, got)
		})
	})
}

func TestH44KindsAndUnits(t *testing.T) {
	e := start(t, "test").collect(t)
	for _, name := range []string{"process.cpu.time", "process.memory.usage", "process.thread.count", "process.open_file_descriptor.count", "process.unix.file_descriptor.count"} {
		if _, there := e[name]; !there && runtime.GOOS != "linux" && slices.Contains(elsewhereAbsent, name) {
			continue
		}
		assert.Equal(t, wholeExport[name], rowOf(t, e[name]), name)
	}
}

// slowLimit admits after a while.
type slowLimit time.Duration

func (l slowLimit) Acquire(context.Context, int64) error { time.Sleep(time.Duration(l)); return nil }
func (slowLimit) TryAcquire(int64) bool                  { return true }
func (slowLimit) Release(int64)                          {}

func TestH45HistogramBoundaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := start(t, "test")
		admission := observer.NewMeteredAdmission(slowLimit(20 * time.Millisecond))
		release, err := admission.Admit(t.Context())
		require.NoError(t, err)
		release()
		data, ok := o.collect(t)[observer.DriverAdmissionInstrument].Data.(metricdata.Histogram[float64])
		require.True(t, ok)
		require.Len(t, data.DataPoints, 1)
		p := data.DataPoints[0]
		assert.Equal(t, durationBoundaries, p.Bounds)
		assert.Equal(t, []uint64{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, p.BucketCounts, "in (10, 100]")
		assert.InDelta(t, 20, p.Sum, 1)
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
