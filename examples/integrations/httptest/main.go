// Command httptest is a small observed server. What there is to copy is its test,
// main_test.go: how an application asserts what it would export.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
)

const usage = `An observed server that grades answers. Its test is what there is to copy:

  go test -v .
  NEMO_GYM_OTEL_EXPORTER=console OTEL_METRIC_EXPORT_INTERVAL=2000 go run .
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 go run .

The exit status is 0 after Ctrl-C, 1 if the server failed, 2 for wrong usage.

`

// grader gives an answer its reward.
type grader func(ctx context.Context, answer string) (reward float64, err error)

// newHandler returns the server, with what a test replaces as an argument.
func newHandler(grade grader) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /grades/{answer}", func(w http.ResponseWriter, r *http.Request) {
		reward, err := grade(r.Context(), r.PathValue("answer"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, reward)
	})
	return observer.Middleware(mux)
}

// gradeByCase likes capital letters.
func gradeByCase(_ context.Context, answer string) (float64, error) {
	if answer == strings.ToUpper(answer) {
		return 1, nil
	}
	return 0, nil
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
		fmt.Fprintf(os.Stderr, "httptest: unexpected argument %q; -help explains\n", flag.Arg(0))
		return 2
	}

	observing := observer.Start(context.Background(), "server", export.FromEnv())
	defer observing.Stop()

	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return fail(err)
	}
	fmt.Printf("Serving http://%s. Try: curl http://%[1]s/grades/YES\n", listener.Addr())
	if err := observing.Err(); err != nil {
		fmt.Printf("Nothing observes it: %v. -help says how to turn that on.\n", err)
	}
	fmt.Println("Ctrl-C ends it.")
	if err := serve(listener, newHandler(gradeByCase)); err != nil {
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
	fmt.Fprintln(os.Stderr, "httptest:", err)
	return 1
}
