package observer_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer"
)

// The driver's series by how they are exported.
var (
	driverTotals = []string{
		observer.DriverOfferedInstrument, observer.DriverResidentInstrument,
		observer.DriverActiveInstrument, observer.DriverAbandonedInstrument,
	}
	driverRecords = []string{
		observer.DriverMaterializeInstrument, observer.DriverWriteDurationInstrument, observer.DriverWriteBytesInstrument,
		observer.RolloutInputItemsInstrument, observer.RolloutOutputItemsInstrument,
		observer.RolloutTurnsInstrument, observer.RolloutToolCallsInstrument,
	}
)

// driverSeries are the values of the driver's series that a reader exports now;
// of a histogram it is the count.
func driverSeries(reader *sdkmetric.ManualReader) map[string]float64 {
	series := make(map[string]float64)
	metrics := read(reader)
	for _, name := range slices.Concat(driverTotals, driverRecords, []string{observer.DriverAdmissionInstrument}) {
		if value, ok := metrics.value(name); ok {
			series[name] = value
		}
	}
	return series
}

// recordEverything records one value into each histogram that the driver itself
// records.
func recordEverything(driver *observer.DriverMetrics) {
	ctx := context.Background()
	driver.RecordMaterialize(ctx, 3*time.Millisecond)
	driver.RecordOutputWrite(ctx, 20*time.Millisecond, 4096)
	driver.RecordRollout(ctx, observer.RolloutSize{InputItems: 5, OutputItems: 6, Turns: 7, ToolCalls: 8})
}

// asks are the ways to ask a limit for a slot, of which none is free.
var asks = map[string]func(ctx context.Context, a *observer.MeteredAdmission){
	"Acquire":    func(ctx context.Context, a *observer.MeteredAdmission) { _ = a.Acquire(ctx, 1) },
	"TryAcquire": func(_ context.Context, a *observer.MeteredAdmission) { a.TryAcquire(1) },
	"Admit":      func(ctx context.Context, a *observer.MeteredAdmission) { _, _ = a.Admit(ctx) },
	"Do":         func(ctx context.Context, a *observer.MeteredAdmission) { _ = a.Do(ctx, nil) },
}

// becoming is what a child exported before and after it became a driver.
type becoming struct{ Before, After, Recorded map[string]float64 }

// becomeDriver records what a process that is no driver yet may record, then
// does what makes it one, and then records once more.
func becomeDriver(how func()) error {
	o, reader := observeInChild(time.Hour)
	driver := observer.Driver()
	var saw becoming
	_ = driver.CountResident(func() error {
		recordEverything(driver)
		saw.Before = driverSeries(reader)
		how()
		saw.After = driverSeries(reader)
		return nil
	})
	recordEverything(driver)
	o.Stop()
	saw.Recorded = driverSeries(reader)
	return printJSON(saw)
}

func init() {
	observer.ChildModes["becomes a driver by Offer"] = func() error {
		return becomeDriver(func() { observer.Driver().Offer(3) })
	}
	for name, ask := range asks {
		observer.ChildModes["becomes a driver by "+name] = func() error {
			return becomeDriver(func() {
				cancelled, cancel := context.WithCancel(context.Background())
				cancel()
				ask(cancelled, observer.NewMeteredAdmission(semaphore.NewWeighted(0)))
			})
		}
	}
}

// becomes runs one of the children above.
func becomes(t *testing.T, how string) (saw becoming) {
	t.Helper()
	outputOf(t, observer.Child(t, "becomes a driver by "+how), &saw)
	return saw
}

func TestAServerExportsNoDriverSeries(t *testing.T) {
	assert.Empty(t, becomes(t, "Offer").Before)
}

func TestOfferingARolloutMakesADriver(t *testing.T) {
	assert.Equal(t, map[string]float64{
		observer.DriverOfferedInstrument:   3,
		observer.DriverResidentInstrument:  1, // counted before, and only withheld
		observer.DriverActiveInstrument:    0,
		observer.DriverAbandonedInstrument: 0,
	}, becomes(t, "Offer").After)
}

func TestAskingForASlotMakesADriver(t *testing.T) {
	for name := range asks {
		t.Run(name, func(t *testing.T) {
			abandoned := 1.0
			if name == "TryAcquire" {
				abandoned = 0
			}
			assert.Equal(t, map[string]float64{
				observer.DriverOfferedInstrument:   0,
				observer.DriverResidentInstrument:  1,
				observer.DriverActiveInstrument:    0,
				observer.DriverAbandonedInstrument: abandoned,
			}, becomes(t, name).After)
		})
	}
}

