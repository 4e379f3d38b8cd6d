// Command chi is a server on chi's router that is observed.
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

	"github.com/go-chi/chi/v5"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
)

const usage = `A server on chi's router that is observed.

  NEMO_GYM_OTEL_EXPORTER=console OTEL_METRIC_EXPORT_INTERVAL=2000 go run .
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 go run .

The middleware of package observer is the first one of the router, which sets the
pattern of the request that it gets. With -outside it stands around the router,
as where other handlers are in between, and asks that for the pattern.

To see that a cancelled request counts under its pattern:

  curl --max-time 1 http://127.0.0.1:8080/rollouts/7/wait

The exit status is 0 after Ctrl-C, 1 if the server failed, 2 for wrong usage.

`

// inside returns a router with the middleware in it.
func inside() http.Handler {
	router := chi.NewRouter()
	router.Use(func(next http.Handler) http.Handler { return observer.Middleware(next) })
	addRoutes(router)
	return router
}

// outside returns the middleware around a router. The router passes a copy of
// the request on, so that the middleware's own does not learn the pattern.
func outside() http.Handler {
	router := chi.NewRouter()
	addRoutes(router)
	return observer.Middleware(router, observer.WithRoute(func(r *http.Request) string {
		return router.Find(chi.NewRouteContext(), r.Method, r.URL.Path)
	}))
}

func addRoutes(router chi.Router) {
	router.Route("/rollouts/{id}", func(router chi.Router) {
		router.Get("/", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "rollout %s\n", chi.URLParam(r, "id"))
		})
		router.Get("/wait", func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done() // until the client gives up
		})
	})
}

func main() { os.Exit(run()) }

func run() int {
	address := flag.String("address", "127.0.0.1:8080", "where to listen; port 0 takes a free one")
	around := flag.Bool("outside", false, "put the middleware around the router, not into it")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "chi: unexpected argument %q; -help explains\n", flag.Arg(0))
		return 2
	}

	observing := observer.Start(context.Background(), "server", export.FromEnv())
	defer observing.Stop()

	handler := inside()
	if *around {
		handler = outside()
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return fail(err)
	}
	fmt.Printf("Serving http://%s. Try: curl http://%[1]s/rollouts/7\n", listener.Addr())
	if err := observing.Err(); err != nil {
		fmt.Printf("Nothing observes it: %v. -help says how to turn that on.\n", err)
	}
	fmt.Println("Ctrl-C ends it.")
	if err := serve(listener, handler); err != nil {
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
	fmt.Fprintln(os.Stderr, "chi:", err)
	return 1
}
