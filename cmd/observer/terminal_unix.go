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

// watchSize tells when a terminal has another size, and when a process that was
// stopped with Ctrl-Z goes on: what is on the screen then is the shell's.
func watchSize() (changed <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGWINCH, unix.SIGCONT)
	return signals, func() { signal.Stop(signals) }
}
