package observer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer/internal/catalogue"
	"github.com/gym-observer/observer/internal/count"
	"github.com/gym-observer/observer/internal/observable"
)

// settableSource is a process whose readings a test sets, between collections.
type settableSource struct {
	user, system                       float64
	memory, threadCount, openFiles     int64
	cpuFails, memoryFails, threadsFail error
	descriptorsFail                    error
	cpuPanics, descriptorsPanic        bool
	during                             func() // called in a reading
}

func (*settableSource) Close() {}

func (s *settableSource) CPUTime() (user, system float64, err error) {
	if s.cpuPanics {
		panic("thrown by the source")
	}
	return s.user, s.system, s.cpuFails
}

func (s *settableSource) ResidentMemory() (int64, error) {
	if s.during != nil {
		s.during()
	}
	return s.memory, s.memoryFails
}

func (s *settableSource) Threads() (int64, error) { return s.threadCount, s.threadsFail }

func (s *settableSource) OpenDescriptors() (int64, error) {
	if s.descriptorsPanic {
		panic("thrown by the source")
	}
	return s.openFiles, s.descriptorsFail
}

// inside is a running observer of which a test reaches the inside. It has no
// sampler.
type inside struct {
	*manual
	source            *settableSource
	cumulative, delta *sdkmetric.ManualReader
	stop              func()
}

// withSource observes the process through two readers, and a source that says what the
// test wants.
func withSource(t testing.TB) *inside {
	t.Helper()
	for _, last := range []*count.Ratchet{&totals.cpuUser, &totals.cpuSystem} {
		t.Cleanup(last.Forget()) // as in a new process
	}
	i := &inside{
		source:     &settableSource{user: 2, system: 1, memory: 4096, threadCount: 8, openFiles: 16},
		cumulative: sdkmetric.NewManualReader(),
		delta: sdkmetric.NewManualReader(sdkmetric.WithTemporalitySelector(func(sdkmetric.InstrumentKind) metricdata.Temporality {
			return metricdata.DeltaTemporality
		})),
	}
	i.manual = manuallyOver(t, sdkmetric.NewMeterProvider(sdkmetric.WithReader(i.cumulative), sdkmetric.WithReader(i.delta)))
	changing.Lock()
	i.loops.Remove(i.loop)
	changing.Unlock()
	i.stop, i.session.collector.process = i.holder.Release, i.source
	return i
}

// points is what one collection of one reader holds: each point by its metric's
// name and its attributes.
type points map[string]float64

func (i *inside) collect(t testing.TB, reader *sdkmetric.ManualReader) points {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &all), "a callback returns no error")
	values := make(points)
	for _, scoped := range all.ScopeMetrics {
		for _, m := range scoped.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				add(values, m.Name, data.DataPoints)
			case metricdata.Sum[float64]:
				add(values, m.Name, data.DataPoints)
			case metricdata.Gauge[int64]:
				add(values, m.Name, data.DataPoints)
			case metricdata.Gauge[float64]:
				add(values, m.Name, data.DataPoints)
			}
		}
	}
	return values
}

func add[N int64 | float64](to points, name string, data []metricdata.DataPoint[N]) {
	for _, p := range data {
		to[name+labels(p.Attributes)] = float64(p.Value)
	}
}

// labels prints attributes, or nothing for none.
func labels(set attribute.Set) string {
	if set.Len() == 0 {
		return ""
	}
	return "{" + set.Encoded(attribute.DefaultEncoder()) + "}"
}

// names drops the attributes.
func (p points) names() map[string]bool {
	names := make(map[string]bool)
	for key := range p {
		name, _, _ := strings.Cut(key, "{")
		names[name] = true
	}
	return names
}

var errUnavailable = errors.New("no such reading")

const (
	userTime   = ProcessCPUTimeInstrument + "{cpu.mode=user}"
	systemTime = ProcessCPUTimeInstrument + "{cpu.mode=system}"
)

