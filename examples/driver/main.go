// Command driver is an observed rollout driver, to run and to copy from: 200
// rollouts are resident, 16 of them run at a time, and each calls a server for
// its turns and writes its output as a line of JSON.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/examples/internal/demo"
	"github.com/gym-observer/observer/export"
)

const usage = `A rollout driver that is observed: many rollouts are resident, a few run at a time.

  go run ./examples/driver -duration 20s
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 go run ./examples/driver
  go run ./examples/driver -server http://127.0.0.1:8080    # see examples/server -address

Each line shows what the process exported since the line before:
  resident   rollouts that exist: those that run, and those that wait for the limit
  active     rollouts past the limit
  admitted   rollouts that got past it, and their mean wait
  abandoned  rollouts whose deadline ended their wait
  written    output, and the mean time of a write
  lag        how late a goroutine ran after it was due

A higher limit shortens the waits until the server is the limit: try -limit 64.
It ends after 30 s, or with Ctrl-C, once the resident rollouts have finished.
`

func main() { os.Exit(run()) }

func run() int {
	server := flag.String("server", "", "URL of examples/server; without one the driver brings its own")
	output := flag.String("output", "", "file for the output; without one a new temporary file, which stays")
	resident := flag.Int("resident", 200, "how many rollouts exist at once")
	limit := flag.Int("limit", 16, "how many of them run at once")
	deadline := flag.Duration("deadline", time.Second, "how long one in eight rollouts waits for the limit at most")
	duration := flag.Duration("duration", 30*time.Second, "begin no rollout after this long; 0 runs until Ctrl-C")
	every := flag.Duration("every", 2*time.Second, "how often to print a line; 0 prints none")
	demo.ParseFlags(usage)
	if *resident < 1 || *limit < 1 {
		fmt.Fprintln(os.Stderr, "driver: -resident and -limit are at least 1; -help explains")
		return 2
	}

	// Not the context that Ctrl-C ends: the rollouts that then finish are observed,
	// too. The readout is for the lines below; a driver of yours does without.
	readout := demo.NewReadout()
	observing := observer.Start(context.Background(), "driver", export.FromEnv(readout.Reader))
	defer observing.Stop()

	if *server == "" {
		url, drain, err := startServer()
		if err != nil {
			return fail(err)
		}
		defer drain()
		*server = url
	}
	file, err := openOutput(*output)
	if err != nil {
		return fail(err)
	}
	defer file.Close()
	d := newDriver(strings.TrimSuffix(*server, "/"), int64(*limit), *deadline, file)
	if err := d.tryServer(); err != nil {
		return fail(err)
	}
	fmt.Printf("Driving %d rollouts, %d at a time, on %s.\n", *resident, *limit, *server)
	fmt.Printf("Their output goes to %s.\n", file.Name())
	fmt.Println(demo.WhereMetricsGo(observing.Err()))
	fmt.Println("Ctrl-C ends it; -help explains the lines.")

	ctx, cancel := demo.Until(*duration)
	defer cancel()
	d.start(ctx, *resident)
	readout.Report(ctx, *every, line)

	fmt.Println("Finishing the rollouts that are resident. Ctrl-C would leave them.")
	d.wait()
	d.summarize()
	if err := file.Close(); err != nil {
		return fail(err)
	}
	if d.finished.Load() == 0 {
		return fail(fmt.Errorf("no rollout finished; the last error: %w", d.lastError()))
	}
	return 0
}

// startServer starts examples/server in this process, without its clients.
func startServer() (url string, drain func(), err error) {
	model, err := demo.Serve("127.0.0.1:0", demo.Model())
	if err != nil {
		return "", nil, err
	}
	client := &http.Client{Transport: observer.Transport(demo.NewTransport())}
	server, err := demo.Serve("127.0.0.1:0", observer.Middleware(demo.Rollouts(client, model.URL)))
	if err != nil {
		return "", nil, err
	}
	return server.URL, func() {
		_ = server.Drain()
		client.CloseIdleConnections()
		_ = model.Drain()
	}, nil
}

func openOutput(name string) (*os.File, error) {
	if name == "" {
		return os.CreateTemp("", "rollouts-*.jsonl")
	}
	return os.Create(name)
}

// line is what is printed about one reading.
func line(reading demo.Reading) string {
	admission := reading.Value(observer.DriverAdmissionInstrument)
	return fmt.Sprintf("resident %.0f  active %.0f  admitted %d (waited %.0f ms)  abandoned %.0f  written %.0f kB (%.2f ms)  lag %s",
		reading.Value(observer.DriverResidentInstrument).Sum,
		reading.Value(observer.DriverActiveInstrument).Sum,
		admission.Count, admission.Mean(),
		reading.Value(observer.DriverAbandonedInstrument).Sum,
		reading.Value(observer.DriverWriteBytesInstrument).Sum/1000,
		reading.Value(observer.DriverWriteDurationInstrument).Mean(),
		reading.Lag())
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "driver:", err)
	return 1
}
