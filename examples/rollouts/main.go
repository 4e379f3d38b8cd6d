// Rollouts is a rollout stack in miniature: a driver, an agent, a model and a
// resources server, each a process of its own that is observed. Knobs slow each
// of them down, and a table at the end says, from the observers' signals alone,
// where the time went and which stage limits the throughput:
//
//	go run ./examples/rollouts -agent-pool 2
//
// While it runs, a second terminal asks it from the driver's address alone:
//
//	go run ./cmd/observer why localhost:6060
//
// With OTEL_EXPORTER_OTLP_ENDPOINT set, the four of them show on one dashboard,
// too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// What the exit status says.
const (
	succeeded = 0
	failed    = 1
	misused   = 2
)

func main() {
	if order := os.Getenv(processVariable); order != "" {
		os.Exit(runProcess(order))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program. It returns the exit status. All processes write to stderr,
// at the same time.
func run(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	s, err := parse(arguments, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return succeeded
	case err != nil:
		fmt.Fprintf(stderr, "rollouts: %v\nrollouts -help explains.\n", err)
		return misused
	}
	if err := demonstrate(ctx, s, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "rollouts: %v\n", err)
		return failed
	}
	return succeeded
}

// settings are what the command line says. The processes get them as JSON.
type settings struct {
	Rate        float64       // rollouts a second; 0 for a closed loop
	Seed        uint64        // of the arrivals
	Concurrency int           // rollouts that exist at once in a closed loop
	Turns       int           // of a rollout
	Duration    time.Duration // 0 for until interrupted
	Every       time.Duration // between two lines; 0 for none
	Window      time.Duration // of the diagnosis

	DriverLimit       int64         // rollouts at once; 0 for no limit
	DriverWrite       time.Duration // of the output of one rollout
	DriverConnections int           // to the agent; 0 for as many as it needs
	AgentCPU          time.Duration // a turn
	AgentPool         int           // connections to its store; 0 for no store
	AgentLock         time.Duration // a turn
	ModelDelay        time.Duration // a turn
	ModelSlots        int64         // turns at once; 0 for no limit
	ModelLock         time.Duration // a turn
	ModelGarbage      int           // MiB a turn
	ResourcesDelay    time.Duration // a call
	ResourcesDisk     time.Duration // a call
	ResourcesLock     time.Duration // a call
}

// parse reads the command line. Where that asks for help, parse prints it and
// returns flag.ErrHelp.
func parse(arguments []string, stdout io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("rollouts", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run says what is wrong
	flags.Float64Var(&s.Rate, "rate", 0, "open loop: rollouts that arrive in a second, at random; 0 is a closed loop")
	flags.Uint64Var(&s.Seed, "seed", 1, "of the random arrivals")
	flags.IntVar(&s.Concurrency, "concurrency", 48, "closed loop: rollouts that exist at once")
	flags.IntVar(&s.Turns, "turns", 2, "turns of a rollout, each a call of the model and one of the resources server")
	flags.DurationVar(&s.Duration, "duration", time.Minute, "how long to run; 0 is until interrupted")
	flags.DurationVar(&s.Every, "every", 2*time.Second, "how often to print a line; 0 prints none")
	flags.DurationVar(&s.Window, "window", time.Second, "the time over which the observers diagnose, 1s at least")

	flags.Int64Var(&s.DriverLimit, "driver-limit", 16, "driver: rollouts that run at once; 0 is no limit")
	flags.DurationVar(&s.DriverWrite, "driver-write", 0, "driver: how long its single writer takes for a rollout's output")
	flags.IntVar(&s.DriverConnections, "driver-connections", 0, "driver: connections of its HTTP client to the agent; 0 is no limit")
	flags.DurationVar(&s.AgentCPU, "agent-cpu", 0, "agent: processor time for a turn")
	flags.IntVar(&s.AgentPool, "agent-pool", 0, "agent: connections of its pool to its store, which takes 50ms a turn; 0 is without a store")
	flags.DurationVar(&s.AgentLock, "agent-lock", 0, "agent: how long a turn holds the one lock")
	flags.DurationVar(&s.ModelDelay, "model-delay", 40*time.Millisecond, "model: how long a turn takes")
	flags.Int64Var(&s.ModelSlots, "model-slots", 0, "model: turns at once; 0 is no limit")
	flags.DurationVar(&s.ModelLock, "model-lock", 0, "model: how long a turn holds the one lock")
	flags.IntVar(&s.ModelGarbage, "model-garbage", 0, "model: MiB of small objects that a turn leaves to the collector, which is set not to rest")
	flags.DurationVar(&s.ResourcesDelay, "resources-delay", 0, "resources: how long a call takes")
	flags.DurationVar(&s.ResourcesDisk, "resources-disk", 0, "resources: how long a call's thread waits for the disk")
	flags.DurationVar(&s.ResourcesLock, "resources-lock", 0, "resources: how long a call holds the one lock")

	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return s, err
	case err != nil:
		return s, err
	case flags.NArg() > 0:
		return s, fmt.Errorf("%q is not a flag", flags.Arg(0))
	}
	return s, s.check()
}

func (s settings) check() error {
	if s.Window < time.Second {
		return fmt.Errorf("a window of %v is shorter than 1s", s.Window)
	}
	if s.Concurrency < 1 || s.Turns < 1 {
		return errors.New("-concurrency and -turns are at least 1")
	}
	if !(s.Rate >= 0 && s.Rate <= maxRate) {
		return fmt.Errorf("a rate of %v is not between 0 and %v a second", s.Rate, maxRate)
	}
	for _, d := range []time.Duration{s.Duration, s.Every, s.DriverWrite, s.AgentCPU, s.AgentLock,
		s.ModelDelay, s.ModelLock, s.ResourcesDelay, s.ResourcesDisk, s.ResourcesLock} {
		if d < 0 {
			return fmt.Errorf("a time of %v is negative", d)
		}
	}
	if s.DriverLimit < 0 || s.DriverConnections < 0 || s.AgentPool < 0 || s.ModelSlots < 0 || s.ModelGarbage < 0 {
		return errors.New("a limit cannot be negative, nor can garbage")
	}
	// The first windows have the start in them, and a verdict takes two.
	if least := windowsToSettle*s.Window + 2*s.Window; s.Duration > 0 && s.Duration < least {
		return fmt.Errorf("%v is too short for windows of %v: %v is the least", s.Duration, s.Window, least)
	}
	return nil
}

// maxRate bounds the rate, so that the time between two arrivals can be had.
const maxRate = 1e5

const usage = `Rollouts is a rollout stack in miniature: four observed processes on loopback.

  driver ──> agent ──> model        for each turn of a rollout the agent asks the
                  └──> resources    model, and then calls the resources server

  go run ./examples/rollouts                            nothing is slow: the driver's limit decides
  go run ./examples/rollouts -model-slots 2             the model serves two turns at a time
  go run ./examples/rollouts -model-delay 400ms         the model takes its time
  go run ./examples/rollouts -model-lock 20ms           the model holds one lock
  go run ./examples/rollouts -model-garbage 16          the model's collector never rests
  go run ./examples/rollouts -agent-cpu 40ms            the agent computes
  go run ./examples/rollouts -agent-pool 2              the agent has two connections to its store
  go run ./examples/rollouts -agent-lock 20ms           the agent holds one lock
  go run ./examples/rollouts -resources-lock 20ms       the resources server holds one lock
  go run ./examples/rollouts -resources-delay 400ms     the resources server takes its time
  go run ./examples/rollouts -resources-disk 400ms      the resources server's disk takes its time
  go run ./examples/rollouts -driver-limit 2            the driver runs two rollouts at a time
  go run ./examples/rollouts -driver-connections 2      the driver's HTTP client has two connections
  go run ./examples/rollouts -driver-write 50ms         the driver's output is slow
  go run ./examples/rollouts -rate 40 -driver-limit 0   open loop: rollouts arrive as they please

In a closed loop a rollout begins when another ends, so that a slow stage slows
the arrivals; in an open loop they pile up in front of it.

The lines while it runs have the verdict of each process, and standard error has
what the observers log. The table at the end has for each process
  verdict              of its observer, and in how many of the windows
  in it                requests being served; of the driver the rollouts that run
  call out takes       how long its own requests wait for the answer, on average
  wait for limit       how long work waits for its limit, on average
  what work waits for  the load of each cause: how many wait for it, on average
then where a rollout's time goes, which stage limits the throughput, and what the
command "observer why" found at the end, which asks the driver's page and from there
the others. All of it is made of what the four observers measure. The knobs are not asked. On a machine
whose processors others have, it is the machine that limits.

OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 sends all four to a collector,
where nemo.gym.server.name tells them apart, and each has a live page of its own.
Ctrl-C finishes the rollouts that run and prints the table; a second one ends it at
once.

The exit status is 0 if rollouts finished, 1 if something failed, 2 for wrong usage.

`
