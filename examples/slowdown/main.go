// Slowdown makes a small server suffer from one cause of slowness, and prints
// what the observer says about it, window by window:
//
//	go run ./examples/slowdown -cause gc
//
// It shows how each verdict of DIAGNOSIS.md comes about and how it reads. Every
// cause can be had in several ways (-kind, -list), because a rule that knows one
// program by heart is worth nothing.
//
// With OTEL_EXPORTER_OTLP_ENDPOINT set, the metrics go to a collector, too, and
// the suffering shows on a dashboard.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
)

// What the exit status says.
const (
	named       = 0 // the cause was the verdict; for none, nothing else was
	notNamed    = 1 // it was not, or something failed
	misused     = 2
	notPossible = 3 // this system, or this user's rights, cannot suffer it
)

func main() {
	if order := os.Getenv(helperVariable); order != "" {
		os.Exit(runHelper(order))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// settings are what the command line says.
type settings struct {
	injection injection
	window    time.Duration
	duration  time.Duration // 0 for until interrupted
	suffer    time.Duration // 0 for all of it
	json      bool
	capture   string // a directory, or ""
}

// run is the program. It returns the exit status.
func run(arguments []string, stdout, stderr io.Writer) int {
	s, err := parse(arguments, stdout, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return named
	case err != nil:
		fmt.Fprintf(stderr, "slowdown: %v\nslowdown -help explains, slowdown -list shows the causes.\n", err)
		return misused
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if s.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.duration)
		defer cancel()
	}
	wasNamed, err := demonstrate(ctx, s, stdout, stderr)
	switch {
	case errors.Is(err, errNotPossible):
		fmt.Fprintf(stderr, "slowdown: skipped: %v\n", err)
		return notPossible
	case err != nil:
		fmt.Fprintf(stderr, "slowdown: %v\n", err)
		return notNamed
	case !wasNamed:
		fmt.Fprintf(stderr, "slowdown: the verdict was not %s, or not %s alone. Where others use the processors, try again when they are quiet.\n", s.injection.cause, s.injection.cause)
		return notNamed
	}
	return named
}

// parse reads the command line. Where that asks for a text, parse prints it and
// returns flag.ErrHelp.
func parse(arguments []string, stdout, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("slowdown", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run says what is wrong
	cause := flags.String("cause", "", "what the server suffers from: a `cause` of -list")
	kind := flags.String("kind", "", "which injection of the cause, a `kind` of -list; the first by default")
	healthy := flags.String("healthy", "", "a workload that is odd but healthy, a `kind` of none in -list; in the place of -cause")
	list := flags.Bool("list", false, "explain the causes and their injections")
	flags.DurationVar(&s.window, "window", 2*time.Second, "the time over which the observer diagnoses, 1s at least")
	flags.DurationVar(&s.duration, "duration", 20*time.Second, "how long to run; 0 is until interrupted")
	flags.DurationVar(&s.suffer, "suffer", 0, "how much of that to suffer, before the server recovers; 0 is all")
	flags.BoolVar(&s.json, "json", false, "print one line of JSON a window")
	flags.StringVar(&s.capture, "capture", "", "a `directory` for the evidence: trace, goroutines and diagnosis")

	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, usage, strings.Join(kinds(observer.CauseNone), ", "))
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return s, err
	case err != nil:
		return s, err
	case *list:
		printList(stdout)
		return s, flag.ErrHelp
	case flags.NArg() > 0:
		return s, fmt.Errorf("%q is not a flag", flags.Arg(0))
	case *healthy != "" && (*cause != "" || *kind != ""):
		return s, errors.New("-healthy stands in the place of -cause and -kind")
	case *healthy != "":
		*cause, *kind = string(observer.CauseNone), *healthy
	}
	switch {
	case *cause == "":
		return s, errors.New("which cause? For example: -cause gc")
	case s.window < time.Second:
		return s, fmt.Errorf("a window of %v is shorter than 1s", s.window)
	case s.duration < 0 || s.suffer < 0:
		return s, errors.New("a time cannot be negative")
	}
	s.injection, err = find(observer.Cause(*cause), *kind)
	return s, err
}

const usage = `Slowdown makes a small server suffer from one cause of slowness, and prints what
the observer says about it at the end of each window.

  go run ./examples/slowdown -list                        what there is to suffer from
  go run ./examples/slowdown -cause gc                    the first way to suffer from the collector
  go run ./examples/slowdown -cause gc -kind limit        another one
  go run ./examples/slowdown -healthy children            a workload that is odd, and suffers from nothing
  go run ./examples/slowdown -cause lock -suffer 8s       suffer, then watch the verdict go back to none
  go run ./examples/slowdown -cause lock -capture /tmp/e  leave evidence, for go tool trace

These are healthy, and look as if they were not; -list says what each does:
%s.

It serves its live page, whose address it prints.

How to read a window:

  window 3: gc
    gc: the collector used 0.8 of 2 processors; 66.5 MiB of heap live. Allocate ...
    waiting: cpu_saturated 2.5, gc 0.83
    requests: 40 asked, 40 answered, median 9.2ms, slowest 61ms
    machine: other processes used 0.20 of 2 CPUs, the hypervisor 0.00

The first line has the verdict. It takes two windows that agree, so the first
window always says none. Then comes the diagnosis in a sentence, and what work
waited for, as the mean number of goroutines, threads or requests: a cause can
have a load without being the one to blame. The last two lines are what a client
of the server saw, and what others did to the machine, on Linux.

The exit status is 0 if the cause was named (for none: if nothing else was), 1 if
not, 2 for wrong usage, and 3 if this system cannot suffer it.

`

// demonstrate lets a server suffer until ctx ends, and reports whether the
// diagnosis named the cause.
func demonstrate(ctx context.Context, s settings, stdout, stderr io.Writer) (wasNamed bool, err error) {
	server, err := newServer()
	if err != nil {
		return false, err
	}
	defer server.close()
	if s.injection.prepare != nil {
		if err := s.injection.prepare(ctx, server); err != nil {
			return false, err
		}
	}
	if !s.json {
		fmt.Fprintf(stdout, "%s, %s: %s\nIts live page is at %s. Ctrl-C ends it.\n\n", s.injection.cause, s.injection.kind, s.injection.what, server.url+pagePath)
	}

	reader := sdkmetric.NewManualReader()
	options := []observer.Option{
		export.FromEnv(reader),
		observer.WithWindow(s.window),
		observer.WithProfiles(),
		observer.WithLogger(slog.New(slog.NewTextHandler(stderr, nil))),
	}
	if s.capture != "" {
		options = append(options, observer.WithCapture(s.capture))
	}
	observed := observer.Start(context.Background(), "slowdown", options...)
	defer observed.Stop()
	if err := observed.Err(); err != nil {
		return false, err
	}

	if !s.injection.idle {
		stop := server.askNowAndThen()
		defer stop()
	}
	suffering := begin(ctx, s.injection, server, s.suffer)
	reporter := &reporter{settings: s, server: server, reader: reader, suffering: suffering}
	reporter.begin()
	wasNamed, err = reporter.watch(ctx, stdout)
	return wasNamed, errors.Join(err, suffering.end())
}

func printList(w io.Writer) {
	fmt.Fprintln(w, "A cause, what it is, and the ways to suffer from it; the first is the default.")
	for _, c := range causes {
		fmt.Fprintf(w, "\n%s: %s\n", c.cause, c.meaning)
		for _, i := range injections {
			if i.cause == c.cause {
				fmt.Fprintf(w, "  -kind %-12s %s\n", i.kind, strings.ReplaceAll(i.what, "\n", " "))
			}
		}
	}
}
