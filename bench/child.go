package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// childCommand makes this program measure one thing in a process of its own: one
// that is idle, or that afterwards has more goroutines, threads or totals than
// the rest should be measured with.
const childCommand = "child"

// child runs one of the children below and returns the number that it prints.
func child(arguments ...string) (float64, error) {
	command, err := reexec(arguments...)
	if err != nil {
		return 0, err
	}
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return 0, fmt.Errorf("%v: %w", arguments, err)
	}
	var value float64
	err = json.Unmarshal(output, &value)
	return value, err
}

func reexec(arguments ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(self, append([]string{childCommand}, arguments...)...), nil
}

func runChild(arguments []string) error {
	if len(arguments) != 3 {
		return fmt.Errorf("a child takes three arguments, not %q", arguments)
	}
	kind, what, amount := arguments[0], arguments[1], arguments[2]
	var value float64
	var err error
	switch kind {
	case "client":
		return hammer(what, amount)
	case "idle":
		value, err = idleShare(what, amount)
	case "growth":
		var n int
		if n, err = strconv.Atoi(amount); err == nil {
			debug.SetMaxThreads(20_000)
			value, err = grown(what, n)
		}
	default:
		err = fmt.Errorf("no child is called %q", kind)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(value)
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &usage) // fails for no reason that could be here
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
