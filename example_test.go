package observer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
)

// A server, the client that it calls others with, and the one line that exports
// what happens in them.
func Example() {
	defer observer.Start(context.Background(), "server", export.FromEnv()).Stop()

	client := &http.Client{Transport: observer.Transport(nil)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /rollouts/{id}", func(w http.ResponseWriter, r *http.Request) {
		response, err := client.Get("http://127.0.0.1:9000/models/" + r.PathValue("id"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		fmt.Fprintln(w, response.Status)
	})
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: observer.Middleware(mux)}
	fmt.Println(server.ListenAndServe())
}

func ExampleStart() {
	observing := observer.Start(context.Background(), "driver", export.FromEnv(),
		observer.WithSampleInterval(50*time.Millisecond), observer.WithTaskCount(true))
	defer observing.Stop()

	if err := observing.Err(); err != nil {
		fmt.Println("going on without telemetry:", err)
	}
}

// Stop comes after the drain, so that the last requests are in the last export.
func ExampleObserver_Stop() {
	observing := observer.Start(context.Background(), "server", export.WithReader(sdkmetric.NewManualReader()))
	server := httptest.NewServer(observer.Middleware(http.NotFoundHandler()))

	server.Close() // http.Server.Shutdown in a real one
	observing.Stop()
	fmt.Println(errors.Is(observing.Err(), observer.ErrStopped))
	// Output: true
}

// A program that is of no use unobserved can tell.
func ExampleObserver_Err() {
	observing := observer.Start(context.Background(), "server", export.FromEnv())
	defer observing.Stop()

	if errors.Is(observing.Err(), observer.ErrOff) {
		fmt.Println("set OTEL_EXPORTER_OTLP_ENDPOINT to see anything")
	}
}

func ExampleObserver_Settings() {
	observing := observer.Start(context.Background(), "server",
		export.WithReader(sdkmetric.NewManualReader()), observer.WithSampleInterval(50*time.Millisecond))
	defer observing.Stop()

	fmt.Println(observing.Settings().SampleInterval)
	// Output: 50ms
}

// A program without a loop to watch has counters all the same.
func ExampleAcquire() {
	reader := sdkmetric.NewManualReader()
	process, err := observer.Acquire(context.Background(), export.WithReader(reader))
	if err != nil {
		fmt.Println("going on without telemetry:", err)
	}
	defer process.Release()

	fmt.Println(observer.Requests() != nil)
	// Output: true
}

// A provider that the application has already stays its own to shut down.
func ExampleWithMeterProvider() {
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	defer provider.Shutdown(context.Background())

	observing := observer.Start(context.Background(), "server", observer.WithMeterProvider(provider))
	defer observing.Stop()

	fmt.Println(observing.Err())
	// Output: <nil>
}

// A provider that is opened when the first Start needs one, and shut down by the
// last Stop: what package export is made of.
func ExampleWithProvider() {
	fromEverywhere := observer.WithProvider(func(_ context.Context, loop string, _ observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
		fmt.Println("opening for", loop)
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
		return provider, provider.Shutdown, nil
	})
	defer observer.Start(context.Background(), "server", fromEverywhere).Stop()
	// Output: opening for server
}

// A process in which milliseconds count looks more often.
func ExampleWithSampleInterval() {
	defer observer.Start(context.Background(), "server", export.FromEnv(), observer.WithSampleInterval(10*time.Millisecond)).Stop()
}

func ExampleWithTaskCount() {
	defer observer.Start(context.Background(), "server", export.FromEnv(), observer.WithTaskCount(true)).Stop()
}

// A short window shows a verdict sooner, for a demonstration or a test.
func ExampleWithWindow() {
	defer observer.Start(context.Background(), "server", export.FromEnv(), observer.WithWindow(time.Second)).Stop()
}

func ExampleWithLogger() {
	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil)).With("component", "observer")
	defer observer.Start(context.Background(), "server", export.FromEnv(), observer.WithLogger(logger)).Stop()
}

// Evidence for the next morning: a trace, the goroutines and the diagnosis.
func ExampleWithCapture() {
	defer observer.Start(context.Background(), "server", export.FromEnv(),
		observer.WithCapture("/var/lib/app/evidence")).Stop()
}

// Where the disk is small, the oldest evidence goes sooner.
func ExampleWithCaptureBudget() {
	defer observer.Start(context.Background(), "server", export.FromEnv(),
		observer.WithCapture("/var/lib/app/evidence", observer.WithCaptureBudget(32<<20))).Stop()
}