func TestH38OneUnavailableReading(t *testing.T) {
	for _, test := range []struct {
		name   string
		fail   func(*settableSource)
		absent []string
	}{
		{"CPU time", func(s *settableSource) { s.cpuFails = errUnavailable }, []string{ProcessCPUTimeInstrument}},
		{"memory", func(s *settableSource) { s.memoryFails = errUnavailable }, []string{ProcessMemoryUsageInstrument}},
		{"threads", func(s *settableSource) { s.threadsFail = errUnavailable }, []string{ProcessThreadCountInstrument}},
		{"descriptors", func(s *settableSource) { s.descriptorsFail = errUnavailable }, []string{ProcessOpenFDsInstrument, ProcessUnixFDsInstrument}},
	} {
		t.Run(test.name, func(t *testing.T) {
			whole := withSource(t)
			want := whole.collect(t, whole.cumulative).names()
			whole.stop()
			for _, name := range test.absent {
				require.True(t, want[name], "%s is there while it can be read", name)
				delete(want, name)
			}
			i := withSource(t)
			test.fail(i.source)
			for range 3 {
				assert.Equal(t, want, i.collect(t, i.cumulative).names())
				assert.Equal(t, want, i.collect(t, i.delta).names())
			}
			assert.Equal(t, map[string]int{test.absent[0]: 1}, i.log.Causes(), "logged once, not at each export")
		})
	}
}

// Without a point in one cycle, a delta reader would be given the whole total
// again in the next.
func TestCounterRepeatsItsLastValueWhereItsReadingFails(t *testing.T) {
	for name, fail := range map[string]func(*settableSource, bool){
		"with an error": func(s *settableSource, fails bool) {
			s.cpuFails = nil
			if fails {
				s.cpuFails = errUnavailable
			}
		},
		"with a panic": func(s *settableSource, fails bool) { s.cpuPanics = fails },
	} {
		t.Run(name, func(t *testing.T) {
			i := withSource(t)
			for step, want := range []struct {
				user              float64
				fails             bool
				cumulative, delta float64
			}{
				{2, false, 2, 2},
				{3, true, 2, 0},
				{4, true, 2, 0},
				{5, false, 5, 3},
				{6, false, 6, 1},
			} {
				i.source.user = want.user
				fail(i.source, want.fails)
				now := i.collect(t, i.cumulative)
				require.Contains(t, now, userTime, "step %d", step)
				assert.Equal(t, want.cumulative, now[userTime], "step %d", step)
				now = i.collect(t, i.delta)
				require.Contains(t, now, userTime, "step %d", step)
				assert.Equal(t, want.delta, now[userTime], "step %d", step)
			}
			assert.Equal(t, map[string]int{ProcessCPUTimeInstrument: 1}, i.log.Causes())
		})
	}
}

func TestH46CounterHoldsItsLastValueWhereItsReadingFalls(t *testing.T) {
	i := withSource(t)
	for step, want := range []struct{ user, system, exportedUser, exportedSystem float64 }{
		{10, 5, 10, 5},
		{4, 6, 10, 6}, // each mode by itself
		{math.NaN(), -1, 10, 6},
		{9.5, 7, 10, 7},
		{11, 7, 11, 7},
	} {
		i.source.user, i.source.system = want.user, want.system
		now := i.collect(t, i.cumulative)
		assert.Equal(t, want.exportedUser, now[userTime], "step %d", step)
		assert.Equal(t, want.exportedSystem, now[systemTime], "step %d", step)
		delta := i.collect(t, i.delta)
		assert.GreaterOrEqual(t, delta[userTime], 0.0)
		assert.GreaterOrEqual(t, delta[systemTime], 0.0)
	}

	// Across a Stop and a Start too.
	i.stop()
	p, err := Acquire(context.Background(), WithMeterProvider(i.session.provider))
	require.NoError(t, err)
	defer p.Release()
	running.Load().collector.process = &settableSource{user: 1, system: 1}
	now := i.collect(t, i.cumulative)
	assert.Equal(t, 11.0, now[userTime])
	assert.Equal(t, 7.0, now[systemTime])
}

