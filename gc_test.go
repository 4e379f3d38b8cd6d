package observer_test

import (
	"bytes"
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
)

// runtimePauses is what the runtime itself says of its collector.
type runtimePauses struct {
	GC, Other, Cycles uint64        // pauses of the collector, other pauses, cycles
	Total             time.Duration // of the collector's
}

func pausesNow() runtimePauses {
	samples := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}, {Name: "/sched/pauses/total/other:seconds"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples)
	count := func(h *metrics.Float64Histogram) (n uint64) {
		for _, c := range h.Counts {
			n += c
		}
		return n
	}
	var stats debug.GCStats
	debug.ReadGCStats(&stats)
	return runtimePauses{
		GC:     count(samples[0].Value.Float64Histogram()),
		Other:  count(samples[1].Value.Float64Histogram()),
		Cycles: samples[2].Value.Uint64(),
		Total:  stats.PauseTotal,
	}
}

func (p runtimePauses) since(before runtimePauses) runtimePauses {
	return runtimePauses{p.GC - before.GC, p.Other - before.Other, p.Cycles - before.Cycles, p.Total - before.Total}
}

// onlyForced lets the collector run only when the test says so, until the test
// ends, so that every pause is known.
func onlyForced(t testing.TB) {
	t.Helper()
	percent := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
}

// collectGarbage forces cycles and returns what the runtime says of them.
func collectGarbage(cycles int) runtimePauses {
	before := pausesNow()
	for range cycles {
		runtime.GC()
	}
	return pausesNow().since(before)
}

func recordedPauses(reader *sdkmetric.ManualReader) distribution {
	return distributionOf(reader, observer.GCPauseInstrument)
}

func TestEveryPauseIsRecordedOnce(t *testing.T) {
	onlyForced(t)
	o := start(t, "gc", observer.WithSampleInterval(time.Millisecond))
	truth := collectGarbage(50)
	o.Stop()
	assert.Equal(t, truth.GC, recordedPauses(o.reader).Count)
	assert.GreaterOrEqual(t, truth.GC, 2*truth.Cycles)
}

func TestPausesSumUpToWithinAnEighth(t *testing.T) {
	onlyForced(t)
	o := start(t, "gc")
	truth := collectGarbage(50)
	o.Stop()
	assert.InEpsilon(t, truth.Total.Seconds()*1000, recordedPauses(o.reader).Sum, 0.125)
}

func TestPausesBearTheirGeneration(t *testing.T) {
	o := start(t, "gc")
	runtime.GC()
	o.Stop()
	assert.Positive(t, o.collect(t).require(t, observer.GCPauseInstrument, generation))
}

func TestPausesFromBeforeStartAreNotRecorded(t *testing.T) {
	onlyForced(t)
	collectGarbage(10)
	o := start(t, "gc")
	o.Stop()
	assert.Zero(t, recordedPauses(o.reader).Count)
}

func TestStopRecordsTheLastPauses(t *testing.T) {
	onlyForced(t)
	o := start(t, "gc") // whose sampler sleeps
	truth := collectGarbage(3)
	assert.Zero(t, recordedPauses(o.reader).Count)
	o.Stop()
	assert.Equal(t, truth.GC, recordedPauses(o.reader).Count)
}

func TestNoPauseIsRecordedTwiceByTwoLoops(t *testing.T) {
	onlyForced(t)
	a := start(t, "a", observer.WithSampleInterval(time.Millisecond))
	b := observer.Start(context.Background(), "b", observer.WithSampleInterval(time.Millisecond))
	truth := collectGarbage(20)
	a.Stop()
	truth.GC += collectGarbage(20).GC
	b.Stop()
	assert.Equal(t, truth.GC, recordedPauses(a.reader).Count)
}

