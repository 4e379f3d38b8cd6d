package examples_test

import (
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/otlptest"
)

// point is one data point, of a number or of a histogram.
type point struct {
	attributes map[string]any // of strings and int64s
	value      float64
	sum, count float64
}

// points returns the data points of a metric; none for nil.
func points(metric *metricspb.Metric) (all []point) {
	for _, p := range append(metric.GetSum().GetDataPoints(), metric.GetGauge().GetDataPoints()...) {
		value := p.GetAsDouble()
		if integer, ok := p.GetValue().(*metricspb.NumberDataPoint_AsInt); ok {
			value = float64(integer.AsInt)
		}
		all = append(all, point{attributes: attributes(p.GetAttributes()), value: value})
	}
	for _, p := range metric.GetHistogram().GetDataPoints() {
		all = append(all, point{attributes: attributes(p.GetAttributes()), sum: p.GetSum(), count: float64(p.GetCount())})
	}
	return all
}

func attributes(pairs []*commonpb.KeyValue) map[string]any {
	all := make(map[string]any)
	for _, pair := range pairs {
		if integer, ok := pair.GetValue().GetValue().(*commonpb.AnyValue_IntValue); ok {
			all[pair.GetKey()] = integer.IntValue
		} else {
			all[pair.GetKey()] = pair.GetValue().GetStringValue()
		}
	}
	return all
}

// byAttribute returns the points by the value of an attribute.
func byAttribute(all []point, key string) map[any]point {
	by := make(map[any]point)
	for _, p := range all {
		by[p.attributes[key]] = p
	}
	return by
}

// exports is all that one process has exported.
type exports struct {
	*testing.T
	requests []otlptest.Request
}

// last returns the points of a metric in the last export that has it. The very
// last one is of the provider that shuts down, when the observer has left it.
func (e exports) last(name string) []point {
	e.Helper()
	for _, request := range slices.Backward(e.requests) {
		if metric := request.Metric(name); metric != nil {
			return points(metric)
		}
	}
	require.Fail(e, "no export has "+name, "of %d exports", len(e.requests))
	return nil
}

// one returns the only point of a metric in the last export that has it.
func (e exports) one(name string) point {
	e.Helper()
	all := e.last(name)
	require.Len(e, all, 1, "points of %s", name)
	return all[0]
}

func (e exports) endsAt(name string, want float64) {
	e.Helper()
	assert.Equal(e, want, e.one(name).value, "%s in the last export", name)
}

// wasBetween checks the largest of all exported values of a metric, and that
// none was negative.
func (e exports) wasBetween(name string, least, most float64) {
	e.Helper()
	highest := -1.0
	for _, request := range e.requests {
		for _, p := range points(request.Metric(name)) {
			assert.GreaterOrEqual(e, p.value, 0.0, name)
			highest = max(highest, p.value)
		}
	}
	assert.True(e, least <= highest && highest <= most, "the largest %s is %v, want %v to %v", name, highest, least, most)
}

// histogram returns a histogram without attributes.
func (e exports) histogram(name string) point {
	e.Helper()
	p := e.one(name)
	assert.Empty(e, p.attributes, name)
	return p
}

// enoughSamples of the lag take about a second here.
const enoughSamples = 50

// checkProcess checks what every process exports: scheduler, collector and
// process. It had at least so many goroutines at a time.
func (e exports) checkProcess(loop string, ended *os.ProcessState, goroutines float64) {
	e.Helper()
	onLoop := map[string]any{observer.EventLoopAttribute: loop}
	ofGeneration := map[string]any{observer.GCGenerationAttribute: int64(0)}

	lag := e.one(observer.EventLoopLagInstrument)
	assert.Equal(e, onLoop, lag.attributes)
	assert.GreaterOrEqual(e, lag.count, float64(enoughSamples), "samples of the lag")
	assert.Positive(e, lag.sum)
	runQueue := e.one(observer.EventLoopRunQueueInstrument)
	assert.Equal(e, onLoop, runQueue.attributes)
	assert.Equal(e, lag.count, runQueue.count, "samples of the run queue beside those of the lag")
	e.wasBetween(observer.EventLoopTasksInstrument, goroutines, 100*goroutines)
	assert.Equal(e, onLoop, e.one(observer.EventLoopTasksInstrument).attributes)

	collections := e.one(observer.GCCollectionsInstrument)
	assert.Equal(e, ofGeneration, collections.attributes)
	assert.Positive(e, collections.value)
	pauses := e.one(observer.GCPauseInstrument)
	assert.Equal(e, ofGeneration, pauses.attributes)
	assert.Positive(e, pauses.count)
	assert.LessOrEqual(e, pauses.count, 2*(collections.value+1), "pauses, two a cycle")
	assert.Positive(e, e.one(observer.GCCollectedInstrument).value)
	assert.GreaterOrEqual(e, e.one(observer.GCUncollectableInstrument).value, 0.0)
	e.wasBetween(observer.GCCountInstrument, 1, 1e9)

	cpu := byAttribute(e.last(observer.ProcessCPUTimeInstrument), observer.CPUModeAttribute)
	assert.Len(e, cpu, 2)
	used := (ended.UserTime() + ended.SystemTime()).Seconds()
	// What comes after the last export is not in it: the exit, under a tenth.
	assert.InEpsilon(e, used, cpu["user"].value+cpu["system"].value, 0.1, "CPU time in s, of which the kernel says %v", used)

	e.wasBetween(observer.ProcessMemoryUsageInstrument, 4<<20, 1<<30)
	e.wasBetween(observer.ProcessThreadCountInstrument, 3, 300)
	if runtime.GOOS == "linux" { // elsewhere nothing counts them
		e.wasBetween(observer.ProcessUnixFDsInstrument, 20, 2000)
		for _, request := range e.requests {
			assert.Equal(e, points(request.Metric(observer.ProcessUnixFDsInstrument)),
				points(request.Metric(observer.ProcessOpenFDsInstrument)), "descriptors under both names")
		}
	}
}
