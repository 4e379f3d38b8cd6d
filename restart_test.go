package observer_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
)

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
