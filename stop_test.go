package observer_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/testlog"
)

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
