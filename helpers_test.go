package observer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/testlog"
)

// observed is a running observer with what a test sees of it.
type observed struct {
	*observer.Observer
	provider *sdkmetric.MeterProvider
	reader   *sdkmetric.ManualReader
	log      *testlog.Log
}

// start observes the process through a reader of its own until the test ends.
// It samples once an hour, unless an option says otherwise, so that nothing
// happens that the test does not do.
func start(t testing.TB, loop string, options ...observer.Option) *observed {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	o := &observed{provider: providerOf(reader), reader: reader, log: new(testlog.Log)}
	o.Observer = observer.Start(context.Background(), loop, append([]observer.Option{
		observer.WithMeterProvider(o.provider), observer.WithLogger(o.log.Logger()), observer.WithSampleInterval(time.Hour),
	}, options...)...)
	t.Cleanup(o.Stop)
	require.NoError(t, o.Err())
	return o
}

func (o *observed) collect(t testing.TB) exported {
	t.Helper()
	return collect(t, o.reader)
}

func providerOf(readers ...sdkmetric.Reader) *sdkmetric.MeterProvider {
	var options []sdkmetric.Option
	for _, reader := range readers {
		options = append(options, sdkmetric.WithReader(reader))
	}
	return sdkmetric.NewMeterProvider(options...)
}

// deltaReader is a reader that exports what came since its last collection.
func deltaReader() *sdkmetric.ManualReader {
	return sdkmetric.NewManualReader(sdkmetric.WithTemporalitySelector(func(sdkmetric.InstrumentKind) metricdata.Temporality {
		return metricdata.DeltaTemporality
	}))
}

// exported is one collection of this package's metrics by name.
type exported map[string]metricdata.Metrics

const scope = "github.com/gym-observer/observer"

func collect(t testing.TB, reader *sdkmetric.ManualReader) exported {
	t.Helper()
	metrics, err := gather(reader)
	require.NoError(t, err)
	return metrics
}

func gather(reader *sdkmetric.ManualReader) (exported, error) {
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		return nil, err
	}
	metrics := make(exported)
	for _, scoped := range all.ScopeMetrics {
		if scoped.Scope.Name != scope {
			continue
		}
		for _, m := range scoped.Metrics {
			if _, twice := metrics[m.Name]; twice {
				return nil, fmt.Errorf("%s is exported twice", m.Name)
			}
			metrics[m.Name] = m
		}
	}
	return metrics, nil
}

// printValues is how a child hands its last collection to its test: each value
// by name and attributes, as JSON.
func printValues(reader *sdkmetric.ManualReader) error {
	metrics, err := gather(reader)
	if err != nil {
		return err
	}
	values := make(map[string]float64)
	for name := range metrics {
		for _, p := range metrics.points(name) {
			values[name+"{"+p.attributes.Encoded(attribute.DefaultEncoder())+"}"] = p.value
		}
	}
	return json.NewEncoder(os.Stdout).Encode(values)
}

// valuesOf runs a child that ends with printValues.
func valuesOf(t testing.TB, mode string) (values map[string]float64) {
	t.Helper()
	output, err := observer.Child(t, mode).Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(output, &values), "%s", output)
	return values
}

// value returns the one point of a metric, or with attributes that one of its
// points; ok tells whether there is one. Of a histogram it is the count.
func (e exported) value(name string, attributes ...attribute.KeyValue) (value float64, ok bool) {
	want := attribute.NewSet(attributes...)
	for _, p := range e.points(name) {
		if p.attributes.Equals(&want) {
			return p.value, true
		}
	}
	return 0, false
}

// require returns the value of a point that must be there.
func (e exported) require(t testing.TB, name string, attributes ...attribute.KeyValue) float64 {
	t.Helper()
	value, ok := e.value(name, attributes...)
	require.True(t, ok, "no point of %s with %v", name, attributes)
	return value
}

// point is one value under its attributes. For a histogram the value is its count.
type point struct {
	attributes attribute.Set
	value, sum float64
}

