package export_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
	"github.com/gym-observer/observer/internal/otlptest"
)

// Stop's promise, and some room for a busy machine.
const stopLimit = 3500 * time.Millisecond

// start observes until the test ends, and keeps what is logged. Afterwards it
// checks that nothing of the exporters is left running and that nothing went
// past the journal to the global error handler.
func start(t *testing.T, option observer.Option) (*observer.Observer, *otlptest.Journal) {
	t.Helper()
	return startLoop(t, "server", option)
}

func startLoop(t *testing.T, loop string, option observer.Option) (*observer.Observer, *otlptest.Journal) {
	t.Helper()
	var unhandled errorList
	otel.SetErrorHandler(&unhandled)
	journal := otlptest.NewJournal()
	o := observer.Start(context.Background(), loop, option, observer.WithLogger(journal.Logger), observer.WithSampleInterval(10*time.Millisecond))
	t.Cleanup(func() {
		o.Stop()
		assert.Empty(t, unhandled.list(), "errors that went to the global handler")
		requireNothingLeft(t)
	})
	return o, journal
}

type errorList struct {
	mu     sync.Mutex
	errors []error
}

func (l *errorList) Handle(err error) {
	// The SDK's reader says so itself of a collection that its provider is too late
	// for, at an interval as short as here, or that its Shutdown cuts off.
	if errors.Is(err, sdkmetric.ErrReaderNotRegistered) || errors.Is(err, context.Canceled) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors = append(l.errors, err)
}

func (l *errorList) list() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.errors)
}

// requireNothingLeft waits for the goroutines of exporters to end. gRPC's and
// net/http's do so by themselves once their connection is closed.
func requireNothingLeft(t *testing.T) {
	t.Helper()
	exporting := func() []string {
		text := make([]byte, 1<<20)
		text = text[:runtime.Stack(text, true)]
		var found []string
		for stack := range strings.SplitSeq(string(text), "\n\n") {
			for _, of := range []string{
				"sdk/metric.(*PeriodicReader)", "net/http.(*persistConn)", "net/http.(*http2ClientConn)", "net/http.(*Transport)",
				"transport.(*http2Client)", "grpc.(*addrConn)", "grpc.(*ClientConn)", "grpcsync.(*CallbackSerializer)",
			} {
				if strings.Contains(stack, of) {
					found = append(found, stack)
					break
				}
			}
		}
		return found
	}
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	deadline := time.Now().Add(5 * time.Second)
	left := exporting()
	for len(left) > 0 && time.Now().Before(deadline) {
		<-again.C
		left = exporting()
	}
	assert.Empty(t, left, "goroutines left")
}

// to sets the environment for one collector and exports every 50 ms.
func to(t *testing.T, protocol otlptest.Protocol, endpoint string) {
	t.Helper()
	otlptest.ClearEnvironment(t)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", string(protocol))
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
}

// overBoth runs a test for each protocol.
func overBoth(t *testing.T, test func(t *testing.T, protocol otlptest.Protocol)) {
	for _, protocol := range []otlptest.Protocol{otlptest.GRPC, otlptest.HTTP} {
		t.Run(string(protocol), func(t *testing.T) { test(t, protocol) })
	}
}

// responses returns the total of gym.server.responses_total for a status, or 0.
func responses(request otlptest.Request, status int64) int64 {
	for _, point := range request.Metric(observer.ResponsesInstrument).GetSum().GetDataPoints() {
		if point.GetAttributes()[0].GetValue().GetIntValue() == status {
			return point.GetAsInt()
		}
	}
	return 0
}

// countedBefore is the total of a status that no test but the caller counts.
func countedBefore(status int) int64 {
	return observer.Requests().Counts().Responses[status]
}

func TestNothingInTheEnvironmentIsOff(t *testing.T) {
	otlptest.ClearEnvironment(t)
	o, _ := start(t, export.FromEnv())
	assert.ErrorIs(t, o.Err(), observer.ErrOff)
	o, _ = start(t, export.FromEnv(nil))
	assert.ErrorIs(t, o.Err(), observer.ErrOff)
	o, _ = start(t, export.WithReader(nil))
	assert.ErrorIs(t, o.Err(), observer.ErrOff)
	o, _ = start(t, export.WithReader((*sdkmetric.ManualReader)(nil)))
	assert.ErrorIs(t, o.Err(), observer.ErrOff)
}

