package observer_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/testlog"
)

// hanging is a provider that hangs in one place until it is let go.
type hanging struct {
	*sdkmetric.MeterProvider
	place   string
	release <-chan struct{}
}

func (h *hanging) at(place string) {
	if place == h.place {
		<-h.release
	}
}

func (h *hanging) Meter(name string, options ...metric.MeterOption) metric.Meter {
	h.at("Meter")
	return hangingMeter{h.MeterProvider.Meter(name, options...), h}
}

func (h *hanging) ForceFlush(ctx context.Context) error {
	h.at("ForceFlush")
	return h.MeterProvider.ForceFlush(ctx)
}

func (h *hanging) Shutdown(ctx context.Context) error {
	h.at("Shutdown")
	return h.MeterProvider.Shutdown(ctx)
}

type hangingMeter struct {
	metric.Meter
	of *hanging
}

func (m hangingMeter) Float64Histogram(name string, options ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	h, err := m.Meter.Float64Histogram(name, options...)
	return hangingHistogram{h, m.of}, err
}

func (m hangingMeter) Int64ObservableGauge(name string, options ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	m.of.at("an instrument")
	return m.Meter.Int64ObservableGauge(name, options...)
}

func (m hangingMeter) RegisterCallback(f metric.Callback, observables ...metric.Observable) (metric.Registration, error) {
	m.of.at("RegisterCallback")
	r, err := m.Meter.RegisterCallback(f, observables...)
	return hangingRegistration{r, m.of}, err
}

type hangingHistogram struct {
	metric.Float64Histogram
	of *hanging
}

func (h hangingHistogram) Record(ctx context.Context, value float64, options ...metric.RecordOption) {
	h.of.at("Record")
	h.Float64Histogram.Record(ctx, value, options...)
}

type hangingRegistration struct {
	metric.Registration
	of *hanging
}

func (r hangingRegistration) Unregister() error {
	r.of.at("Unregister")
	return r.Registration.Unregister()
}

// goroutinesHere returns the goroutines that are in this package's code.
func goroutinesHere() (here []string) {
	buffer := make([]byte, 4<<20)
	for g := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		for _, room := range []string{"observer.(*session)", "observer.(*loop)", "lag.(*Loop)", "observer.(*handle)", "internal/ring.", "survive.Apart[", "observer.setUp", "evidence.(*Capture)"} {
			if strings.Contains(g, room) {
				here = append(here, g)
				break
			}
		}
	}
	return here
}

func TestNothingRemainsOfAProviderThatHungOnceItComesRound(t *testing.T) {
	for _, place := range []string{"Meter", "an instrument", "RegisterCallback", "Record", "ForceFlush", "Unregister", "Shutdown"} {
		for _, letGo := range []string{"before Stop", "after Stop"} {
			if letGo == "after Stop" && !slices.Contains([]string{"an instrument", "Record", "ForceFlush"}, place) {
				continue // each takes 3 s
			}
			t.Run(place+", "+letGo, func(t *testing.T) {
				release := make(chan struct{})
				let := sync.OnceFunc(func() { close(release) })
				defer let()
				reader := sdkmetric.NewManualReader()
				provider := &hanging{providerOf(reader), place, release}
				var o *observer.Observer
				within(t, startBound, "Start", func() {
					o = observer.Start(t.Context(), "test", observer.WithSampleInterval(time.Millisecond),
						observer.WithLogger(new(testlog.Log).Logger()), opened(provider, provider.Shutdown))
				})
				require.NoError(t, o.Err())
				metrics := observer.Driver()
				metrics.Offer(1)
				metrics.RecordMaterialize(t.Context(), time.Second)
				if letGo == "before Stop" {
					let()
					// What is made late records, too.
					require.Eventually(t, func() bool {
						metrics.RecordMaterialize(context.Background(), time.Second)
						values, err := gather(reader)
						_, found := values.value(observer.DriverMaterializeInstrument)
						return err == nil && found
					}, 10*time.Second, 5*time.Millisecond)
				}
				within(t, stopBound, "Stop", o.Stop)
				assert.False(t, observes())
				if letGo == "after Stop" {
					assert.NotEmpty(t, goroutinesHere(), "what hangs is seen")
				}
				let()
				assert.Eventually(t, func() bool { return len(goroutinesHere()) == 0 }, 10*time.Second, 5*time.Millisecond,
					"%v", strings.Join(goroutinesHere(), "\n\n"))
			})
		}
	}
}

// A flush that never returns keeps neither the callback registered nor the provider
// from being shut down.
func TestFlushThatHangsLeavesNoStepOut(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	reader := sdkmetric.NewManualReader()
	log := new(testlog.Log)
	shutdown := make(chan struct{})
	provider := &hanging{providerOf(reader), "ForceFlush", release}
	o := observer.Start(t.Context(), "test", observer.WithLogger(log.Logger()), opened(provider, func(ctx context.Context) error {
		close(shutdown)
		return provider.Shutdown(ctx)
	}))
	require.NoError(t, o.Err())
	within(t, stopBound, "Stop", o.Stop)
	within(t, stopBound, "the shutdown", func() { <-shutdown })
	assert.NotEmpty(t, log.Of("flushing the provider"))
}

// Handles of several loops begin and end in any order while readers collect, requests
// are served and rollouts run.
func TestTotalsAndGaugesHoldWhileHandlesComeAndGo(t *testing.T) {
	cumulative, delta := sdkmetric.NewManualReader(), deltaReader()
	provider := providerOf(cumulative, delta)
	keep := observer.Start(t.Context(), "keep", observer.WithMeterProvider(provider), observer.WithSampleInterval(time.Millisecond), observer.WithTaskCount(true))
	defer keep.Stop()
	steady()
	before := observer.Driver().Counts()
	sum := 0.0
	add := func() {
		if value, ok := collect(t, delta).value(observer.DriverOfferedInstrument); ok {
			sum += value
		}
	}
	observer.Driver().Offer(1)
	add()
	first := sum
	admission := observer.NewMeteredAdmission(nil)
	var stop atomic.Bool
	var work, handles sync.WaitGroup
	for range 2 {
		work.Go(func() {
			for !stop.Load() {
				d := observer.Driver()
				d.Offer(1)
				_ = d.CountResident(func() error {
					return admission.Do(context.Background(), func(context.Context) error { return nil })
				})
				runtime.Gosched()
			}
		})
	}
	for i := range 4 {
		handles.Go(func() {
			for range 15 {
				ctx, cancel := context.WithCancel(context.Background())
				o := observer.Start(ctx, "loop", observer.WithSampleInterval(time.Millisecond), observer.WithTaskCount(true))
				if i%2 == 0 {
					cancel()
				}
				o.Stop()
				cancel()
			}
		})
	}
	done := make(chan struct{})
	go func() { handles.Wait(); close(done) }()
	for last, over := 0.0, false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		now := collect(t, cumulative)
		offered := now.require(t, observer.DriverOfferedInstrument)
		assert.GreaterOrEqual(t, offered, last)
		last = offered
		for _, gauge := range []string{observer.DriverResidentInstrument, observer.DriverActiveInstrument} {
			assert.GreaterOrEqual(t, now.require(t, gauge), 0.0)
		}
		add()
	}
	stop.Store(true)
	work.Wait()
	add()
	after := observer.Driver().Counts()
	assert.Equal(t, before.Resident, after.Resident)
	assert.Equal(t, before.Active, after.Active)
	assert.EqualValues(t, after.Offered-before.Offered-1, sum-first, "deltas add up to the total")
}
