//go:build unix

package main

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// terminalOf returns what tells the size of a terminal, or nil where a descriptor is
// none.
func terminalOf(descriptor int) func() (width, height int) {
	if _, err := unix.IoctlGetWinsize(descriptor, unix.TIOCGWINSZ); err != nil {
		return nil
	}
	return func() (width, height int) {
		size, err := unix.IoctlGetWinsize(descriptor, unix.TIOCGWINSZ)
		if err != nil {
			return 0, 0
		}
		return int(size.Col), int(size.Row)
	}
}

// watchTerminal tells when a terminal has another size, and when somebody wants the
// process to stop for a while.
func watchTerminal() (resized, stopped <-chan os.Signal, unwatch func()) {
	sizes, stops := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(sizes, unix.SIGWINCH)
	signal.Notify(stops, unix.SIGTSTP)
	return sizes, stops, func() { signal.Stop(sizes); signal.Stop(stops) }
}

// stopSelf stops the process until it is told to go on. The call alone is not enough:
// it can return, and go on for a moment, before the last of the threads has stopped.
func stopSelf() {
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, unix.SIGCONT)
	defer signal.Stop(goesOn)
	if unix.Kill(os.Getpid(), unix.SIGSTOP) == nil {
		<-goesOn
	}
}
