//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const blockedGoroutines = 32

// blockInPipes reads through raw system calls: os.File would park the goroutine
// in the runtime's poller instead of blocking a thread.
func blockInPipes(ctx context.Context, _ *server) error {
	var blocked sync.WaitGroup
	defer blocked.Wait()
	for range blockedGoroutines {
		var pipe [2]int // the end to read, the end to write
		if err := syscall.Pipe(pipe[:]); err != nil {
			return err
		}
		defer syscall.Close(pipe[0])
		blocked.Go(func() {
			syscall.Read(pipe[0], make([]byte, 1)) // planted: blocked_thread/pipes
		})
		defer syscall.Close(pipe[1]) // which ends the read
	}
	<-ctx.Done()
	return nil
}

// blockInFlock waits for file locks, as programs that share a cache directory do.
func blockInFlock(ctx context.Context, _ *server) error {
	file, err := os.CreateTemp("", "slowdown")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	var blocked sync.WaitGroup
	defer blocked.Wait()
	defer file.Close() // which gives the lock to the next, and so on
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	for range blockedGoroutines {
		// A lock belongs to an open file, so each needs one of its own.
		other, err := syscall.Open(file.Name(), syscall.O_RDWR|syscall.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		blocked.Go(func() {
			defer syscall.Close(other)
			for syscall.Flock(other, syscall.LOCK_EX) == syscall.EINTR { // planted: blocked_thread/flock
			}
		})
	}
	<-ctx.Done()
	return nil
}

const (
	fewDescriptors  = 512
	descriptorShare = 0.92
)

// lowerDescriptorLimit allows few descriptors, and returns the function that
// undoes it.
func lowerDescriptorLimit() (restore func(), err error) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		return nil, err
	}
	lowered := before
	lowered.Cur = min(before.Cur, fewDescriptors)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lowered); err != nil {
		return nil, err
	}
	return func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before) }, nil
}

func openFiles(ctx context.Context, _ *server) error {
	restore, err := lowerDescriptorLimit()
	if err != nil {
		return err
	}
	defer restore()
	for {
		file, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		defer file.Close()
		if float64(file.Fd()) >= descriptorShare*fewDescriptors { // the lowest that was free
			break
		}
	}
	<-ctx.Done()
	return nil
}

// leakSockets connects and forgets to close, as a client does that does not
// close response bodies. Both ends are in this process.
func leakSockets(ctx context.Context, s *server) error {
	restore, err := lowerDescriptorLimit()
	if err != nil {
		return err
	}
	defer restore()
	for {
		conn, err := net.Dial("tcp", s.http.Addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			return err
		}
		var number uintptr
		if err := raw.Control(func(descriptor uintptr) { number = descriptor }); err != nil {
			return err
		}
		if float64(number) >= descriptorShare*fewDescriptors {
			break
		}
	}
	<-ctx.Done()
	return nil
}

func stopOften(ctx context.Context, _ *server) error {
	return beStopped(ctx, 300*time.Millisecond, 300*time.Millisecond)
}

func stopLong(ctx context.Context, _ *server) error {
	return beStopped(ctx, 1200*time.Millisecond, 1200*time.Millisecond)
}

// beStopped has another process stop this one.
func beStopped(ctx context.Context, stopped, running time.Duration) error {
	stop, err := startHelpers(1, fmt.Sprintf("%s %d %v %v", stopOrder, os.Getpid(), stopped, running))
	if err != nil {
		return err
	}
	defer stop()
	<-ctx.Done()
	return nil
}

// stopAndContinue is what that process does. Whatever happens to it, the other
// one goes on.
func stopAndContinue(process int, stopped, running time.Duration, ended *atomic.Bool) error {
	for !ended.Load() {
		if err := syscall.Kill(process, syscall.SIGSTOP); err != nil {
			return ignoreGone(err)
		}
		time.Sleep(stopped)
		if err := syscall.Kill(process, syscall.SIGCONT); err != nil {
			return ignoreGone(err)
		}
		time.Sleep(running)
	}
	return nil
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// raisePriority makes the kernel prefer this thread, and so what runs on it.
func raisePriority() error {
	const better, thisThread = -10, 0
	runtime.LockOSThread()
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, thisThread, better); err != nil {
		return fmt.Errorf("a better nice value: %w", err)
	}
	return nil
}