func TestAnotherStartForgetsNoPause(t *testing.T) {
	onlyForced(t)
	a := start(t, "a")
	truth := collectGarbage(5)
	b := observer.Start(context.Background(), "b")
	b.Stop()
	a.Stop()
	assert.Equal(t, truth.GC, recordedPauses(a.reader).Count)
}

func TestTheNextLoopTakesTheSamplingOver(t *testing.T) {
	onlyForced(t)
	a := start(t, "a")
	b := observer.Start(context.Background(), "b", observer.WithSampleInterval(time.Millisecond))
	t.Cleanup(b.Stop)
	truth := collectGarbage(5)
	a.Stop()
	assert.Equal(t, truth.GC, recordedPauses(a.reader).Count, "the oldest loop has taken its last sample")
	truth.GC += collectGarbage(5).GC
	require.Eventually(t, func() bool { return recordedPauses(a.reader).Count == truth.GC }, 10*time.Second, time.Millisecond)
}

func TestAYoungerLoopThatStopsLeavesTheSamplingAlone(t *testing.T) {
	onlyForced(t)
	a := start(t, "a")
	b := observer.Start(context.Background(), "b")
	truth := collectGarbage(5)
	b.Stop()
	assert.Zero(t, recordedPauses(a.reader).Count)
	a.Stop()
	assert.Equal(t, truth.GC, recordedPauses(a.reader).Count)
}

func TestPausesBetweenStopAndStartAreNotRecorded(t *testing.T) {
	onlyForced(t)
	first := start(t, "first")
	truth := collectGarbage(3)
	first.Stop()
	collectGarbage(5)
	second := observer.Start(context.Background(), "second", observer.WithMeterProvider(first.provider))
	require.NoError(t, second.Err())
	truth.GC += collectGarbage(2).GC
	second.Stop()
	assert.Equal(t, truth.GC, recordedPauses(first.reader).Count)
}

func TestPausesWhileOnlyAnAcquireHoldsAreNotRecorded(t *testing.T) {
	onlyForced(t)
	reader := sdkmetric.NewManualReader()
	p, err := observer.Acquire(context.Background(), observer.WithMeterProvider(providerOf(reader)))
	require.NoError(t, err)
	t.Cleanup(p.Release)

	collectGarbage(4)
	first := observer.Start(context.Background(), "first", observer.WithSampleInterval(time.Hour))
	truth := collectGarbage(3)
	first.Stop()
	collectGarbage(5)
	second := observer.Start(context.Background(), "second", observer.WithSampleInterval(time.Hour))
	truth.GC += collectGarbage(2).GC
	second.Stop()
	collectGarbage(1)
	p.Release()
	assert.Equal(t, truth.GC, recordedPauses(reader).Count)
}

func TestAnAcquireAloneCountsCollections(t *testing.T) {
	onlyForced(t)
	reader := sdkmetric.NewManualReader()
	p, err := observer.Acquire(context.Background(), observer.WithMeterProvider(providerOf(reader)))
	require.NoError(t, err)
	t.Cleanup(p.Release)
	before := collect(t, reader).require(t, observer.GCCollectionsInstrument, generation)
	collectGarbage(3)
	assert.Equal(t, before+3, collect(t, reader).require(t, observer.GCCollectionsInstrument, generation))
}

func TestBothReadersSeeEveryPause(t *testing.T) {
	onlyForced(t)
	cumulative, delta := sdkmetric.NewManualReader(), deltaReader()
	o := observer.Start(context.Background(), "gc", observer.WithMeterProvider(providerOf(cumulative, delta)),
		observer.WithSampleInterval(time.Millisecond))
	t.Cleanup(o.Stop)
	var truth, fromDelta uint64
	for range 20 {
		truth += collectGarbage(1).GC
		fromDelta += recordedPauses(delta).Count
	}
	o.Stop()
	fromDelta += recordedPauses(delta).Count
	assert.Equal(t, truth, fromDelta)
	assert.Equal(t, truth, recordedPauses(cumulative).Count)
}

