package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	gopsutil "github.com/shirou/gopsutil/v4/process"
	"go.opentelemetry.io/contrib/instrumentation/host"
	contrib "go.opentelemetry.io/contrib/instrumentation/runtime"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"golang.org/x/sys/unix"

	"github.com/gym-observer/observer"
)

const (
	rawSystemCalls = "raw system calls and runtime/metrics"
	callbackAlone  = "observer's callback alone, without the SDK"
)

// collections measures one collection of everything with extra descriptors open.
func collections(name string, descriptors int) *family {
	f := &family{
		name:  name,
		about: "One collection of everything into a reused buffer. The observer's holds five status codes, ten cancelled routes, a driver and the load of each cause.",
		unit:  "ns",
	}
	add := func(name string, role role, run func(effort) (sample, error)) {
		f.cases = append(f.cases, &testCase{name, role, func(e effort) (sample, error) {
			closeAll, err := openDescriptors(descriptors)
			defer closeAll()
			if err != nil {
				return sample{}, err
			}
			return run(e)
		}})
	}
	add(rawSystemCalls, floor, prepared(rawReader))
	add(withObserver, ours, diagnosed(func(o *observed) (func(), error) { return o.collect, nil }))
	add("observer, before the first diagnosis", ours, whileObserved(func(o *observed, e effort) (sample, error) {
		populate()
		return collecting(o.collect).time(e), nil
	}))
	add(callbackAlone, ours, callback)
	add("the SDK alone, as many points", floor, diagnosed(func(o *observed) (func(), error) {
		o.collect()
		return samePoints(o.buffer)
	}))
	add("contrib runtime with its Producer, and host", peer, prepared(contribCollector))
	add("client_golang Go and process collectors", peer, prepared(promCollector))
	add("gopsutil, four values", peer, prepared(gopsutilCollector))
	return f
}

// diagnosed measures a collection after the observer's first window, when it has
// everything to tell.
func diagnosed(collector func(*observed) (collect func(), err error)) func(effort) (sample, error) {
	return whileObserved(func(o *observed, e effort) (sample, error) {
		populate()
		awaitDiagnosis()
		collect, err := collector(o)
		if err != nil {
			return sample{}, err
		}
		return collecting(collect).time(e), nil
	}, observer.WithWindow(time.Second))
}

func awaitDiagnosis() {
	for observer.Diagnose().At.IsZero() {
		time.Sleep(10 * time.Millisecond)
	}
}

// prepared makes a collector once and measures it each time.
func prepared(make func() (func(), error)) func(effort) (sample, error) {
	made := sync.OnceValues(make)
	return func(e effort) (sample, error) {
		collect, err := made()
		if err != nil {
			return sample{}, err
		}
		return collecting(collect).time(e), nil
	}
}

func collecting(collect func()) operation {
	return operation{repeat: func(n int) {
		for range n {
			collect()
		}
	}}
}

// populate gives every signal of the observer a point.
func populate() {
	requests := observer.Requests()
	for _, status := range []int{http.StatusOK, http.StatusCreated, http.StatusNotFound, http.StatusInternalServerError, http.StatusBadGateway} {
		requests.CountResponse(status)
	}
	for i := range 10 {
		requests.CountCancellation(fmt.Sprintf("/route/%d", i), i%2 == 0)
	}
	recordRollout()()
}

// rawReader returns a function that reads what the observer reads, with nothing
// between it and the kernel or the runtime. It ignores failures of the readings:
// the observer's own shows them.
func rawReader() (read func(), err error) {
	var descriptors [3]int
	for i, path := range []string{"/proc/self/task", "/proc/self/fd", "/proc/self/statm"} {
		if descriptors[i], err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return nil, err
		}
	}
	return func() {
		var usage unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &usage)
		var stat unix.Stat_t
		_ = unix.Fstat(descriptors[0], &stat)
		_ = unix.Fstat(descriptors[1], &stat)
		var text [128]byte
		_, _ = unix.Pread(descriptors[2], text[:], 0)
		metrics.Read(heapTotals[:])
	}, nil
}

var heapTotals = [...]metrics.Sample{
	{Name: "/gc/cycles/total:gc-cycles"},
	{Name: "/gc/heap/frees:objects"},
	{Name: "/gc/heap/allocs:objects"},
	{Name: "/gc/finalizers/queued:finalizers"},
}

