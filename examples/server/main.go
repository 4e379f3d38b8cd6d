// Command server is an observed HTTP server, to run and to copy from. It brings
// its own clients, some of whom hang up, and a slow downstream.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/examples/internal/demo"
	"github.com/gym-observer/observer/export"
)

const usage = `An HTTP server that is observed, with clients and a slow downstream of its own.

  go run ./examples/server -duration 20s
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 go run ./examples/server
  NEMO_GYM_OTEL_EXPORTER=console go run ./examples/server

Each line shows what the process exported since the line before:
  lag        how late a goroutine ran after it was due: all work waits this long
  in flight  requests being served, and of the server's own those without an answer
  GC         collections, and how long they stopped the program
  CPU        processors in use, of those that Go may use
  hang-ups   clients that left before their response was complete

The live page shows the same and more, and what slows the process down.
More clients raise the lag: try -clients 2000. Ctrl-C drains the server and ends it.
`

func main() { os.Exit(run()) }

func run() int {
	address := flag.String("address", "127.0.0.1:0", "where to listen; port 0 takes a free one")
	clients := flag.Int("clients", 20, "how many clients call at once; 0 leaves the server to you")
	duration := flag.Duration("duration", 0, "end after this long; 0 runs until Ctrl-C")
	every := flag.Duration("every", 2*time.Second, "how often to print a line; 0 prints none")
	demo.ParseFlags(usage)

	// Not the context that Ctrl-C ends: the drain after it is observed, too. The
	// readout is for the lines below; a server of yours needs no argument here.
	readout := demo.NewReadout()
	observing := observer.Start(context.Background(), "server", export.FromEnv(readout.Reader))
	defer observing.Stop()

	model, err := demo.Serve("127.0.0.1:0", demo.Model())
	if err != nil {
		return fail(err)
	}
	client := &http.Client{Transport: observer.Transport(demo.NewTransport())}
	mux := http.NewServeMux()
	mux.Handle("/", observer.Middleware(demo.Rollouts(client, model.URL)))
	mux.Handle("/debug/observer", observer.Handler()) // beside the middleware: who looks is not counted
	server, err := demo.Serve(*address, mux)
	if err != nil {
		return fail(err)
	}
	fmt.Printf("Serving %s with %d clients. Try: curl %s/rollouts/7 (or /rollouts/7/events, /search, /crash)\n",
		server.URL, *clients, server.URL)
	fmt.Printf("The live page is at %s/debug/observer\n", server.URL)
	fmt.Println(demo.WhereMetricsGo(observing.Err()))
	fmt.Println("Ctrl-C ends it; -help explains the lines.")

	ctx, cancel := demo.Until(*duration)
	defer cancel()
	load := startLoad(ctx, server.URL, *clients)
	readout.Report(ctx, *every, line)

	fmt.Println("Draining.")
	load.wait()
	if err := server.Drain(); err != nil {
		return fail(err)
	}
	client.CloseIdleConnections()
	if err := model.Drain(); err != nil {
		return fail(err)
	}
	if observing.Err() == nil {
		load.summarize(observer.Requests().Counts())
	}
	return 0
}

// line is what is printed about one reading.
func line(reading demo.Reading) string {
	return fmt.Sprintf("lag %s  in flight %.0f (%.0f outbound)  GC %s  CPU %s  responses %.0f  hang-ups %.0f",
		reading.Lag(),
		reading.Value(observer.RequestsInFlightInstrument).Sum,
		reading.Value(observer.OutboundInFlightInstrument).Sum,
		reading.GC(),
		reading.CPU(),
		reading.Value(observer.ResponsesInstrument).Sum,
		reading.Value(observer.RequestsCancelledInstrument).Sum)
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "server:", err)
	return 1
}
