//go:build unix

package main

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// terminal is one that can be asked for its size.
type terminal struct{ file *os.File }

// terminalOf returns nil where a file is none.
func terminalOf(file *os.File) *terminal {
	if _, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ); err != nil {
		return nil
	}
	return &terminal{file}
}

func (t *terminal) size() (width, height int) {
	size, err := unix.IoctlGetWinsize(int(t.file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}

// watchSize tells when a terminal has another size.
func watchSize() (changed <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGWINCH)
	return signals, func() { signal.Stop(signals) }
}
