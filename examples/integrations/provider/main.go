// Command provider is an observed server with an OpenTelemetry provider of its
// own, as an application has that exports metrics already.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
)

const usage = `An observed server with an OpenTelemetry provider of its own.

  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 go run .

The provider, its resource, reader and views are the application's: here the
service is "rollouts", the exporter is OTLP over HTTP, and a view sets other
bucket boundaries for the lag. Package observer records into it, and leaves it to
the application to shut down. The runtime's scheduling latencies come with a
producer, which stands at the reader.

The exit status is 0 after Ctrl-C, 1 if the server failed, 2 for wrong usage.

`

// newProvider returns a provider as an application may have it already.
func newProvider(ctx context.Context) (*metric.MeterProvider, error) {
	exporter, err := otlpmetrichttp.New(ctx) // where to, the environment says
	if err != nil {
		return nil, err
	}
	about, err := resource.Merge(resource.Default(), resource.NewSchemaless(semconv.ServiceName("rollouts")))
	if err != nil {
		return nil, err
	}
	return metric.NewMeterProvider(
		metric.WithResource(about),
		metric.WithReader(metric.NewPeriodicReader(exporter, metric.WithProducer(export.NewProducer()))),
		metric.WithView(metric.NewView(
			metric.Instrument{Name: observer.EventLoopLagInstrument},
			metric.Stream{Aggregation: metric.AggregationExplicitBucketHistogram{Boundaries: []float64{1, 10, 100, 1000}}},
		)),
	), nil
}

func main() { os.Exit(run()) }

func run() int {
	address := flag.String("address", "127.0.0.1:8080", "where to listen; port 0 takes a free one")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "provider: unexpected argument %q; -help explains\n", flag.Arg(0))
		return 2
	}

	provider, err := newProvider(context.Background())
	if err != nil {
		return fail(err)
	}
	observing := observer.Start(context.Background(), "server", observer.WithMeterProvider(provider))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /rollouts/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "rollout %s\n", r.PathValue("id"))
	})
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return fail(err)
	}
	fmt.Printf("Serving http://%s. Try: curl http://%[1]s/rollouts/7\n", listener.Addr())
	if err := observing.Err(); err != nil {
		fmt.Printf("Nothing observes it: %v.\n", err)
	}
	fmt.Println("Its metrics go where OTEL_EXPORTER_OTLP_ENDPOINT says, else to https://localhost:4318.")
	fmt.Println("Ctrl-C ends it.")
	err = serve(listener, observer.Middleware(mux))

	// Stop has the provider flush; what the application opened, it shuts down. A
	// collector that is away is no failure of the server.
	observing.Stop()
	patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := provider.Shutdown(patience); err != nil {
		fmt.Fprintln(os.Stderr, "provider: shutting down the exporter:", err)
	}
	if err != nil {
		return fail(err)
	}
	return 0
}

// serve serves until Ctrl-C, and then until the requests under way are answered.
func serve(listener net.Listener, handler http.Handler) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait

	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(patience)
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "provider:", err)
	return 1
}