func TestExportArrives(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		to(t, protocol, collector.Endpoint())
		t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "team=rl")
		o, journal := start(t, export.FromEnv())
		require.NoError(t, o.Err())
		before := countedBefore(207)
		observer.Requests().CountResponse(207)

		request := collector.WaitFor(t, func(r otlptest.Request) bool { return responses(r, 207) == before+1 })
		assert.Equal(t, "rl", request.Resource()["team"])
		assert.Equal(t, "nemo-gym/server", request.Resource()["service.name"])
		assert.EqualValues(t, os.Getpid(), request.Resource()["process.pid"])
		assert.NotEmpty(t, request.Resource()["service.instance.id"])
		schedule := request.Metric("go.schedule.duration").GetHistogram()
		require.NotNil(t, schedule)
		assert.Equal(t, metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, schedule.GetAggregationTemporality())
		assert.NotZero(t, schedule.GetDataPoints()[0].GetCount())
		assert.Empty(t, journal.Lines("level=WARN"))
	})
}

func TestStopDeliversTheLastTotals(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		to(t, protocol, collector.Endpoint())
		t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "3600000")
		o, _ := start(t, export.FromEnv())
		before := countedBefore(207)
		observer.Requests().CountResponse(207)
		o.Stop()
		delivered := slices.ContainsFunc(collector.Requests(), func(r otlptest.Request) bool { return responses(r, 207) == before+1 })
		assert.True(t, delivered, "%d requests", len(collector.Requests()))
	})
}

func TestNothingIsDialledBeforeTheFirstExport(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		dialled := make(chan struct{}, 1000)
		address := otlptest.StartSilent(t, func() { dialled <- struct{}{} })
		to(t, protocol, "http://"+address)
		t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
		began := time.Now()
		o, _ := start(t, export.FromEnv())
		require.NoError(t, o.Err())
		<-dialled
		assert.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
	})
}

func TestPathOverHTTP(t *testing.T) {
	collector := otlptest.Start(t, otlptest.HTTP)
	for _, test := range []struct{ name, general, metrics, path string }{
		{"general", collector.Endpoint(), "", "/v1/metrics"},
		{"general with a prefix", collector.Endpoint() + "/otel", "", "/otel/v1/metrics"},
		{"metrics", "", collector.Endpoint() + "/in", "/in"},
		{"metrics without a path", "", collector.Endpoint(), "/"},
		{"metrics over general", "http://" + otlptest.ClosedAddress(t), collector.Endpoint() + "/in", "/in"},
		{"bare general", collector.Address(), "", "/v1/metrics"},
		{"bare general with a prefix", collector.Address() + "/otel/", "", "/otel/v1/metrics"},
		{"bare metrics", "", collector.Address() + "/in", "/in"},
		{"bare metrics without a path", "", collector.Address(), "/"},
	} {
		t.Run(test.name, func(t *testing.T) {
			to(t, otlptest.HTTP, test.general)
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", test.metrics)
			collector.Forget()
			start(t, export.FromEnv())
			request := collector.WaitFor(t, func(otlptest.Request) bool { return true })
			assert.Equal(t, test.path, request.Path)
		})
	}
}

func TestH43EndpointForms(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		t.Run("http", func(t *testing.T) {
			collector := otlptest.Start(t, protocol)
			to(t, protocol, "http://"+collector.Address())
			_, journal := start(t, export.FromEnv())
			collector.WaitForMetric(t, "go.schedule.duration")
			assert.Empty(t, journal.Lines("ENDPOINT"))
		})
		t.Run("https", func(t *testing.T) {
			collector := otlptest.StartTLS(t, protocol)
			to(t, protocol, "https://"+collector.Address())
			t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", collector.CertificateFile)
			_, journal := start(t, export.FromEnv())
			collector.WaitForMetric(t, "go.schedule.duration")
			assert.Empty(t, journal.Lines("level=WARN"))
		})
		for _, variable := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"} {
			t.Run("bare in "+variable, func(t *testing.T) {
				collector := otlptest.Start(t, protocol)
				to(t, protocol, "")
				t.Setenv(variable, collector.Address())
				_, journal := start(t, export.FromEnv())
				collector.WaitForMetric(t, "go.schedule.duration")
				assert.Len(t, journal.Lines("level=WARN"), 1)
				assert.Len(t, journal.Lines(variable+" has no scheme"), 1)
			})
		}
	})
}

func TestClientShowsItsCertificate(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.StartTLS(t, protocol)
		to(t, protocol, collector.Endpoint())
		t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", collector.CertificateFile)
		t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", collector.CertificateFile)
		t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", collector.KeyFile)
		start(t, export.FromEnv())
		assert.True(t, collector.WaitFor(t, func(otlptest.Request) bool { return true }).Certified)
	})
}

