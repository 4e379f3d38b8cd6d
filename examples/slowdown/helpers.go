package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// This program runs itself again for what another process must do. It gets its
// order in a variable, and ends when its standard input does: also when the
// first process is killed.
const helperVariable = "SLOWDOWN_HELPER"

const (
	spinOrder    = "spin"
	outrankOrder = "outrank"
	restOrder    = "rest" // followed by how long
	stopOrder    = "stop" // followed by a process, and how long to stop it and to let it run
)

// startHelpers starts n processes with one order, and returns once they are
// at it. The stop function ends them.
func startHelpers(n int, order string) (stop func(), err error) {
	var started []*helper
	stop = func() {
		for _, h := range started {
			h.input.Close()
			h.command.Wait()
		}
	}
	for range n {
		h, err := startHelper(order)
		if err != nil {
			stop()
			return nil, err
		}
		started = append(started, h)
	}
	return stop, nil
}

type helper struct {
	command *exec.Cmd
	input   io.Closer
}

// startHelper waits for the first word of the process: an empty line that it
// is at work, or what keeps it from that.
func startHelper(order string) (*helper, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(program)
	command.Env = append(os.Environ(), helperVariable+"="+order)
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	line := make([]byte, 256)
	n, err := output.Read(line)
	if problem := strings.TrimSpace(string(line[:n])); err != nil || problem != "" {
		input.Close()
		command.Wait()
		if problem != "" {
			return nil, fmt.Errorf("%w: %s", errNotPossible, problem)
		}
		return nil, fmt.Errorf("starting another process: %w", err)
	}
	return &helper{command, input}, nil
}

// runHelper carries out an order until standard input ends. It returns the exit
// status.
func runHelper(order string) int {
	var ended atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	if err := carryOut(order, &ended); err != nil {
		fmt.Println(err)
		return notNamed
	}
	return named
}

func carryOut(order string, ended *atomic.Bool) error {
	words := strings.Fields(order)
	switch {
	case order == spinOrder, order == outrankOrder:
		if order == outrankOrder {
			if err := raisePriority(); err != nil {
				return err
			}
		}
		fmt.Println()
		block := make([]byte, 1<<10)
		for !ended.Load() {
			work(block)
		}
		return nil
	case len(words) == 2 && words[0] == restOrder:
		length, err := time.ParseDuration(words[1])
		if err != nil {
			return err
		}
		fmt.Println()
		for began := time.Now(); !ended.Load() && time.Since(began) < length; {
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	case len(words) == 4 && words[0] == stopOrder:
		process, err1 := strconv.Atoi(words[1])
		stopped, err2 := time.ParseDuration(words[2])
		running, err3 := time.ParseDuration(words[3])
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		fmt.Println()
		return stopAndContinue(process, stopped, running, ended)
	}
	return fmt.Errorf("%q is no order", order)
}
