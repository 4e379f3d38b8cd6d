// Command observer asks observed processes what slows them down.
//
//	observer URL…        one paragraph a process
//	observer top URL…    a table that refreshes
//	observer why URL     from one process to the one that limits the whole stack
//
// A URL is that of a live page (observer.Handler). A host and port is enough.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// The exit statuses.
const (
	fine   = 0 // nothing is slow, or limits the stack
	slow   = 1 // a process is slow, or something limits the stack
	failed = 2 // a process cannot be asked or has no verdict yet, or the command line is wrong
)

const usage = `usage:
  observer [flags] URL…       what each process says slows it down; exit status 0 where that is
                              nothing, downstream or admission, 1 where one is slow, 2 where one
                              cannot be asked or has no verdict yet
  observer top [flags] URL…   the same of many as a table that refreshes, until Ctrl-C
  observer why [flags] URL    follows the servers that a process waits for to what limits the
                              stack; exit status 0 where nothing does, 1 where something does,
                              2 where the first process cannot be asked

A URL is that of a live page, or a host and port: http and /debug/observer are assumed.

flags:
`

// run is the command, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command := report
	if len(args) > 0 {
		switch args[0] {
		case "top":
			command, args = top, args[1:]
		case "why":
			command, args = why, args[1:]
		}
	}
	switch code, err := command(ctx, args, stdout); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, err.Error())
		return fine
	case err != nil:
		fmt.Fprintf(stderr, "observer: %s\n", plain(err.Error(), 2000))
		return failed
	default:
		return code
	}
}
