//go:build !unix

package main

import "os"

// terminal is never one here: what its size is, and whether it takes escape
// sequences, each of these systems tells in a way of its own. Blocks of lines are
// right everywhere.
type terminal struct{}

func terminalOf(*os.File) *terminal { return nil }

func (*terminal) size() (width, height int) { return 0, 0 }

func watchSize() (changed <-chan os.Signal, stop func()) { return nil, func() {} }
