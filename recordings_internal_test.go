package observer

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/gym-observer/observer/internal/record"
	"github.com/gym-observer/observer/internal/ring"
)

// hearer is a provider that calls a function with each value of a histogram, and
// does nothing else.
type hearer struct {
	noop.MeterProvider
	heard func(name string, value float64)
}

func (h hearer) Meter(string, ...metric.MeterOption) metric.Meter {
	return hearingMeter{heard: h.heard}
}

type hearingMeter struct {
	noop.Meter
	heard func(name string, value float64)
}

func (m hearingMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return hearing{heard: func(value float64) { m.heard(name, value) }}, nil
}

func (m hearingMeter) Int64Histogram(name string, _ ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	return hearingCounts{heard: func(value int64) { m.heard(name, float64(value)) }}, nil
}

type hearingCounts struct {
	noop.Int64Histogram
	heard func(value int64)
}

func (h hearingCounts) Record(_ context.Context, value int64, _ ...metric.RecordOption) {
	h.heard(value)
}

// recorderTo returns a recorder whose inputs' durations a function hears.
func recorderTo(t *testing.T, heard func(value float64)) *recorder {
	to := newRecorder(&histograms{materialize: record.Float{To: hearing{heard: heard}}})
	t.Cleanup(func() { to.Stop(time.Now().Add(10 * time.Second)) })
	return to
}

func TestStopWaitsForWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 100 * time.Millisecond
		heard := 0 // on the ring's goroutine, which has ended at the end
		m := manually(t, WithMeterProvider(hearer{heard: func(name string, value float64) {
			if name == DriverMaterializeInstrument {
				time.Sleep(each) // a slow provider
				heard++
			}
		}}))
		Driver().Offer(1)
		for range 5 {
			Driver().RecordMaterialize(context.Background(), time.Millisecond)
		}
		began := time.Now()
		m.holder.Release()
		assert.Equal(t, 5, heard)
		assert.GreaterOrEqual(t, time.Since(began), 5*each)
		assert.LessOrEqual(t, time.Since(began), 3*time.Second)
	})
}

func TestAProviderThatHangsHoldsUpNeitherSamplersNorRollouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		counts := make(map[string]*atomic.Int64)
		for _, name := range []string{DriverMaterializeInstrument, EventLoopLagInstrument} {
			counts[name] = new(atomic.Int64)
		}
		m := manually(t, WithSampleInterval(time.Second), WithMeterProvider(hearer{heard: func(name string, _ float64) {
			<-free
			if count := counts[name]; count != nil {
				count.Add(1)
			}
		}}))
		Driver().Offer(1)
		began := time.Now()
		for range ring.Size {
			Driver().RecordMaterialize(context.Background(), time.Millisecond)
		}
		for range 2 * ring.Size { // two values each: more than there is room for
			m.loop.sample(time.Now())
		}
		assert.Zero(t, time.Since(began), "nobody has waited")
		assert.Len(t, m.log.Of("cause=recording samples"), 1, "it is said once that samples are lost")

		close(free)
		require.True(t, m.sampler.recorder.Load().PassOn(time.Minute))
		assert.EqualValues(t, ring.Size, counts[DriverMaterializeInstrument].Load(), "none of a rollout's is lost")
		lags := counts[EventLoopLagInstrument].Load()
		assert.GreaterOrEqual(t, lags, int64(ring.Size/2))
		assert.LessOrEqual(t, lags, int64(ring.Size))

		m.loop.sample(time.Now())
		require.True(t, m.sampler.recorder.Load().PassOn(time.Minute))
		assert.EqualValues(t, lags+1, counts[EventLoopLagInstrument].Load(), "samples go on")
	})
}

func TestStopDoesNotWaitForAProviderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		m := manually(t, WithMeterProvider(hearer{heard: func(string, float64) { <-free }}))
		Driver().Offer(1)
		for range ring.Size {
			Driver().RecordMaterialize(context.Background(), time.Millisecond)
			m.loop.sample(time.Now())
		}
		began := time.Now()
		m.holder.Release()
		assert.LessOrEqual(t, time.Since(began), 3*time.Second)
		close(free)
	})
}

// With one ring for both, a busy driver would leave the samplers no room.
func TestABusyDriverLeavesSamplersTheirRoom(t *testing.T) {
	free := make(chan struct{})
	heard := 0
	to := recorderTo(t, func(float64) { <-free; heard++ })
	for range ring.Size {
		to.Duration(context.Background(), &to.materialize, time.Millisecond)
	}
	assert.EqualValues(t, ring.Size, to.Rollouts.Waiting())
	assert.True(t, to.Samples.TryPut(record.OfFloat(context.Background(), &to.lag, 1, nil)))
	close(free)
	assert.True(t, to.PassOn(10*time.Second))
	assert.Equal(t, ring.Size, heard)
}

func TestRecordingsGoOnAfterAProviderThatExits(t *testing.T) {
	var heard atomic.Int64
	to := recorderTo(t, func(value float64) {
		if value == 0 {
			runtime.Goexit()
		}
		heard.Add(1)
	})
	for turn := range 3 {
		to.Duration(context.Background(), &to.materialize, 0)
		to.Duration(context.Background(), &to.materialize, time.Millisecond)
		require.True(t, to.PassOn(10*time.Second), "after exit %d", turn+1)
		assert.EqualValues(t, turn+1, heard.Load())
	}
}

func TestRecordingsGoOnAfterAProviderThatPanics(t *testing.T) {
	heard := 0
	m := manually(t, WithMeterProvider(hearer{heard: func(name string, value float64) {
		if name != DriverMaterializeInstrument {
			return
		}
		if heard++; value == 0 {
			panic("thrown by the provider")
		}
	}}))
	Driver().Offer(1)
	for range 3 {
		Driver().RecordMaterialize(context.Background(), 0)
		Driver().RecordMaterialize(context.Background(), time.Millisecond)
	}
	require.True(t, m.sampler.recorder.Load().PassOn(10*time.Second))
	assert.Equal(t, 6, heard)
	assert.Len(t, m.log.Of("thrown by the provider"), 1)
}

func TestWhatIsNegativeIsNotRecorded(t *testing.T) {
	to := recorderTo(t, func(value float64) { t.Errorf("heard %g", value) })
	to.Duration(context.Background(), &to.materialize, -1)
	to.Count(context.Background(), &to.turns, -1)
	assert.Zero(t, to.Rollouts.Waiting())
	assert.True(t, to.PassOn(10*time.Second))
}
