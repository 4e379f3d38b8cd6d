//go:build linux || darwin

package main

import (
	"fmt"
	"syscall"
	"time"
)

// readDisk takes as long as a slow disk: the thread is in a system call for so long,
// and not only the goroutine asleep. A pipe is slow on every machine, as a disk is
// not; os.File would park the goroutine in the runtime's poller.
func readDisk(takes time.Duration) error {
	var pipe [2]int // the end to read, the end to write
	if err := syscall.Pipe(pipe[:]); err != nil {
		return fmt.Errorf("opening the disk: %w", err)
	}
	defer syscall.Close(pipe[0])
	time.AfterFunc(takes, func() { _ = syscall.Close(pipe[1]) }) // which ends the read
	for {
		if _, err := syscall.Read(pipe[0], make([]byte, 1)); err != syscall.EINTR {
			return err
		}
	}
}
