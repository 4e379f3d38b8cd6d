// Command gin is a server on gin's engine that is observed.
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

	"github.com/gin-gonic/gin"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
)

const usage = `A server on gin's engine that is observed.

  NEMO_GYM_OTEL_EXPORTER=console OTEL_METRIC_EXPORT_INTERVAL=2000 go run .
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 go run .

The middleware of package observer stands around the engine, and one line of gin
middleware tells it the route: gin itself does not set Request.Pattern. Panics
that gin.Recovery turns into a 500 count as that, and not as unhandled.

To see that a cancelled request counts under its route:

  curl --max-time 1 http://127.0.0.1:8080/rollouts/7/wait

The exit status is 0 after Ctrl-C, 1 if the server failed, 2 for wrong usage.

`

func newHandler() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.Use(func(c *gin.Context) { c.Request.Pattern = c.FullPath() }) // before any that replaces c.Request
	engine.Use(gin.Recovery())
	engine.GET("/rollouts/:id", func(c *gin.Context) {
		c.String(http.StatusOK, "rollout %s\n", c.Param("id"))
	})
	engine.GET("/rollouts/:id/wait", func(c *gin.Context) {
		<-c.Request.Context().Done() // until the client gives up
	})
	return observer.Middleware(engine)
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
		fmt.Fprintf(os.Stderr, "gin: unexpected argument %q; -help explains\n", flag.Arg(0))
		return 2
	}

	observing := observer.Start(context.Background(), "server", export.FromEnv())
	defer observing.Stop()

	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return fail(err)
	}
	fmt.Printf("Serving http://%s. Try: curl http://%[1]s/rollouts/7\n", listener.Addr())
	if err := observing.Err(); err != nil {
		fmt.Printf("Nothing observes it: %v. -help says how to turn that on.\n", err)
	}
	fmt.Println("Ctrl-C ends it.")
	if err := serve(listener, newHandler()); err != nil {
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
	fmt.Fprintln(os.Stderr, "gin:", err)
	return 1
}
