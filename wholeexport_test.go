package observer_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
)

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
