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
	add(rawSystemCalls, floor, each(readRaw))
	add(withObserver, ours, diagnosed)
	add("observer, before the first diagnosis", ours, whileObserved(func(o *observed, e effort) (sample, error) {
		populate()
		return collecting(o.collect).time(e), nil
	}))
	add(callbackAlone, ours, callback)
	add("contrib runtime with its Producer, and host", peer, prepared(contribCollector))
	add("client_golang Go and process collectors", peer, prepared(promCollector))
	add("gopsutil, four values", peer, prepared(gopsutilCollector))
	return f
}

// diagnosed measures the observer after its first window, when it has everything
// to tell.
func diagnosed(e effort) (sample, error) {
	o, err := observe(observer.WithWindow(time.Second))
	if err != nil {
		return sample{}, err
	}
	defer o.Stop()
	populate()
	awaitDiagnosis()
	return collecting(o.collect).time(e), nil
}

func awaitDiagnosis() {
	for observer.Diagnose().At.IsZero() {
		time.Sleep(10 * time.Millisecond)
	}
}

func each(collect func()) func(effort) (sample, error) {
	return func(e effort) (sample, error) { return collecting(collect).time(e), nil }
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

// readRaw reads what the observer reads, with nothing between it and the kernel
// or the runtime. It ignores failures: the observer's own reading shows them.
func readRaw() {
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &usage)
	var stat unix.Stat_t
	_ = unix.Stat("/proc/self/task", &stat)
	_ = unix.Stat("/proc/self/fd", &stat)
	if file, err := unix.Open("/proc/self/statm", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		var text [128]byte
		_, _ = unix.Read(file, text[:])
		_ = unix.Close(file)
	}
	metrics.Read(heapTotals[:])
}

var heapTotals = [...]metrics.Sample{
	{Name: "/gc/cycles/total:gc-cycles"},
	{Name: "/gc/heap/frees:objects"},
	{Name: "/gc/heap/allocs:objects"},
	{Name: "/gc/finalizers/queued:finalizers"},
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
