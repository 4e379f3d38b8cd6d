package observer_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
)

func TestLoadsOfTheLastWindowAreExported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cumulative, delta := sdkmetric.NewManualReader(), deltaReader()
		o := observer.Start(t.Context(), "test", observer.WithMeterProvider(providerOf(cumulative, delta)), observer.WithSampleInterval(time.Hour))
		defer o.Stop()
		synctest.Wait()
		readers := []*sdkmetric.ManualReader{cumulative, delta}
		for _, reader := range readers {
			assert.Empty(t, collect(t, reader).points("gym.load"), "no window is complete")
		}
		for _, loads := range []map[observer.Cause]float64{
			{observer.CauseGC: 1.25, observer.CauseLock: 0, observer.CauseMemory: 0.5},
			{observer.CauseGC: 0.5, observer.CauseDownstream: 9},
		} {
			observer.PublishWindow(window, loads)
			for _, reader := range readers {
				metrics := collect(t, reader)
				assert.Equal(t, "{unit}", metrics["gym.load"].Unit)
				assert.IsType(t, metricdata.Gauge[float64]{}, metrics["gym.load"].Data)
				assert.Equal(t, loads, byCause(metrics.points("gym.load")), "what is unmeasured has no point")
			}
		}
	})
}

func byCause(points []point) map[observer.Cause]float64 {
	values := make(map[observer.Cause]float64)
	for _, p := range points {
		cause, _ := p.attributes.Value("nemo.gym.cause")
		values[observer.Cause(cause.AsString())] = p.value
	}
	return values
}

func TestLoadsAreInTheLastExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		var last exported
		provider := &hooked{MeterProvider: providerOf(reader), onFlush: func(context.Context) error {
			last = collect(t, reader)
			return nil
		}}
		o := published(t, observer.WithMeterProvider(provider))
		publish(2, observer.CauseGC, 2)
		o.Stop()
		assert.Equal(t, 2.0, last.require(t, "gym.load", ofCause(observer.CauseGC)))
		assert.Empty(t, collect(t, reader)["gym.load"].Data)
	})
}

func TestSlowTimeIsTheVerdictsAndOutlivesAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cumulative, delta := sdkmetric.NewManualReader(), deltaReader()
		provider := providerOf(cumulative, delta)
		run := func() *observer.Observer {
			o := observer.Start(t.Context(), "test", observer.WithMeterProvider(provider), observer.WithSampleInterval(time.Hour))
			synctest.Wait()
			return o
		}
		o := run()
		before := byCause(collect(t, cumulative).points("gym.slow_time"))
		collect(t, delta)
		total := func(cause observer.Cause) float64 {
			return byCause(collect(t, cumulative).points("gym.slow_time"))[cause] - before[cause]
		}

		publish(1, observer.CauseLock, 9)
		assert.Zero(t, total(observer.CauseLock), "it is not the verdict yet")
		publish(3, observer.CauseLock, 9)
		publish(1, observer.CauseNone, 0) // still the verdict
		publish(5, observer.CauseNone, 0)
		observer.PublishLag(window, 1500*time.Millisecond)
		observer.PublishLag(window, 1500*time.Millisecond)
		assert.Equal(t, 4*window.Seconds(), total(observer.CauseLock))
		assert.Equal(t, window.Seconds(), total(observer.CauseUnknown))
		metrics := collect(t, cumulative)
		assert.Equal(t, "s", metrics["gym.slow_time"].Unit)
		sum, ok := metrics["gym.slow_time"].Data.(metricdata.Sum[float64])
		require.True(t, ok)
		assert.True(t, sum.IsMonotonic)
		assert.NotContains(t, byCause(metrics.points("gym.slow_time")), observer.CauseNone)

		increase := byCause(collect(t, delta).points("gym.slow_time"))
		assert.Equal(t, 4*window.Seconds(), increase[observer.CauseLock])
		assert.Equal(t, window.Seconds(), increase[observer.CauseUnknown])
		assert.Zero(t, byCause(collect(t, delta).points("gym.slow_time"))[observer.CauseLock])

		o.Stop()
		assert.Empty(t, collect(t, cumulative).points("gym.slow_time"))
		o = run()
		defer o.Stop()
		assert.Equal(t, 4*window.Seconds(), total(observer.CauseLock))
		publish(2, observer.CauseLock, 9)
		assert.Equal(t, 5*window.Seconds(), total(observer.CauseLock))
	})
}

func TestOldestAgeHasAPointWhileWorkIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cumulative, delta := sdkmetric.NewManualReader(), deltaReader()
		o := observer.Start(t.Context(), "test", observer.WithMeterProvider(providerOf(cumulative, delta)), observer.WithSampleInterval(time.Hour))
		defer o.Stop()
		ages := func() (all []float64) {
			for _, reader := range []*sdkmetric.ManualReader{cumulative, delta} {
				metrics := collect(t, reader)
				assert.Empty(t, metrics.points("gym.server.requests.oldest_age"), "rollouts are no requests")
				for _, p := range metrics.points("gym.driver.rollouts.oldest_age") {
					assert.Zero(t, p.attributes.Len())
					all = append(all, p.value)
				}
			}
			return all
		}
		assert.Empty(t, ages())
		end := rollouts(2)
		assert.Equal(t, []float64{2, 2}, ages())
		time.Sleep(90 * time.Second)
		assert.Equal(t, []float64{92, 92}, ages())
		end()
		assert.Empty(t, ages())
	})
}

