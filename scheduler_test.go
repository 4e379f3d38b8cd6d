package observer_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
)

// distribution is one point of a histogram, in a form that a child can print.
type distribution struct {
	Count         uint64
	Sum, Min, Max float64
	Bounds        []float64
	BucketCounts  []uint64
}

func (d distribution) mean() float64 { return d.Sum / float64(d.Count) }

// atMost returns how many values are not above bound, which must be a boundary.
func (d distribution) atMost(bound float64) (n uint64) {
	for i, count := range d.BucketCounts[:len(d.Bounds)] {
		if d.Bounds[i] <= bound {
			n += count
		}
	}
	return n
}

// read collects what a reader exports now. Children, which have no testing.T,
// use it in the place of collect.
func read(reader *sdkmetric.ManualReader) exported {
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		panic(err)
	}
	metrics := make(exported)
	for _, scoped := range all.ScopeMetrics {
		for _, m := range scoped.Metrics {
			metrics[m.Name] = m
		}
	}
	return metrics
}

// distributionOf returns the one point of a histogram that a reader exports now,
// or the zero value where there is none.
func distributionOf(reader *sdkmetric.ManualReader, name string) distribution {
	switch data := read(reader)[name].Data.(type) {
	case metricdata.Histogram[int64]:
		return distributionFrom(data.DataPoints)
	case metricdata.Histogram[float64]:
		return distributionFrom(data.DataPoints)
	}
	return distribution{}
}

func distributionFrom[N int64 | float64](points []metricdata.HistogramDataPoint[N]) distribution {
	if len(points) != 1 {
		panic(fmt.Sprintf("%d points of a histogram, not one", len(points)))
	}
	p := points[0]
	minimum, _ := p.Min.Value()
	maximum, _ := p.Max.Value()
	return distribution{p.Count, float64(p.Sum), float64(minimum), float64(maximum), p.Bounds, p.BucketCounts}
}

// observeInChild observes the child at an interval, over one more reader than is
// given.
func observeInChild(interval time.Duration, more ...sdkmetric.Reader) (*observer.Observer, *sdkmetric.ManualReader) {
	reader := sdkmetric.NewManualReader()
	provider := providerOf(append(more, reader)...)
	o := observer.Start(context.Background(), "child", observer.WithMeterProvider(provider), observer.WithSampleInterval(interval))
	for len(read(reader)) == 0 {
		runtime.Gosched() // the instruments are still being made, on a slow machine
	}
	return o, reader
}

func printJSON(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// outputOf runs a child and reads the JSON that it prints into v. A child that
// hangs is killed and fails the test.
func outputOf(t *testing.T, child *exec.Cmd, v any) {
	t.Helper()
	child.WaitDelay = time.Second
	stuck := time.AfterFunc(time.Minute, func() { _ = child.Process.Kill() })
	defer stuck.Stop()
	output, err := child.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(output, v), "%s", output)
}

func init() {
	observer.ChildModes["idle"] = func() error {
		o, reader := observeInChild(50 * time.Millisecond)
		before := runDelay()
		time.Sleep(10 * time.Second)
		o.Stop()
		return printJSON(idled{distributionOf(reader, observer.EventLoopLagInstrument), runDelay() - before})
	}

	// Prints the lag each time that it is sent a line.
	observer.ChildModes["stopped by a signal"] = func() error {
		o, reader := observeInChild(50 * time.Millisecond)
		defer o.Stop()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			if err := printJSON(distributionOf(reader, observer.EventLoopLagInstrument)); err != nil {
				return err
			}
		}
		return nil
	}

	observer.ChildModes["long run queue"] = longRunQueue
}

// queued is what a child with a long run queue saw.
type queued struct {
	Lag, RunQueue distribution
	Pass          float64 // how long a goroutine that yields waits for its next turn, in ms
}