func TestUntrustedCertificateIsAnOutage(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.StartTLS(t, protocol)
		to(t, protocol, collector.Endpoint())
		t.Setenv("OTEL_METRIC_EXPORT_TIMEOUT", "2000") // gRPC tries again until then
		_, journal := start(t, export.FromEnv())
		journal.WaitFor(t, "level=WARN", "certificate")
		assert.Empty(t, collector.Requests())
	})
}

func TestHeadersAndCompressionArrive(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		to(t, protocol, collector.Endpoint())
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=a%20key,x-team=rl")
		t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
		start(t, export.FromEnv())
		request := collector.WaitFor(t, func(otlptest.Request) bool { return true })
		assert.Equal(t, "a key", request.Header.Get("X-Api-Key"))
		assert.Equal(t, "rl", request.Header.Get("X-Team"))
		assert.Equal(t, "gzip", request.Compression)
	})
}

func TestTemporalityPreferenceHolds(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		to(t, protocol, collector.Endpoint())
		t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
		start(t, export.FromEnv())
		lag := collector.WaitForMetric(t, observer.EventLoopLagInstrument).GetHistogram()
		assert.Equal(t, metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA, lag.GetAggregationTemporality())
	})
}

func TestH41ExportInterval(t *testing.T) {
	collector := otlptest.Start(t, otlptest.HTTP)
	t.Run("milliseconds", func(t *testing.T) {
		to(t, otlptest.HTTP, collector.Endpoint())
		t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
		began := time.Now()
		_, journal := start(t, export.FromEnv())
		collector.WaitForAttempts(t, 5)
		assert.GreaterOrEqual(t, time.Since(began), 500*time.Millisecond)
		assert.Empty(t, journal.Lines("level=WARN"))
	})
	t.Run("not milliseconds", func(t *testing.T) {
		to(t, otlptest.HTTP, collector.Endpoint())
		t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "5s")
		o, journal := start(t, export.FromEnv())
		assert.NoError(t, o.Err())
		assert.Len(t, journal.Lines("level=WARN"), 1)
		assert.Len(t, journal.Lines("OTEL_METRIC_EXPORT_INTERVAL", "5s"), 1)
	})
}

func TestH42OffSwitches(t *testing.T) {
	collector := otlptest.Start(t, otlptest.HTTP)
	for _, test := range []struct {
		variable, value string
		off             bool
	}{
		{"OTEL_SDK_DISABLED", "true", true},
		{"OTEL_SDK_DISABLED", "TRUE", true},
		{"OTEL_SDK_DISABLED", "tRuE", true},
		{"OTEL_SDK_DISABLED", "false", false},
		{"OTEL_SDK_DISABLED", "1", false},
		{"OTEL_SDK_DISABLED", "", false},
		{"NEMO_GYM_OTEL_ENABLED", "false", true},
		{"NEMO_GYM_OTEL_METRICS_ENABLED", "no", true},
		{"NEMO_LENS_ENABLED", "0", true},
		{"NEMO_LENS_METRICS_ENABLED", "off", true},
	} {
		t.Run(test.variable+"="+test.value, func(t *testing.T) {
			to(t, otlptest.HTTP, collector.Endpoint())
			t.Setenv(test.variable, test.value)
			goroutines := runtime.NumGoroutine()
			attempts := collector.Attempts()
			o, _ := start(t, export.FromEnv(sdkmetric.NewManualReader()))
			if test.off {
				assert.ErrorIs(t, o.Err(), observer.ErrOff)
				assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
				return
			}
			assert.NoError(t, o.Err())
			collector.WaitForAttempts(t, attempts+1)
		})
	}
}

func TestConsoleExporterWritesJSON(t *testing.T) {
	otlptest.ClearEnvironment(t)
	t.Setenv("NEMO_GYM_OTEL_EXPORTER", "console")
	read, write, err := os.Pipe()
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = write
	defer func() { os.Stdout = stdout }()
	written := make(chan []byte)
	go func() {
		text, _ := io.ReadAll(read)
		written <- text
	}()

	o, _ := start(t, export.FromEnv())
	require.NoError(t, o.Err())
	o.Stop()
	require.NoError(t, write.Close())
	text := <-written
	var export struct {
		ScopeMetrics []struct{ Metrics []struct{ Name string } }
	}
	line, _, _ := strings.Cut(string(text), "\n")
	require.NoError(t, json.Unmarshal([]byte(line), &export), "%s", line)
	var names []string
	for _, scope := range export.ScopeMetrics {
		for _, metric := range scope.Metrics {
			names = append(names, metric.Name)
		}
	}
	assert.Contains(t, names, observer.ProcessMemoryUsageInstrument)
	assert.Contains(t, names, "go.schedule.duration")
}