// tree is a machine with a cgroup of version 2 that has a quota, and with one
// thread. A test may change it while it is read.
type tree struct {
	tasks string

	mu    sync.Mutex
	files fstest.MapFS
}

func newTree(t *testing.T) *tree {
	m := &tree{tasks: t.TempDir(), files: fstest.MapFS{}}
	m.write("proc/self/cgroup", "0::/\n")
	m.write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup2 rw\n")
	m.write("proc/stat", "cpu 1 2 3 4 5 6 7 8 9 0\n")
	m.write("sys/fs/cgroup/cpu.max", "50000 100000\n")
	m.write("sys/fs/cgroup/memory.max", "1000000\n")
	m.write("sys/fs/cgroup/memory.current", "250000\n")
	m.write("sys/fs/cgroup/memory.stat", "inactive_file 50000\n")
	require.NoError(t, os.Mkdir(filepath.Join(m.tasks, "17"), 0o755))
	m.count(t, 0, 0)
	return m
}

func (m *tree) Open(name string) (fs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.files.Open(name)
}

func (m *tree) write(name, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[name] = &fstest.MapFile{Data: []byte(text)}
}

// count sets the totals that the kernel counts.
func (m *tree) count(t *testing.T, delay, throttled time.Duration) {
	m.write("sys/fs/cgroup/cpu.stat", fmt.Sprintf("usage_usec 5\nnr_throttled 3\nthrottled_usec %d\n", throttled.Microseconds()))
	require.NoError(t, os.WriteFile(filepath.Join(m.tasks, "17", "schedstat"), fmt.Appendf(nil, "1000 %d 3\n", delay.Nanoseconds()), 0o644))
}

func TestKernelTotalsOutliveAStop(t *testing.T) {
	observer.OnlyOnLinux(t)
	observer.WithoutTotals(t)
	machine := newTree(t)
	machine.count(t, 5*time.Second, time.Hour)
	observer.WithMachine(t, machine, machine.tasks)
	synctest.Test(t, func(t *testing.T) {
		cumulative, delta := sdkmetric.NewManualReader(), deltaReader()
		provider := providerOf(cumulative, delta)
		run := func() *observer.Observer {
			o := observer.Start(t.Context(), "test", observer.WithMeterProvider(provider), observer.WithWindow(window), observer.WithSampleInterval(time.Second))
			synctest.Wait()
			return o
		}
		totals := func(reader *sdkmetric.ManualReader) [2]float64 {
			metrics := collect(t, reader)
			return [2]float64{metrics.require(t, "process.cpu.run_delay"), metrics.require(t, "process.cpu.throttled_time")}
		}
		o := run()
		assert.Equal(t, [2]float64{5, 0}, totals(cumulative), "the group's time from before may be another process's")
		assert.Equal(t, [2]float64{5, 0}, totals(delta))

		machine.count(t, 9*time.Second, time.Hour+2*time.Second)
		time.Sleep(12 * time.Second)
		assert.Equal(t, [2]float64{9, 2}, totals(cumulative))
		assert.Equal(t, [2]float64{4, 2}, totals(delta))
		d := observer.Diagnose()
		assert.NotContains(t, d.Unmeasured, observer.CauseCPUThrottled)
		assert.Contains(t, d.Unmeasured, observer.CauseCPUContended, "the quota is in the run delay")
		loads := byCause(collect(t, cumulative).points("gym.load"))
		assert.InDelta(t, 2/d.Window.Seconds(), loads[observer.CauseCPUThrottled], 1e-9)
		assert.Equal(t, 0.2, loads[observer.CauseMemory])
		assert.NotContains(t, loads, observer.CauseCPUContended)

		o.Stop()
		for _, name := range []string{"process.cpu.run_delay", "process.cpu.throttled_time"} {
			assert.Empty(t, collect(t, cumulative).points(name))
		}
		machine.count(t, 10*time.Second, time.Hour+5*time.Second)
		defer run().Stop()
		assert.Equal(t, [2]float64{10, 5}, totals(cumulative))
	})
}

func TestFailingMachineIsLoggedOnceAndUnmeasured(t *testing.T) {
	machine := newTree(t)
	for _, name := range []string{"sys/fs/cgroup/cpu.stat", "sys/fs/cgroup/memory.current", "proc/stat"} {
		machine.write(name, "garbage")
	}
	observer.WithMachine(t, machine, machine.tasks)
	synctest.Test(t, func(t *testing.T) {
		o := start(t, "test", observer.WithWindow(time.Second), observer.WithSampleInterval(100*time.Millisecond))
		machine.write("sys/fs/cgroup/cpu.stat", "throttled_usec ?\n")
		time.Sleep(10 * time.Second)
		unmeasured := observer.Diagnose().Unmeasured
		assert.Contains(t, unmeasured, observer.CauseCPUThrottled)
		assert.Contains(t, unmeasured, observer.CauseMemory)
		for _, cause := range []string{"cpu_throttled", "memory", "steal"} {
			assert.Len(t, o.log.Of("survived", "cause="+cause+" "), 1, cause)
		}
	})
}