func TestWhatIsRecordedBeforeAProcessIsADriverIsDropped(t *testing.T) {
	recorded := becomes(t, "Offer").Recorded
	for _, name := range driverRecords {
		assert.Equal(t, 1.0, recorded[name], name)
	}
}

// startDriver observes a process that has offered a rollout.
func startDriver(t testing.TB) (*observed, *observer.DriverMetrics) {
	t.Helper()
	o := start(t, "driver")
	observer.Driver().Offer(1)
	return o, observer.Driver()
}

// recorded stops the observer, which hands over all that was recorded, and
// returns one histogram.
func (o *observed) recorded(name string) distribution {
	o.Stop()
	return distributionOf(o.reader, name)
}

func TestDriverIsNilWhileNothingObserves(t *testing.T) {
	assert.Nil(t, observer.Driver())
	o := start(t, "driver")
	assert.NotNil(t, observer.Driver())
	o.Stop()
	assert.Nil(t, observer.Driver())
}

func TestOfferCountsRollouts(t *testing.T) {
	o, driver := startDriver(t)
	before := o.collect(t).require(t, observer.DriverOfferedInstrument)
	driver.Offer(5)
	driver.Offer(1)
	assert.Equal(t, before+6, o.collect(t).require(t, observer.DriverOfferedInstrument))
	assert.EqualValues(t, before+6, driver.Counts().Offered)
}

func TestOfferOfNothingCountsNothing(t *testing.T) {
	_, driver := startDriver(t)
	before := driver.Counts()
	driver.Offer(0)
	driver.Offer(-3)
	assert.Equal(t, before, driver.Counts())
}

func TestResidentIsTheRolloutsThatHaveNotFinished(t *testing.T) {
	o, driver := startDriver(t)
	_ = driver.CountResident(func() error {
		assert.Equal(t, 1.0, o.collect(t).require(t, observer.DriverResidentInstrument))
		return driver.CountResident(func() error {
			assert.Equal(t, 2.0, o.collect(t).require(t, observer.DriverResidentInstrument))
			return nil
		})
	})
	assert.Zero(t, o.collect(t).require(t, observer.DriverResidentInstrument))
}

func TestCountResidentPassesTheErrorOn(t *testing.T) {
	_, driver := startDriver(t)
	failed := errors.New("failed")
	assert.Same(t, failed, driver.CountResident(func() error { return failed }))
	assert.NoError(t, driver.CountResident(func() error { return nil }))
}

func TestCountResidentPassesAPanicOn(t *testing.T) {
	_, driver := startDriver(t)
	assert.PanicsWithValue(t, "bang", func() { _ = driver.CountResident(func() error { panic("bang") }) })
	assert.Zero(t, driver.Counts().Resident)
}

func TestCountResidentPassesGoexitOn(t *testing.T) {
	_, driver := startDriver(t)
	var rollout sync.WaitGroup
	returned := false
	rollout.Go(func() {
		_ = driver.CountResident(func() error { runtime.Goexit(); return nil })
		returned = true
	})
	rollout.Wait()
	assert.False(t, returned)
	assert.Zero(t, driver.Counts().Resident)
}

func TestARolloutResidentAcrossStopAndStartCountsToItsEnd(t *testing.T) {
	first, driver := startDriver(t)
	_ = driver.CountResident(func() error {
		first.Stop()
		second := start(t, "again")
		assert.Equal(t, 1.0, second.collect(t).require(t, observer.DriverResidentInstrument))
		return nil
	})
	assert.Zero(t, driver.Counts().Resident)
}

func TestOfferedGoesOnAfterStopAndStart(t *testing.T) {
	first, driver := startDriver(t)
	driver.Offer(7)
	before := first.collect(t).require(t, observer.DriverOfferedInstrument)
	first.Stop()
	second := start(t, "again")
	assert.Equal(t, before, second.collect(t).require(t, observer.DriverOfferedInstrument))
}

func TestDriverSeriesHaveNoPointWhileNothingRuns(t *testing.T) {
	o, _ := startDriver(t)
	for _, name := range driverTotals {
		assert.Contains(t, o.collect(t), name)
	}
	o.Stop()
	for _, name := range driverTotals {
		assert.NotContains(t, o.collect(t), name)
	}
}