// longRunQueue keeps 2,000 goroutines in the run queue, each of which works for
// a moment and goes to the end of it.
func longRunQueue() error {
	o, reader := observeInChild(10 * time.Millisecond)
	var (
		passes, waited atomic.Int64
		end            atomic.Bool
		workers        sync.WaitGroup
	)
	for range 2000 {
		workers.Go(func() {
			for !end.Load() {
				for began := time.Now(); time.Since(began) < 20*time.Microsecond; {
				}
				yielded := time.Now()
				runtime.Gosched()
				waited.Add(int64(time.Since(yielded)))
				passes.Add(1)
			}
		})
	}
	for distributionOf(reader, observer.EventLoopLagInstrument).Count < 20 {
		runtime.Gosched()
	}
	end.Store(true)
	workers.Wait()
	o.Stop()
	return printJSON(queued{
		Lag:      distributionOf(reader, observer.EventLoopLagInstrument),
		RunQueue: distributionOf(reader, observer.EventLoopRunQueueInstrument),
		Pass:     float64(waited.Load()) / float64(passes.Load()) / 1e6,
	})
}

// idled is what an idle child saw.
type idled struct {
	Lag      distribution
	RunDelay time.Duration
}

// runDelay is how long this process's threads have waited for a processor that
// others had; 0 where the kernel does not say.
func runDelay() (total time.Duration) {
	threads, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, thread := range threads {
		text, _ := os.ReadFile(thread)
		var ran, waited time.Duration
		_, _ = fmt.Sscan(string(text), &ran, &waited)
		total += waited
	}
	return total
}

func TestH27AnIdleProcessHasNoLag(t *testing.T) {
	const bound = 5 // ms
	var saw idled
	outputOf(t, observer.Child(t, "idle"), &saw)
	assert.GreaterOrEqual(t, saw.Lag.Min, 0.0)
	// 200 on average. A busy machine, where each is late, has a few less.
	assert.InDelta(t, 200, saw.Lag.Count, 40)
	late := saw.Lag.Count - saw.Lag.atMost(bound)
	if float64(late) > 0.05*float64(saw.Lag.Count) && saw.RunDelay >= time.Duration(late)*bound*time.Millisecond {
		t.Skipf("the machine is not idle: %d samples were late, and others kept the processors for %v", late, saw.RunDelay)
	}
	assert.LessOrEqual(t, float64(late), 0.05*float64(saw.Lag.Count), "%+v", saw)
}

func TestALongRunQueue(t *testing.T) {
	var seen queued
	outputOf(t, observer.Child(t, "long run queue", "GOMAXPROCS=2"), &seen)
	t.Run("ShowsInTheLag", func(t *testing.T) {
		// The sampler's goroutine waits about as long for its turn as the others do.
		// Without the yield in sample it does not wait in the queue at all, and shows
		// a few per cent of that.
		assert.GreaterOrEqual(t, seen.Lag.mean(), seen.Pass/2, "%+v", seen)
	})
	t.Run("ShowsInTheRunQueue", func(t *testing.T) {
		assert.GreaterOrEqual(t, seen.RunQueue.mean(), 1000.0, "%+v", seen)
		assert.LessOrEqual(t, seen.RunQueue.Max, 2100.0, "%+v", seen)
	})
}

// listening is a provider that hears of every recording, and exports nothing.
type listening struct {
	noop.MeterProvider
	recorded func(name string, value float64)
}

func (l listening) Meter(string, ...metric.MeterOption) metric.Meter {
	return listeningMeter{listening: l}
}

type listeningMeter struct {
	noop.Meter
	listening
}

func (m listeningMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return listeningHistogram{name: name, listening: m.listening}, nil
}

type listeningHistogram struct {
	noop.Float64Histogram
	listening
	name string
}

func (h listeningHistogram) Record(_ context.Context, value float64, _ ...metric.RecordOption) {
	h.recorded(h.name, value)
}

// grain is how exactly samplesIn sees when a sample was taken.
const grain = 100 * time.Microsecond

// samplesIn returns the times of the samples in a stretch of a bubble's time.
func samplesIn(t *testing.T, stretch, interval time.Duration) (at []time.Time, lags []float64) {
	var mu sync.Mutex // recordings come from a goroutine of their own
	o := observer.Start(t.Context(), "", observer.WithSampleInterval(interval), observer.WithMeterProvider(listening{
		recorded: func(name string, value float64) {
			if name == observer.EventLoopLagInstrument {
				mu.Lock()
				defer mu.Unlock()
				at, lags = append(at, time.Now()), append(lags, value)
			}
		},
	}))
	require.NoError(t, o.Err())
	for end := time.Now().Add(stretch); time.Now().Before(end); time.Sleep(grain) {
		synctest.Wait() // a sample of this moment has been taken
		observer.PassOn()
	}
	o.Stop()
	return at, lags
}

