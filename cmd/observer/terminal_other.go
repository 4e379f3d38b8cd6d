//go:build !unix

package main

import "os"

// terminalOf finds none here: what its size is, and whether it takes escape
// sequences, each of these systems tells in a way of its own. Blocks of lines are
// right everywhere.
func terminalOf(int) func() (width, height int) { return nil }

func watchTerminal() (resized, stopped <-chan os.Signal, unwatch func()) {
	return nil, nil, func() {}
}

func stopSelf() {}
