package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/examples/internal/demo"
	"github.com/gym-observer/observer/export"
)

// The processes of the stack.
const (
	driverRole    = "driver"
	agentRole     = "agent"
	modelRole     = "model"
	resourcesRole = "resources"
)

// processVariable has the order of a process, as JSON, in its environment.
const processVariable = "ROLLOUTS_PROCESS"

// order is what a process is told.
type order struct {
	Role                    string
	Settings                settings
	Agent, Model, Resources string // URLs, of those that it calls
}

// message is what a process tells, as a line of JSON on its standard output: where
// it serves, then its windows, and at its end the driver's totals.
type message struct {
	URL    string  `json:",omitempty"`
	Window *window `json:",omitempty"`
	Totals *totals `json:",omitempty"`
}

// runProcess is one process of the stack. It ends when its standard input does:
// when the program that started it closes that, or is gone.
func runProcess(text string) int {
	// A terminal sends Ctrl-C to all of them, and timeout(1) a SIGTERM; but the
	// driver is to end first.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.run(untilClosed(os.Stdin), json.NewEncoder(os.Stdout))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", o.Role, err)
		return failed
	}
	return succeeded
}

func untilClosed(r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, r)
	}()
	return ctx
}

func (o order) run(ctx context.Context, tell *json.Encoder) error {
	readout := demo.NewReadout()
	observing := observer.Start(context.Background(), o.Role,
		export.FromEnv(readout.Reader),
		observer.WithWindow(o.Settings.Window),
		observer.WithSampleInterval(sampleInterval),
		observer.WithProfiles(), // lines for the collector and the processor, too
		observer.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil)).With("process", o.Role)))
	defer observing.Stop()
	if err := observing.Err(); err != nil {
		return err // without its signals there is nothing to show
	}

	mux := http.NewServeMux()
	mux.Handle(pagePath, observer.Handler()) // beside the middleware: who looks is not counted
	switch o.Role {
	case agentRole:
		mux.Handle("/", observer.Middleware(newAgent(o.Settings, o.Model, o.Resources)))
	case modelRole:
		mux.Handle("/", observer.Middleware(newModel(o.Settings)))
	case resourcesRole:
		mux.Handle("/", observer.Middleware(newResources(o.Settings)))
	}
	server, err := o.serve(mux)
	if err != nil {
		return err
	}
	if err := tell.Encode(message{URL: server.URL}); err != nil {
		return err
	}
	if o.Role == driverRole {
		err = o.drive(ctx, readout, tell)
	} else {
		err = tellWindows(ctx, readout, tell)
	}
	return errors.Join(err, server.Drain())
}

// serve serves the driver where people look first, if nobody else does there, and
// the others anywhere.
func (o order) serve(handler http.Handler) (*demo.Server, error) {
	if o.Role == driverRole {
		if server, err := demo.Serve(driverAddress, handler); err == nil {
			return server, nil
		}
	}
	return demo.Serve("127.0.0.1:0", handler)
}

const (
	// driverAddress is fixed, so that a command that asks it can be written down.
	driverAddress = "127.0.0.1:6060"

	// sampleInterval gives the shortest window twenty samples.
	sampleInterval = 50 * time.Millisecond

	// pagePath is where each process has its live page.
	pagePath = "/debug/observer"
)

func (o order) drive(ctx context.Context, readout *demo.Readout, tell *json.Encoder) error {
	driven := make(chan totals, 1)
	go func() { driven <- newDriver(o.Settings, o.Agent).drive(ctx) }()
	if err := tellWindows(ctx, readout, tell); err != nil {
		return err
	}
	all := <-driven
	return tell.Encode(message{Totals: &all})
}