// samePoints returns a collection of the instruments and points of another one,
// with values that cost nothing to find.
func samePoints(of metricdata.ResourceMetrics) (collect func(), err error) {
	reader := sdkmetric.NewManualReader()
	meter := providerOf(reader).Meter("bench")
	var made []metric.Observable
	var observe []func(metric.Observer)
	ints := func(instrument metric.Int64Observable, points []metricdata.DataPoint[int64]) {
		made = append(made, instrument)
		for _, p := range points {
			attributes := []metric.ObserveOption{metric.WithAttributeSet(p.Attributes)}
			observe = append(observe, func(o metric.Observer) { o.ObserveInt64(instrument, p.Value, attributes...) })
		}
	}
	floats := func(instrument metric.Float64Observable, points []metricdata.DataPoint[float64]) {
		made = append(made, instrument)
		for _, p := range points {
			attributes := []metric.ObserveOption{metric.WithAttributeSet(p.Attributes)}
			observe = append(observe, func(o metric.Observer) { o.ObserveFloat64(instrument, p.Value, attributes...) })
		}
	}
	for _, scope := range of.ScopeMetrics {
		for _, m := range scope.Metrics {
			var failed error
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				var instrument metric.Int64Observable
				instrument, failed = meter.Int64ObservableCounter(m.Name)
				ints(instrument, data.DataPoints)
			case metricdata.Gauge[int64]:
				var instrument metric.Int64Observable
				instrument, failed = meter.Int64ObservableGauge(m.Name)
				ints(instrument, data.DataPoints)
			case metricdata.Sum[float64]:
				var instrument metric.Float64Observable
				instrument, failed = meter.Float64ObservableCounter(m.Name)
				floats(instrument, data.DataPoints)
			case metricdata.Gauge[float64]:
				var instrument metric.Float64Observable
				instrument, failed = meter.Float64ObservableGauge(m.Name)
				floats(instrument, data.DataPoints)
			case metricdata.Histogram[int64]:
				failed = recordOnce(meter, m.Name, data.DataPoints)
			case metricdata.Histogram[float64]:
				failed = recordOnce(meter, m.Name, data.DataPoints)
			default:
				failed = fmt.Errorf("%s is a %T", m.Name, data)
			}
			if failed != nil {
				return nil, failed
			}
		}
	}
	if _, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, f := range observe {
			f(o)
		}
		return nil
	}, made...); err != nil {
		return nil, err
	}
	var buffer metricdata.ResourceMetrics
	return func() { _ = reader.Collect(context.Background(), &buffer) }, nil
}

// recordOnce makes a histogram with the same buckets and attribute sets.
func recordOnce[N int64 | float64](meter metric.Meter, name string, points []metricdata.HistogramDataPoint[N]) error {
	for _, p := range points {
		instrument, err := meter.Float64Histogram(name, metric.WithExplicitBucketBoundaries(p.Bounds...))
		if err != nil {
			return err
		}
		instrument.Record(context.Background(), 1, metric.WithAttributeSet(p.Attributes))
	}
	return nil
}

// callback measures the observer's callback, which a provider of our own hands
// out, without the SDK around it.
func callback(e effort) (sample, error) {
	taken := new(callbackTaker)
	o := observer.Start(context.Background(), "server", observer.WithMeterProvider(taken), observer.WithWindow(time.Second))
	defer o.Stop()
	if err := o.Err(); err != nil {
		return sample{}, err
	}
	populate()
	awaitDiagnosis()
	return collecting(func() { _ = taken.callback(context.Background(), noop.Observer{}) }).time(e), nil
}

// callbackTaker is a provider that keeps the callback registered with it.
type callbackTaker struct {
	noop.MeterProvider
	callback metric.Callback
}

func (t *callbackTaker) Meter(string, ...metric.MeterOption) metric.Meter {
	return callbackMeter{to: t}
}

type callbackMeter struct {
	noop.Meter
	to *callbackTaker
}

func (m callbackMeter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.to.callback = f
	return noop.Registration{}, nil
}

func contribCollector() (func(), error) {
	// Without the interval of 15 s, in which it would answer from its memory:
	// exports are further apart than these collections.
	fresh := contrib.WithMinimumReadMemStatsInterval(0)
	producer := contrib.NewProducer(contrib.WithMinimumReadMemStatsInterval(0).(contrib.ProducerOption))
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(producer))
	provider := providerOf(reader)
	if err := contrib.Start(contrib.WithMeterProvider(provider), fresh); err != nil {
		return nil, err
	}
	if err := host.Start(host.WithMeterProvider(provider)); err != nil {
		return nil, err
	}
	var buffer metricdata.ResourceMetrics
	collect := func() { _ = reader.Collect(context.Background(), &buffer) }
	return collect, reader.Collect(context.Background(), &buffer)
}

func promCollector() (func(), error) {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	_, err := registry.Gather()
	return func() { _, _ = registry.Gather() }, err
}

func gopsutilCollector() (func(), error) {
	process, err := gopsutil.NewProcess(int32(os.Getpid()))
	return func() {
		_, _ = process.Times()
		_, _ = process.MemoryInfo()
		_, _ = process.NumThreads()
		_, _ = process.NumFDs()
	}, err
}

// openDescriptors opens n descriptors, until closeAll.
func openDescriptors(n int) (closeAll func(), err error) {
	var open []int
	closeAll = func() {
		for _, file := range open {
			_ = unix.Close(file)
		}
	}
	for range n {
		file, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return closeAll, fmt.Errorf("opening %d descriptors (raise ulimit -n): %w", n, err)
		}
		open = append(open, file)
	}
	return closeAll, nil
}

// collectionTime returns the microseconds of one collection.
func collectionTime(o *observed) float64 {
	o.collect()
	const times = 50
	began := time.Now()
	for range times {
		o.collect()
	}
	return time.Since(began).Seconds() * 1e6 / times
}