// A full pipe, as of a server whose log nobody reads any more.
func TestStopReturnsWhileTheConsoleIsStuck(t *testing.T) {
	otlptest.ClearEnvironment(t)
	t.Setenv("NEMO_GYM_OTEL_EXPORTER", "console")
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "1")
	read, write, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, write.SetWriteDeadline(time.Now().Add(time.Second)))
	_, err = write.Write(make([]byte, 1<<20)) // more than a pipe takes
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, write.SetWriteDeadline(time.Time{}))
	stdout := os.Stdout
	os.Stdout = write
	o, _ := start(t, export.FromEnv())
	os.Stdout = stdout
	require.NoError(t, o.Err())
	stopInTime(t, o)
	require.NoError(t, read.Close()) // lets go of the writer
	_ = write.Close()
}

// collect returns the names of what a reader collects.
func collect(t *testing.T, reader sdkmetric.Reader) (names []string, service string) {
	t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	for _, scope := range data.ScopeMetrics {
		for _, metric := range scope.Metrics {
			names = append(names, metric.Name)
		}
	}
	value, _ := data.Resource.Set().Value("service.name")
	return names, value.AsString()
}

func TestReadersNeedNoEnvironment(t *testing.T) {
	for name, option := range map[string]func(sdkmetric.Reader) observer.Option{
		"WithReader":              export.WithReader,
		"FromEnv":                 func(r sdkmetric.Reader) observer.Option { return export.FromEnv(nil, r) },
		"FromEnv with none named": func(r sdkmetric.Reader) observer.Option { return export.FromEnv(r) },
	} {
		t.Run(name, func(t *testing.T) {
			otlptest.ClearEnvironment(t)
			if name == "FromEnv with none named" {
				t.Setenv("NEMO_GYM_OTEL_EXPORTER", "none")
			}
			reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(export.NewProducer()))
			o, journal := startLoop(t, "judge", option(reader))
			require.NoError(t, o.Err())
			names, service := collect(t, reader)
			assert.Contains(t, names, observer.ProcessMemoryUsageInstrument)
			assert.Contains(t, names, "go.schedule.duration")
			assert.Equal(t, "nemo-gym/judge", service)
			assert.Empty(t, journal.Lines("level=WARN"))
		})
	}
}

func TestReadersAndTheEnvironmentShareOneProvider(t *testing.T) {
	collector := otlptest.Start(t, otlptest.GRPC)
	to(t, otlptest.GRPC, collector.Endpoint())
	cumulative := sdkmetric.NewManualReader()
	delta := sdkmetric.NewManualReader(sdkmetric.WithTemporalitySelector(sdkmetric.DeltaTemporalitySelector))
	o, _ := start(t, export.FromEnv(cumulative, delta))
	require.NoError(t, o.Err())
	collector.WaitForMetric(t, observer.ProcessMemoryUsageInstrument)
	for _, reader := range []sdkmetric.Reader{cumulative, delta} {
		names, _ := collect(t, reader)
		assert.Contains(t, names, observer.ProcessMemoryUsageInstrument)
	}
}

func TestWithReaderLooksForNoExporter(t *testing.T) {
	collector := otlptest.Start(t, otlptest.HTTP)
	to(t, otlptest.HTTP, collector.Endpoint())
	o, _ := start(t, export.WithReader(sdkmetric.NewManualReader()))
	require.NoError(t, o.Err())
	o.Stop()
	assert.Zero(t, collector.Attempts())
}

func TestUsedReader(t *testing.T) {
	otlptest.ClearEnvironment(t)
	shutDown := sdkmetric.NewManualReader()
	o, _ := start(t, export.WithReader(shutDown))
	require.NoError(t, o.Err())
	o.Stop()
	taken := sdkmetric.NewManualReader()
	other := sdkmetric.NewMeterProvider(sdkmetric.WithReader(taken))
	defer func() { _ = other.Shutdown(context.Background()) }()

	o, _ = start(t, export.WithReader(shutDown))
	assert.ErrorContains(t, o.Err(), "already used")
	o, _ = start(t, export.FromEnv(taken))
	assert.ErrorContains(t, o.Err(), "another provider")

	fresh := sdkmetric.NewManualReader()
	o, journal := start(t, export.FromEnv(shutDown, fresh, taken))
	require.NoError(t, o.Err())
	names, _ := collect(t, fresh)
	assert.Contains(t, names, observer.ProcessMemoryUsageInstrument)
	assert.Len(t, journal.Lines("level=WARN", "already used"), 1)
	assert.Len(t, journal.Lines("level=WARN", "another provider"), 1)
}