func TestH32CollectionsAreExact(t *testing.T) {
	onlyForced(t)
	o := start(t, "gc")
	for range 3 {
		assert.EqualValues(t, pausesNow().Cycles, o.collect(t).require(t, observer.GCCollectionsInstrument, generation))
		collectGarbage(7)
	}
}

func TestCollectedObjectsAreThoseThatWereFreed(t *testing.T) {
	onlyForced(t)
	o := start(t, "gc")
	runtime.GC()
	before := o.collect(t).require(t, observer.GCCollectedInstrument, generation)
	for range 10_000 {
		garbage = new([64]byte)
	}
	garbage = nil
	runtime.GC()
	after := o.collect(t).require(t, observer.GCCollectedInstrument, generation)
	assert.Equal(t, totalNow("/gc/heap/frees:objects"), after)
	assert.GreaterOrEqual(t, after-before, 10_000.0)
}

var garbage *[64]byte // a place that the compiler cannot do without

// totalNow is one of the runtime's own totals.
func totalNow(name string) float64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64())
}

func TestUncollectableObjectsAreThoseWithAFinalizerToRun(t *testing.T) {
	onlyForced(t)
	o := start(t, "gc")
	runtime.GC()
	before := o.collect(t).require(t, observer.GCUncollectableInstrument, generation)
	var finalized sync.WaitGroup
	for range 25 {
		finalized.Add(1)
		runtime.SetFinalizer(new([64]byte), func(*[64]byte) { finalized.Done() })
	}
	runtime.GC()
	after := o.collect(t).require(t, observer.GCUncollectableInstrument, generation)
	finalized.Wait()
	assert.Equal(t, totalNow("/gc/finalizers/queued:finalizers"), after)
	assert.GreaterOrEqual(t, after-before, 25.0)
}

func TestCountIsWhatWasAllocatedSinceTheLastCollection(t *testing.T) {
	onlyForced(t)
	o := start(t, "gc")
	runtime.GC()
	o.collect(t) // notices the collection
	for range 10_000 {
		garbage = new([64]byte)
	}
	assert.InDelta(t, 10_000, o.collect(t).require(t, observer.GCCountInstrument, generation), 1000)
	runtime.GC()
	assert.Less(t, o.collect(t).require(t, observer.GCCountInstrument, generation), 1000.0)
}

func init() {
	observer.ChildModes["no collector"] = func() error {
		o, reader := observeInChild(time.Millisecond)
		before, _ := read(reader).value(observer.GCCollectionsInstrument, generation)
		began := pausesNow()
		for i := range 6 {
			runtime.GOMAXPROCS(3 - i%2)
		}
		for range 10 {
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
		}
		truth := pausesNow().since(began)
		o.Stop()
		after, _ := read(reader).value(observer.GCCollectionsInstrument, generation)
		return printJSON(uncollected{truth, recordedPauses(reader).Count, after - before})
	}

	// Prints the pauses of a process that does nothing but be observed.
	observer.ChildModes["no work"] = func() error {
		before := pausesNow()
		o, reader := observeInChild(time.Millisecond)
		for distributionOf(reader, observer.EventLoopLagInstrument).Count < 1000 {
			time.Sleep(time.Millisecond)
		}
		o.Stop()
		return printJSON(pausesNow().since(before))
	}

	observer.ChildModes["nothing but garbage"] = nothingButGarbage
}

// uncollected is what a child without a collector saw.
type uncollected struct {
	Truth       runtimePauses
	Pauses      uint64
	Collections float64
}

func TestH33PausesThatAreNotTheCollectorsAreNotRecorded(t *testing.T) {
	var saw uncollected
	outputOf(t, observer.Child(t, "no collector", "GOGC=off"), &saw)
	require.GreaterOrEqual(t, saw.Truth.Other, uint64(16), "the world was stopped")
	require.Zero(t, saw.Truth.Cycles)
	assert.Zero(t, saw.Pauses)
	assert.Zero(t, saw.Collections)
}

