package observer_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
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

// A program without a loop to watch has counters all the same.
func ExampleAcquire() {
	reader := metric.NewManualReader()
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
	provider := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	defer provider.Shutdown(context.Background())

	observing := observer.Start(context.Background(), "server", observer.WithMeterProvider(provider))
	defer observing.Stop()

	fmt.Println(observing.Err())
	// Output: <nil>
}

func ExampleMiddleware() {
	defer observer.Start(context.Background(), "server", export.WithReader(metric.NewManualReader())).Stop()

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
	defer observer.Start(context.Background(), "driver", export.WithReader(metric.NewManualReader())).Stop()

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