func ExampleWithCaptureCooldown() {
	defer observer.Start(context.Background(), "server", export.FromEnv(),
		observer.WithCapture("/var/lib/app/evidence", observer.WithCaptureCooldown(time.Hour))).Stop()
}

// A server that promises 100 ms keeps evidence of each time when a goroutine
// waited as long for a processor.
func ExampleWithCaptureLag() {
	defer observer.Start(context.Background(), "server", export.FromEnv(),
		observer.WithCapture("/var/lib/app/evidence", observer.WithCaptureLag(100*time.Millisecond))).Stop()
}

// What slows this process down, for a health page or a log of one's own.
func ExampleDiagnose() {
	defer observer.Start(context.Background(), "server", export.FromEnv()).Stop()

	diagnosis := observer.Diagnose()
	if diagnosis.Verdict != observer.CauseNone {
		fmt.Println(diagnosis.Summary)
	}
	for _, work := range diagnosis.Oldest {
		fmt.Println(work.Kind, work.Name, work.Age)
	}
}

// For scripts, as JSON.
func ExampleDiagnosis() {
	http.HandleFunc("GET /debug/diagnosis", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(observer.Diagnose())
	})
}

// The live page stands beside the middleware, so that who looks is not counted,
// and on a port that only operators reach.
func ExampleHandler() {
	defer observer.Start(context.Background(), "server", export.WithReader(sdkmetric.NewManualReader())).Stop()

	mux := http.NewServeMux()
	mux.Handle("/debug/observer", observer.Handler())
	server := httptest.NewServer(mux)
	defer server.Close()
	if response, err := http.Get(server.URL + "/debug/observer?format=json"); err == nil {
		response.Body.Close()
		fmt.Println(response.Status)
	}
	// Output: 200 OK
}

func ExampleMiddleware() {
	defer observer.Start(context.Background(), "server", export.WithReader(sdkmetric.NewManualReader())).Stop()

	server := httptest.NewServer(observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		fmt.Println("in flight:", observer.Requests().Counts().InFlight)
	})))
	defer server.Close()
	if response, err := http.Get(server.URL); err == nil {
		response.Body.Close()
	}
	// Output: in flight: 1
}

// MaxBytesHandler passes a copy of the request on, so that the middleware's own
// does not learn the pattern; the mux can be asked again.
func ExampleWithRoute() {
	mux := http.NewServeMux()
	handler := observer.Middleware(http.MaxBytesHandler(mux, 1<<20), observer.WithRoute(func(r *http.Request) string {
		_, pattern := mux.Handler(r)
		return pattern
	}))
	fmt.Println(http.ListenAndServe("127.0.0.1:8080", handler))
}