func TestTheObserverNeitherStopsTheWorldNorCollects(t *testing.T) {
	var saw runtimePauses
	// With GOMAXPROCS set, the runtime does not stop the world to adjust it.
	outputOf(t, observer.Child(t, "no work", "GOGC=off", "GOMAXPROCS=2"), &saw)
	assert.Equal(t, runtimePauses{}, saw)
}

func TestH49AFlightRecorderOfTheApplicationGoesOn(t *testing.T) {
	recorder := trace.NewFlightRecorder(trace.FlightRecorderConfig{})
	require.NoError(t, recorder.Start())
	t.Cleanup(recorder.Stop)
	o := start(t, "traced", observer.WithSampleInterval(time.Millisecond))
	require.Eventually(t, func() bool { return distributionOf(o.reader, observer.EventLoopLagInstrument).Count > 0 }, 10*time.Second, time.Millisecond)
	o.Stop()
	assert.True(t, recorder.Enabled())
	var recorded bytes.Buffer
	_, err := recorder.WriteTo(&recorded)
	require.NoError(t, err)
	assert.NotZero(t, recorded.Len())
}

func TestH49TheObserverUsesNoFlightRecorder(t *testing.T) {
	start(t, "untraced", observer.WithSampleInterval(time.Millisecond))
	assert.False(t, trace.IsEnabled())
	recorder := trace.NewFlightRecorder(trace.FlightRecorderConfig{}) // one a process is allowed
	require.NoError(t, recorder.Start())
	recorder.Stop()
}

// pressed is what a child under GC pressure saw.
type pressed struct {
	Cycles            uint64
	Exports           int           // by both readers
	Slowest           time.Duration // of them
	Cumulative, Delta float64       // pauses by each reader
}

// nothingButGarbage allocates for 5 s, while two readers collect and the
// counters count.
func nothingButGarbage() error {
	delta := deltaReader()
	o, cumulative := observeInChild(time.Millisecond, delta)
	began := pausesNow()
	var (
		end     atomic.Bool
		running sync.WaitGroup
		mu      sync.Mutex
		saw     pressed
	)
	export := func(reader *sdkmetric.ManualReader) {
		asked := time.Now()
		pauses, _ := read(reader).value(observer.GCPauseInstrument, generation)
		took := time.Since(asked)
		mu.Lock()
		defer mu.Unlock()
		saw.Exports, saw.Slowest = saw.Exports+1, max(saw.Slowest, took)
		if reader == delta {
			saw.Delta += pauses
		} else {
			saw.Cumulative = pauses
		}
	}
	time.AfterFunc(5*time.Second, func() { end.Store(true) })
	for range 2 {
		running.Go(func() {
			for !end.Load() {
				kept := make([][]byte, 0, 64)
				for range cap(kept) {
					kept = append(kept, make([]byte, 1024))
				}
				observer.Requests().CountResponse(200)
				observer.Driver().Offer(len(kept))
			}
		})
	}
	for _, reader := range []*sdkmetric.ManualReader{cumulative, delta} {
		running.Go(func() {
			for !end.Load() {
				export(reader)
			}
		})
	}
	running.Wait()
	o.Stop()
	export(cumulative)
	export(delta)
	saw.Cycles = pausesNow().since(began).Cycles
	return printJSON(saw)
}

func TestH50CollectingUnderGCPressure(t *testing.T) {
	var saw pressed
	outputOf(t, observer.Child(t, "nothing but garbage", "GOGC=1"), &saw)
	require.Greater(t, saw.Cycles, uint64(100), "%+v", saw)
	assert.Greater(t, saw.Exports, 10)
	assert.Less(t, saw.Slowest, time.Second)
	assert.Equal(t, saw.Cumulative, saw.Delta, "both readers see every pause")
	assert.GreaterOrEqual(t, saw.Cumulative, float64(saw.Cycles))
}