func (e exported) points(name string) (all []point) {
	switch data := e[name].Data.(type) {
	case metricdata.Sum[int64]:
		return numbers(data.DataPoints)
	case metricdata.Sum[float64]:
		return numbers(data.DataPoints)
	case metricdata.Gauge[int64]:
		return numbers(data.DataPoints)
	case metricdata.Gauge[float64]:
		return numbers(data.DataPoints)
	case metricdata.Histogram[int64]:
		return histograms(data.DataPoints)
	case metricdata.Histogram[float64]:
		return histograms(data.DataPoints)
	}
	return nil
}

func numbers[N int64 | float64](data []metricdata.DataPoint[N]) (all []point) {
	for _, p := range data {
		all = append(all, point{attributes: p.Attributes, value: float64(p.Value)})
	}
	return all
}

func histograms[N int64 | float64](data []metricdata.HistogramDataPoint[N]) (all []point) {
	for _, p := range data {
		all = append(all, point{attributes: p.Attributes, value: float64(p.Count), sum: float64(p.Sum)})
	}
	return all
}

// ofLoop is the attribute of one loop's points.
func ofLoop(name string) attribute.KeyValue {
	return attribute.String("nemo.gym.event_loop", name)
}

// hooked is an SDK provider that lists the calls of its life in their order, and
// does what a test puts in their way.
type hooked struct {
	*sdkmetric.MeterProvider
	onFlush      func(context.Context) error // instead of flushing
	onUnregister func() error                // before unregistering
	onRegister   func() error                // before registering
	onMeter      func()

	mu    sync.Mutex
	calls []string
}

func (h *hooked) called(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, name)
}

// callsSoFar returns the calls in their order.
func (h *hooked) callsSoFar() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.calls...)
}

func (h *hooked) Meter(name string, options ...metric.MeterOption) metric.Meter {
	if h.onMeter != nil {
		h.onMeter()
	}
	return hookedMeter{h.MeterProvider.Meter(name, options...), h}
}

func (h *hooked) ForceFlush(ctx context.Context) error {
	h.called("flush")
	if h.onFlush != nil {
		return h.onFlush(ctx)
	}
	return h.MeterProvider.ForceFlush(ctx)
}

func (h *hooked) Shutdown(ctx context.Context) error {
	h.called("shutdown")
	return h.MeterProvider.Shutdown(ctx)
}

type hookedMeter struct {
	metric.Meter
	provider *hooked
}

func (m hookedMeter) RegisterCallback(f metric.Callback, observables ...metric.Observable) (metric.Registration, error) {
	m.provider.called("register")
	if m.provider.onRegister != nil {
		if err := m.provider.onRegister(); err != nil {
			return nil, err
		}
	}
	registration, err := m.Meter.RegisterCallback(f, observables...)
	return hookedRegistration{registration, m.provider}, err
}

type hookedRegistration struct {
	metric.Registration
	provider *hooked
}

func (r hookedRegistration) Unregister() error {
	r.provider.called("unregister")
	if r.provider.onUnregister != nil {
		if err := r.provider.onUnregister(); err != nil {
			return err
		}
	}
	return r.Registration.Unregister()
}

// opened opens a provider whose shutdown is the observer's.
func opened(provider metric.MeterProvider, shutdown func(context.Context) error) observer.Option {
	return observer.WithProvider(func(context.Context, string, observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
		return provider, shutdown, nil
	})
}

// within runs call, which must be done after bound by the real clock.
func within(t testing.TB, bound time.Duration, what string, call func()) (took time.Duration) {
	t.Helper()
	began := time.Now()
	call()
	took = time.Since(began)
	assert.Less(t, took, bound, "%s took too long", what)
	return took
}

// observes tells whether anything observes this process.
func observes() bool { return observer.Requests() != nil }

var errOfTest = errors.New("refused by the test")

// Providers that go wrong where the observer calls them.
type (
	brokenProvider struct {
		metric.MeterProvider
		meter func() metric.Meter
	}
	brokenMeter struct {
		metric.Meter
		register func() (metric.Registration, error)
	}
)

func (p brokenProvider) Meter(string, ...metric.MeterOption) metric.Meter { return p.meter() }

func (m brokenMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return m.register()
}

func open(provider metric.MeterProvider, shutdown func(context.Context) error, err error) observer.Option {
	return observer.WithProvider(func(context.Context, string, observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
		return provider, shutdown, err
	})
}
