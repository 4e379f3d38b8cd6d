//go:build !(linux || darwin)

package main

import "time"

// readDisk only sleeps where this program knows no system call that takes so long.
func readDisk(takes time.Duration) error {
	time.Sleep(takes)
	return nil
}