func ExampleTransport() {
	client := &http.Client{Transport: observer.Transport(http.DefaultTransport)}
	response, err := client.Get("http://127.0.0.1:9000/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
}

// The metered limit takes the semaphore's place where that is made.
func ExampleNewMeteredAdmission() {
	defer observer.Start(context.Background(), "driver", export.WithReader(sdkmetric.NewManualReader())).Stop()

	admission := observer.NewMeteredAdmission(semaphore.NewWeighted(16))
	err := admission.Do(context.Background(), func(context.Context) error {
		fmt.Println("active:", observer.Driver().Counts().Active)
		return nil
	})
	fmt.Println(err)
	// Output:
	// active: 1
	// <nil>
}

// Do gives the share back whatever happens in between.
func ExampleMeteredAdmission_Do() {
	admission := observer.NewMeteredAdmission(semaphore.NewWeighted(1))

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := admission.Do(ctx, func(context.Context) error { return nil })
	fmt.Println("too late:", err)
	// Output: too late: context canceled
}

func ExampleMeteredAdmission_Admit() {
	admission := observer.NewMeteredAdmission(semaphore.NewWeighted(1))

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	release, err := admission.Admit(ctx)
	if err != nil {
		fmt.Println("gave up:", err)
		return
	}
	defer release()
	fmt.Println("admitted")
	// Output: admitted
}

// Code that is written against a semaphore keeps its calls.
func ExampleMeteredAdmission_Acquire() {
	var limit observer.Limiter = observer.NewMeteredAdmission(semaphore.NewWeighted(8))
	if err := limit.Acquire(context.Background(), 2); err != nil {
		fmt.Println("gave up:", err)
		return
	}
	defer limit.Release(2)
	fmt.Println("admitted with a weight of 2")
	// Output: admitted with a weight of 2
}

func ExampleMeteredAdmission_TryAcquire() {
	admission := observer.NewMeteredAdmission(semaphore.NewWeighted(1))
	fmt.Println(admission.TryAcquire(1), admission.TryAcquire(1))
	admission.Release(1)
	// Output: true false
}

// Driver is nil while nothing observes; its methods may be called all the same.
func ExampleDriver() {
	observer.Driver().Offer(1)
	err := observer.Driver().CountResident(func() error {
		end := observer.Driver().BeginOutputWrite(context.Background())
		n, err := fmt.Println(`{"id": 1, "reward": 0.5}`)
		end(int64(n))
		observer.Driver().RecordRollout(context.Background(), observer.RolloutSize{InputItems: 3, OutputItems: 8, Turns: 2})
		return err
	})
	fmt.Println(err)
	// Output:
	// {"id": 1, "reward": 0.5}
	// <nil>
}

// A server that is not net/http counts its requests itself.
func ExampleRequests() {
	serve := func(method string) {
		requests := observer.Requests()
		defer requests.Begin()()
		fmt.Println("serving", method)
		requests.CountResponse(http.StatusOK)
	}
	serve("Step")
	// Output: serving Step
}

// Totals live as long as the process, so a test compares two readings.
func ExampleRequestMetrics_Counts() {
	defer observer.Start(context.Background(), "server", export.WithReader(sdkmetric.NewManualReader())).Stop()

	before := observer.Requests().Counts().Responses[http.StatusNotFound]
	handler := observer.Middleware(http.NotFoundHandler())
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(observer.Requests().Counts().Responses[http.StatusNotFound] - before)
	// Output: 1
}

// A server that is not net/http counts a client that went away, under the name of
// a registered method.
func ExampleRequestMetrics_CountCancellation() {
	serve := func(ctx context.Context, method string) {
		requests := observer.Requests()
		defer requests.Begin()()
		<-ctx.Done()
		requests.CountCancellation(method, false)
	}
	ctx, hangUp := context.WithCancel(context.Background())
	hangUp()
	serve(ctx, "/rollouts.Agent/Step")
}

// A server that is not net/http counts a panic, and lets it go on.
func ExampleRequestMetrics_CountUnhandledException() {
	serve := func(handle func()) {
		requests := observer.Requests()
		defer requests.Begin()()
		defer func() {
			if panicked := recover(); panicked != nil {
				requests.CountUnhandledException()
				panic(panicked)
			}
		}()
		handle()
		requests.CountResponse(http.StatusOK)
	}
	serve(func() { fmt.Println("handling") })
	// Output: handling
}

// A client that is not net/http counts its calls until they are answered.
func ExampleRequestMetrics_BeginOutbound() {
	defer observer.Start(context.Background(), "server", export.WithReader(sdkmetric.NewManualReader())).Stop()

	end := observer.Requests().BeginOutbound()
	fmt.Println("waiting:", observer.Requests().Counts().OutboundInFlight)
	end()
	fmt.Println("answered:", observer.Requests().Counts().OutboundInFlight)
	// Output:
	// waiting: 1
	// answered: 0
}

func ExampleDriverMetrics_CountResident() {
	defer observer.Start(context.Background(), "driver", export.WithReader(sdkmetric.NewManualReader())).Stop()

	err := observer.Driver().CountResident(func() error {
		fmt.Println("resident:", observer.Driver().Counts().Resident)
		return errors.New("the rollout's own")
	})
	fmt.Println(err)
	// Output:
	// resident: 1
	// the rollout's own
}

func ExampleDriverMetrics_RecordMaterialize() {
	began := time.Now()
	var input struct{ Prompt string }
	err := json.Unmarshal([]byte(`{"prompt": "prove it"}`), &input)
	observer.Driver().RecordMaterialize(context.Background(), time.Since(began))
	fmt.Println(input.Prompt, err)
	// Output: prove it <nil>
}

// A store that tells afterwards how long a write took.
func ExampleDriverMetrics_RecordOutputWrite() {
	write := func(line []byte) (took time.Duration, err error) { return 3 * time.Millisecond, nil }

	line := []byte(`{"id": 1, "reward": 0.5}`)
	took, err := write(line)
	observer.Driver().RecordOutputWrite(context.Background(), took, int64(len(line)))
	fmt.Println(took, err)
	// Output: 3ms <nil>
}

// A write that hangs shows from its beginning.
func ExampleDriverMetrics_BeginOutputWrite() {
	end := observer.Driver().BeginOutputWrite(context.Background())
	n, err := os.Stdout.WriteString("{\"id\": 1}\n")
	end(int64(n))
	if err != nil {
		fmt.Println(err)
	}
	// Output: {"id": 1}
}