func TestAKeptDriverPointerRecordsNothingWhileNothingRuns(t *testing.T) {
	o, driver := startDriver(t)
	recordEverything(driver)
	o.Stop()
	before := driverSeries(o.reader)
	require.Len(t, before, len(driverRecords))
	recordEverything(driver)
	assert.Equal(t, before, driverSeries(o.reader))
}

func TestRecordMaterialize(t *testing.T) {
	o, driver := startDriver(t)
	driver.RecordMaterialize(context.Background(), 1500*time.Microsecond)
	driver.RecordMaterialize(context.Background(), 0)
	recorded := o.recorded(observer.DriverMaterializeInstrument)
	assert.EqualValues(t, 2, recorded.Count)
	assert.Equal(t, 1.5, recorded.Sum, "milliseconds")
}

func TestRecordOutputWrite(t *testing.T) {
	o, driver := startDriver(t)
	driver.RecordOutputWrite(context.Background(), 20*time.Millisecond, 4096)
	duration := o.recorded(observer.DriverWriteDurationInstrument)
	assert.EqualValues(t, 1, duration.Count)
	assert.Equal(t, 20.0, duration.Sum, "milliseconds")
	bytes := o.recorded(observer.DriverWriteBytesInstrument)
	assert.EqualValues(t, 1, bytes.Count)
	assert.Equal(t, 4096.0, bytes.Sum)
}

func TestRecordRollout(t *testing.T) {
	o, driver := startDriver(t)
	driver.RecordRollout(context.Background(), observer.RolloutSize{InputItems: 5, OutputItems: 6, Turns: 7, ToolCalls: 0})
	for name, want := range map[string]float64{
		observer.RolloutInputItemsInstrument:  5,
		observer.RolloutOutputItemsInstrument: 6,
		observer.RolloutTurnsInstrument:       7,
		observer.RolloutToolCallsInstrument:   0,
	} {
		recorded := o.recorded(name)
		assert.EqualValues(t, 1, recorded.Count, name)
		assert.Equal(t, want, recorded.Sum, name)
	}
}

func TestANegativeDurationOrSizeIsNotRecorded(t *testing.T) {
	ctx := context.Background()
	for name, record := range map[string]func(*observer.DriverMetrics){
		observer.DriverMaterializeInstrument:   func(d *observer.DriverMetrics) { d.RecordMaterialize(ctx, -1) },
		observer.DriverWriteDurationInstrument: func(d *observer.DriverMetrics) { d.RecordOutputWrite(ctx, -1, 5) },
		observer.DriverWriteBytesInstrument:    func(d *observer.DriverMetrics) { d.RecordOutputWrite(ctx, 5, -1) },
		observer.RolloutInputItemsInstrument: func(d *observer.DriverMetrics) {
			d.RecordRollout(ctx, observer.RolloutSize{InputItems: -1, OutputItems: 1, Turns: 1, ToolCalls: 1})
		},
		observer.RolloutOutputItemsInstrument: func(d *observer.DriverMetrics) {
			d.RecordRollout(ctx, observer.RolloutSize{InputItems: 1, OutputItems: -1, Turns: 1, ToolCalls: 1})
		},
		observer.RolloutTurnsInstrument: func(d *observer.DriverMetrics) {
			d.RecordRollout(ctx, observer.RolloutSize{InputItems: 1, OutputItems: 1, Turns: -1, ToolCalls: 1})
		},
		observer.RolloutToolCallsInstrument: func(d *observer.DriverMetrics) {
			d.RecordRollout(ctx, observer.RolloutSize{InputItems: 1, OutputItems: 1, Turns: 1, ToolCalls: -1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, driver := startDriver(t)
			recordEverything(driver)
			record(driver)
			assert.EqualValues(t, 1, o.recorded(name).Count)
		})
	}
}

func TestAWriteWithOneNegativePartRecordsTheOther(t *testing.T) {
	o, driver := startDriver(t)
	driver.RecordOutputWrite(context.Background(), -1, 5)
	driver.RecordOutputWrite(context.Background(), 7*time.Millisecond, -1)
	assert.Equal(t, 5.0, o.recorded(observer.DriverWriteBytesInstrument).Sum)
	assert.Equal(t, 7.0, o.recorded(observer.DriverWriteDurationInstrument).Sum)
}

func TestBeginOutputWriteRecordsTheTimeUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, driver := startDriver(t)
		end := driver.BeginOutputWrite(context.Background())
		time.Sleep(250 * time.Millisecond)
		end(4096)
		time.Sleep(time.Second)
		end(1) // does nothing
		duration := o.recorded(observer.DriverWriteDurationInstrument)
		assert.EqualValues(t, 1, duration.Count)
		assert.Equal(t, 250.0, duration.Sum)
		assert.Equal(t, 4096.0, o.recorded(observer.DriverWriteBytesInstrument).Sum)
	})
}