func TestSamplesAreAFifthAroundTheIntervalApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, _ := samplesIn(t, 20*time.Second, 100*time.Millisecond)
		assert.InDelta(t, 200, len(at), 15)
		shortest, longest := time.Hour, time.Duration(0)
		for i := range len(at) - 1 {
			apart := at[i+1].Sub(at[i])
			shortest, longest = min(shortest, apart), max(longest, apart)
		}
		assert.GreaterOrEqual(t, shortest, 80*time.Millisecond-grain)
		assert.LessOrEqual(t, longest, 120*time.Millisecond+grain)
		assert.Greater(t, longest-shortest, 20*time.Millisecond, "the intervals vary")
	})
}

func TestASchedulerThatIsNeverLateHasNoLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, lags := samplesIn(t, 10*time.Second, 10*time.Millisecond)
		require.NotEmpty(t, lags)
		for _, lag := range lags {
			require.Zero(t, lag)
		}
	})
}

func TestStartDoesNotWaitForASamplerThatIsStuckInTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck, unstuck := make(chan struct{}), make(chan struct{})
		var once sync.Once
		p, err := observer.Acquire(t.Context(), observer.WithMeterProvider(listening{recorded: func(name string, _ float64) {
			if name == observer.GCPauseInstrument {
				once.Do(func() { close(stuck); <-unstuck })
			}
		}}))
		require.NoError(t, err)
		first := observer.Start(t.Context(), "first")
		runtime.GC()
		<-stuck
		first.Stop()
		began := time.Now()
		second := observer.Start(t.Context(), "second")
		assert.NoError(t, second.Err())
		second.Stop()
		p.Release()
		assert.Less(t, time.Since(began), 3*time.Second)
		close(unstuck)
	})
}

func TestH30StopIsPromptAtALongInterval(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 100 {
		o := observer.Start(context.Background(), "patient", observer.WithMeterProvider(providerOf(sdkmetric.NewManualReader())),
			observer.WithSampleInterval(time.Hour))
		require.NoError(t, o.Err())
		began := time.Now()
		o.Stop()
		require.Less(t, time.Since(began), time.Second)
	}
	for end := time.Now().Add(time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		require.True(t, time.Now().Before(end), "a goroutine remains")
	}
}

func TestH30StopTakesNoTimeAndLeavesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for range 100 {
			o := observer.Start(context.Background(), "patient", observer.WithMeterProvider(providerOf(sdkmetric.NewManualReader())),
				observer.WithSampleInterval(time.Hour))
			require.NoError(t, o.Err())
			o.Stop()
		}
		assert.Zero(t, time.Since(began))
	}) // which fails if a goroutine remains
}

func TestTheLastSampleHasNoLag(t *testing.T) {
	o := start(t, "brief")
	o.Stop()
	assert.Zero(t, distributionOf(o.reader, observer.EventLoopLagInstrument).Count)
}

func TestALoopsLagAndQueueBearItsName(t *testing.T) {
	a := start(t, "a", observer.WithSampleInterval(time.Millisecond))
	b := observer.Start(context.Background(), "b", observer.WithSampleInterval(time.Millisecond))
	t.Cleanup(b.Stop)
	require.Eventually(t, func() bool {
		metrics := a.collect(t)
		for _, name := range []string{observer.EventLoopLagInstrument, observer.EventLoopRunQueueInstrument} {
			if len(metrics.points(name)) < 2 {
				return false
			}
		}
		return true
	}, 10*time.Second, time.Millisecond)
	metrics := a.collect(t)
	for _, name := range []string{observer.EventLoopLagInstrument, observer.EventLoopRunQueueInstrument} {
		for _, loop := range []string{"a", "b"} {
			assert.Positive(t, metrics.require(t, name, ofLoop(loop)))
		}
	}
}

// child is a running child that answers each line with one.
type child struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startChild(t *testing.T, mode string) *child {
	t.Helper()
	c := &child{Cmd: observer.Child(t, mode)}
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	c.in, c.out = in, bufio.NewScanner(out)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
	return c
}

// ask reads the child's next answer into v.
func (c *child) ask(t *testing.T, v any) {
	t.Helper()
	_, err := fmt.Fprintln(c.in)
	require.NoError(t, err)
	require.True(t, c.out.Scan(), "the child has ended: %v", c.out.Err())
	require.NoError(t, json.Unmarshal(c.out.Bytes(), v))
}