// TestUsedReaderLosesNothing: finding out about a reader must not take the deltas
// that belong to its own provider.
func TestUsedReaderLosesNothing(t *testing.T) {
	otlptest.ClearEnvironment(t)
	taken := sdkmetric.NewManualReader(sdkmetric.WithTemporalitySelector(sdkmetric.DeltaTemporalitySelector))
	other := sdkmetric.NewMeterProvider(sdkmetric.WithReader(taken))
	defer func() { _ = other.Shutdown(context.Background()) }()
	counter, err := other.Meter("application").Int64Counter("jobs")
	require.NoError(t, err)
	counter.Add(t.Context(), 3)
	start(t, export.FromEnv(taken))
	names, _ := collect(t, taken)
	assert.Contains(t, names, "jobs")
}

func TestStartAgainAfterStop(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		to(t, protocol, collector.Endpoint())
		option := export.FromEnv()
		var instances []any
		for range 2 {
			collector.Forget()
			o, _ := start(t, option)
			require.NoError(t, o.Err())
			request := collector.WaitFor(t, func(otlptest.Request) bool { return true })
			instances = append(instances, request.Resource()["service.instance.id"])
			o.Stop()
		}
		assert.Equal(t, instances[0], instances[1])
	})
}

func TestSeveralLoopsShareOneExporter(t *testing.T) {
	collector := otlptest.Start(t, otlptest.GRPC)
	to(t, otlptest.GRPC, collector.Endpoint())
	option := export.FromEnv()
	first, _ := startLoop(t, "server", option)
	second, _ := startLoop(t, "driver", option)
	require.NoError(t, first.Err())
	require.NoError(t, second.Err())
	request := collector.WaitFor(t, func(r otlptest.Request) bool {
		return len(r.Metric(observer.EventLoopLagInstrument).GetHistogram().GetDataPoints()) == 2
	})
	assert.Equal(t, "nemo-gym/server", request.Resource()["service.name"])
	second.Stop()
	seen := len(collector.Requests())
	collector.WaitFor(t, func(otlptest.Request) bool { return len(collector.Requests()) > seen })
	first.Stop()
}

func TestExporterThatCannotBeMade(t *testing.T) {
	to(t, otlptest.HTTP, "https://"+otlptest.ClosedAddress(t))
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "missing.pem")
	o, journal := start(t, export.FromEnv())
	require.ErrorContains(t, o.Err(), "otlp exporter")
	assert.NotErrorIs(t, o.Err(), observer.ErrOff)
	assert.NotEmpty(t, journal.Lines("level=WARN", "otlp exporter"))

	reader := sdkmetric.NewManualReader()
	o, journal = start(t, export.FromEnv(reader))
	require.NoError(t, o.Err(), "the reader is left")
	names, _ := collect(t, reader)
	assert.Contains(t, names, observer.ProcessMemoryUsageInstrument)
	assert.Len(t, journal.Lines("level=WARN", "otlp exporter"), 1)
}

func TestKeysThatAreNotUTF8DoNotStopTheExport(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		to(t, protocol, collector.Endpoint())
		t.Setenv("OTEL_SERVICE_NAME", "judge\xff")
		t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "z\xffne=b,team=\xff")
		start(t, export.FromEnv())
		request := collector.WaitFor(t, func(otlptest.Request) bool { return true })
		assert.Equal(t, "judge\uFFFD/server", request.Resource()["service.name"])
		assert.Equal(t, "b", request.Resource()["z\uFFFDne"])
		assert.Equal(t, "\uFFFD", request.Resource()["team"])
	})
}

func TestH80HostNameArrives(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		to(t, protocol, collector.Endpoint())
		t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "host.name=node-7")
		start(t, export.FromEnv())
		assert.Equal(t, "node-7", collector.WaitFor(t, anyRequest).Resource()["host.name"])
	})
}

func TestApplicationsDefaultTransportIsNotUsed(t *testing.T) {
	collector := otlptest.Start(t, otlptest.HTTP)
	to(t, otlptest.HTTP, collector.Endpoint())
	original := http.DefaultTransport
	http.DefaultTransport = observer.Transport(refusingTransport{})
	defer func() { http.DefaultTransport = original }()
	start(t, export.FromEnv())
	collector.WaitForMetric(t, "go.schedule.duration")
}

type refusingTransport struct{}

func (refusingTransport) RoundTrip(*http.Request) (*http.Response, error) {
	panic("the exporter went through the application's transport")
}