func TestPanicInOneSignalLeavesTheOthers(t *testing.T) {
	whole := withSource(t)
	totals.driver.drive()
	want := whole.collect(t, whole.cumulative).names()
	rows := len(whole.session.collector.observables)
	whole.stop()
	for row := range rows {
		i := withSource(t)
		broken := &i.session.collector.observables[row]
		others := make(map[string]bool)
		for name := range want {
			if name != broken.Name {
				others[name] = true
			}
		}
		broken.Read = func(*collection, observable.Point) error { panic("thrown by " + broken.Name) }
		for range 2 {
			now := i.collect(t, i.cumulative).names()
			if broken.Name == ProcessOpenFDsInstrument {
				delete(others, ProcessUnixFDsInstrument) // which repeats what the first has read
				delete(now, ProcessUnixFDsInstrument)
			}
			assert.Equal(t, others, now, broken.Name)
		}
		assert.Equal(t, map[string]int{broken.Name: 1}, i.log.Causes())
		i.stop()
	}
}

// A reading is made once for its two names, and is never that of an earlier
// collection.
func TestDescriptorsAreNotRepeatedFromAnEarlierCollection(t *testing.T) {
	i := withSource(t)
	for range 3 {
		now := i.collect(t, i.cumulative)
		assert.Equal(t, 16.0, now[ProcessOpenFDsInstrument])
		assert.Equal(t, 16.0, now[ProcessUnixFDsInstrument])
	}
	i.source.descriptorsPanic = true
	for range 3 {
		now := i.collect(t, i.cumulative)
		assert.NotContains(t, now, ProcessOpenFDsInstrument)
		assert.NotContains(t, now, ProcessUnixFDsInstrument)
	}
}

// once fails where one attribute set of one instrument is observed twice in a
// collection: the SDK would add up the two, or keep the last.
type once struct {
	metric.Observer
	t    *testing.T
	seen map[string]bool
}

func (o *once) ObserveInt64(instrument metric.Int64Observable, _ int64, options ...metric.ObserveOption) {
	o.observed(instrument, options)
}

func (o *once) ObserveFloat64(instrument metric.Float64Observable, _ float64, options ...metric.ObserveOption) {
	o.observed(instrument, options)
}

func (o *once) observed(instrument metric.Observable, options []metric.ObserveOption) {
	set := metric.NewObserveConfig(options).Attributes()
	point := fmt.Sprintf("%p", instrument) + labels(set)
	assert.NotContains(o.t, o.seen, point)
	o.seen[point] = true
}

func TestEachAttributeSetIsObservedOnce(t *testing.T) {
	i := withSource(t)
	totals.driver.drive()
	for range 3 {
		defer Start(t.Context(), "same", WithTaskCount(true), WithSampleInterval(time.Hour)).Stop()
	}
	for _, route := range []string{"/a", "/b", "unmatched", "overflow", ""} {
		Requests().CountCancellation(route, false)
		Requests().CountCancellation(route, true)
	}
	Requests().CountResponse(200)
	for range 2 {
		into := &once{t: t, seen: make(map[string]bool)}
		require.NoError(t, i.session.collector.collect(context.Background(), into))
		assert.Greater(t, len(into.seen), 20)
	}
}

func TestCallbackTakesNoLockOfStartAndStop(t *testing.T) {
	i := withSource(t)
	changing.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.collect(t, i.cumulative)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("a collection waits for a lock that Start and Stop hold")
	}
	changing.Unlock()
	<-done
}

func TestNothingIsKeptOfARunThatHasEnded(t *testing.T) {
	for range 3 {
		withSource(t).stop()
	}
	changing.Lock()
	defer changing.Unlock()
	assert.Empty(t, closing)
}

func TestCallbackMayStartAndStop(t *testing.T) {
	i := withSource(t)
	i.source.during = func() {
		p, err := Acquire(context.Background())
		assert.NoError(t, err)
		p.Release()
	}
	i.collect(t, i.cumulative)
}

