// Command prometheus is an observed server that Prometheus scrapes.
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

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/prometheus"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
)

const usage = `An observed server that Prometheus scrapes: no collector, nothing is sent.

  go run .
  curl -s http://127.0.0.1:8080/rollouts/7
  curl -s http://127.0.0.1:8080/metrics | grep ^gym_

Names have underscores and the unit: gym.event_loop.lag_ms is
gym_event_loop_lag_ms_milliseconds. The endpoint stands beside the middleware,
so that scrapes do not count as requests. In prometheus.yml:

  scrape_configs:
    - job_name: server
      static_configs: [{targets: ["127.0.0.1:8080"]}]

The exit status is 0 after Ctrl-C, 1 if the server failed, 2 for wrong usage.

`

func main() { os.Exit(run()) }

func run() int {
	address := flag.String("address", "127.0.0.1:8080", "where to listen; port 0 takes a free one")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "prometheus: unexpected argument %q; -help explains\n", flag.Arg(0))
		return 2
	}

	// The exporter is a reader like any other. It registers with Prometheus's
	// default registry, which promhttp.Handler serves.
	exporter, err := prometheus.New(prometheus.WithProducer(export.NewProducer()))
	if err != nil {
		return fail(err)
	}
	observing := observer.Start(context.Background(), "server", export.WithReader(exporter))
	defer observing.Stop()

	rollouts := http.NewServeMux()
	rollouts.HandleFunc("GET /rollouts/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "rollout %s\n", r.PathValue("id"))
	})
	mux := http.NewServeMux()
	mux.Handle("/", observer.Middleware(rollouts))
	mux.Handle("GET /metrics", promhttp.Handler())

	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return fail(err)
	}
	fmt.Printf("Serving http://%s. Try: curl http://%[1]s/rollouts/7\n", listener.Addr())
	if err := observing.Err(); err != nil {
		fmt.Printf("Nothing observes it: %v.\n", err)
	}
	fmt.Printf("Its metrics: curl http://%s/metrics\n", listener.Addr())
	fmt.Println("Ctrl-C ends it.")
	if err := serve(listener, mux); err != nil {
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
	fmt.Fprintln(os.Stderr, "prometheus:", err)
	return 1
}
