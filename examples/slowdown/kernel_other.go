//go:build !(linux || darwin)

package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// What follows needs system calls that this system does not have.
var errNeedsUnix = fmt.Errorf("%w: it needs Linux or macOS", errNotPossible)

func blockInPipes(context.Context, *server) error { return errNeedsUnix }
func blockInFlock(context.Context, *server) error { return errNeedsUnix }
func openFiles(context.Context, *server) error    { return errNeedsUnix }
func leakSockets(context.Context, *server) error  { return errNeedsUnix }
func stopOften(context.Context, *server) error    { return errNeedsUnix }
func stopLong(context.Context, *server) error     { return errNeedsUnix }

func raisePriority() error { return errNeedsUnix }

func stopAndContinue(int, time.Duration, time.Duration, *atomic.Bool) error { return errNeedsUnix }