// Unregister waits for a running callback, which here is the one that stops.
func TestLogHandlerMayStopTheObserverInACallback(t *testing.T) {
	i := withSource(t)
	i.source.memoryFails = errUnavailable
	i.log.On = sync.OnceFunc(func() {
		began := time.Now()
		i.stop()
		assert.Less(t, time.Since(began), 3*time.Second)
	})
	i.collect(t, i.cumulative)
	select {
	case <-i.session.closed:
	case <-time.After(10 * time.Second):
		t.Error("Stop has not ended")
	}
	assert.Empty(t, i.collect(t, i.cumulative))
}

func TestStopReturnsWhileACallbackHangs(t *testing.T) {
	i := withSource(t)
	entered, release := make(chan struct{}), make(chan struct{})
	i.source.during = sync.OnceFunc(func() {
		close(entered)
		<-release
	})
	var wg sync.WaitGroup
	wg.Go(func() { i.collect(t, i.cumulative) })
	<-entered
	began := time.Now()
	i.stop()
	assert.Less(t, time.Since(began), 3*time.Second)
	close(release)
	wg.Wait()
	select {
	case <-i.session.closed:
	case <-time.After(10 * time.Second):
		t.Error("Stop has not ended")
	}
}

func TestCumulativeAndDeltaReaderBothSeeEverything(t *testing.T) {
	i := withSource(t)
	counters := make(map[string]bool)
	for _, s := range catalogue.Signals {
		counters[s.Name] = s.Kind == catalogue.Counter
	}
	first := i.collect(t, i.cumulative)
	sums := i.collect(t, i.delta)
	requests, driver := Requests(), Driver()
	for n := range 10 {
		for range n {
			requests.CountResponse(207)
			requests.CountCancellation("/both", n%2 == 0)
			requests.CountUnhandledException()
			driver.Offer(2)
		}
		i.source.user += float64(n)
		runtime.GC()
		runtime.GC()
		for range n % 3 { // at their own pace
			i.collect(t, i.cumulative)
		}
		for key, value := range i.collect(t, i.delta) {
			sums[key] += value
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // so that nothing moves between the two
	runtime.GC()
	for key, value := range i.collect(t, i.delta) {
		sums[key] += value
	}
	last := i.collect(t, i.cumulative)
	for key, value := range last {
		if name, _, _ := strings.Cut(key, "{"); counters[name] {
			assert.Equal(t, value, sums[key], key)
		}
	}
	responses := ResponsesInstrument + "{http.response.status_code=207}"
	assert.Equal(t, 45.0, last[responses]-first[responses])
	offered := DriverOfferedInstrument
	assert.Equal(t, 90.0, last[offered]-first[offered])
	assert.Equal(t, 45.0, last[userTime]-first[userTime])
}

// underRace reports whether the tests are built with the race detector, which
// allocates by itself.
func underRace() bool {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, setting := range build.Settings {
		if setting.Key == "-race" {
			return setting.Value == "true"
		}
	}
	return false
}

// discard is what a callback observes into, at no cost of its own.
type discard struct {
	metric.Observer
	points int
}

func (d *discard) ObserveInt64(metric.Int64Observable, int64, ...metric.ObserveOption) { d.points++ }
func (d *discard) ObserveFloat64(metric.Float64Observable, float64, ...metric.ObserveOption) {
	d.points++
}

func TestCollectionAllocatesNothing(t *testing.T) {
	if underRace() {
		t.Skip("the race detector allocates")
	}
	i := withSource(t) // whose source reads nothing: what the real one allocates has a test beside it
	totals.driver.drive()
	for status := range 5 {
		Requests().CountResponse(200 + status)
		Requests().CountCancellation(fmt.Sprint("/route/", status), false)
	}
	var into discard
	collect := func() { assert.NoError(t, i.session.collector.collect(context.Background(), &into)) }
	assert.Zero(t, testing.AllocsPerRun(100, collect))
	assert.Greater(t, into.points, 101*20)
}