func TestTheEndOfAWriteFromManyGoroutinesRecordsItOnce(t *testing.T) {
	o, driver := startDriver(t)
	end := driver.BeginOutputWrite(context.Background())
	var enders sync.WaitGroup
	for range 8 {
		enders.Go(func() { end(10) })
	}
	enders.Wait()
	assert.EqualValues(t, 1, o.recorded(observer.DriverWriteBytesInstrument).Count)
}

func TestAWriteThatHasNotEndedIsNotRecorded(t *testing.T) {
	o, driver := startDriver(t)
	defer driver.BeginOutputWrite(context.Background())(0)
	assert.Zero(t, o.recorded(observer.DriverWriteDurationInstrument).Count)
}

func TestAWriteBegunBeforeAStopIsRecordedByTheNextRun(t *testing.T) {
	first, driver := startDriver(t)
	end := driver.BeginOutputWrite(context.Background())
	first.Stop()
	second := start(t, "again")
	end(10)
	assert.EqualValues(t, 1, second.recorded(observer.DriverWriteBytesInstrument).Count)
}

func TestDriverTakesANilContext(t *testing.T) {
	o, driver := startDriver(t)
	driver.RecordMaterialize(nil, time.Millisecond) //nolint:staticcheck // what is tested
	driver.RecordOutputWrite(nil, time.Millisecond, 1)
	driver.RecordRollout(nil, observer.RolloutSize{})
	driver.BeginOutputWrite(nil)(1)
	assert.EqualValues(t, 1, o.recorded(observer.DriverMaterializeInstrument).Count)
	assert.EqualValues(t, 2, o.recorded(observer.DriverWriteBytesInstrument).Count)
	assert.EqualValues(t, 1, o.recorded(observer.RolloutTurnsInstrument).Count)
}

func TestANilDriverStillDoesTheCallersWork(t *testing.T) {
	var driver *observer.DriverMetrics
	failed := errors.New("failed")
	assert.Same(t, failed, driver.CountResident(func() error { return failed }))
	assert.NotPanics(t, func() {
		driver.Offer(1)
		recordEverything(driver)
		end := driver.BeginOutputWrite(context.Background())
		end(1)
		end(1)
	})
	assert.Zero(t, driver.Counts())
}

func TestDriverCountsUnderConcurrency(t *testing.T) {
	o, driver := startDriver(t)
	before := driver.Counts()
	var rollouts sync.WaitGroup
	for range 8 {
		rollouts.Go(func() {
			for range 500 {
				driver.Offer(2)
				_ = driver.CountResident(func() error { recordEverything(driver); return nil })
			}
		})
	}
	rollouts.Wait()
	after := driver.Counts()
	assert.EqualValues(t, 8000, after.Offered-before.Offered)
	assert.Zero(t, after.Resident)
	for _, name := range driverRecords {
		assert.EqualValues(t, 4000, o.recorded(name).Count, name)
	}
}

func TestBothReadersSeeEveryDriverRecord(t *testing.T) {
	cumulative, delta := sdkmetric.NewManualReader(), deltaReader()
	o := observer.Start(context.Background(), "driver", observer.WithMeterProvider(providerOf(cumulative, delta)))
	t.Cleanup(o.Stop)
	observer.Driver().Offer(1)
	fromDelta := make(map[string]float64)
	drain := func() {
		for name, value := range driverSeries(delta) {
			fromDelta[name] += value
		}
	}
	for range 10 {
		recordEverything(observer.Driver())
		drain()
	}
	o.Stop()
	drain()
	for _, name := range driverRecords {
		assert.Equal(t, 10.0, fromDelta[name], name)
		assert.EqualValues(t, 10, distributionOf(cumulative, name).Count, name)
	}
}

func BenchmarkDriverRecordRollout(b *testing.B) {
	_, driver := startDriver(b)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		driver.RecordRollout(ctx, observer.RolloutSize{InputItems: 5, OutputItems: 6, Turns: 7, ToolCalls: 8})
	}
}

func BenchmarkDriverCountResident(b *testing.B) {
	_, driver := startDriver(b)
	rollout := func() error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		_ = driver.CountResident(rollout)
	}
}
