package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// spin keeps n goroutines busy until ctx ends.
func spin(ctx context.Context, n int) {
	var ended atomic.Bool
	defer context.AfterFunc(ctx, func() { ended.Store(true) })()
	var spinners sync.WaitGroup
	for range n {
		spinners.Go(func() {
			block := make([]byte, 1<<10)
			for !ended.Load() {
				work(block)
			}
		})
	}
	spinners.Wait()
}

func processors() int { return runtime.GOMAXPROCS(0) }

func spinners(ctx context.Context, _ *server) error {
	spin(ctx, 8*processors())
	return nil
}

// computeInBursts has sixteen times the work that the processors can do for 300 ms
// of each 1.3 s, and none in between.
func computeInBursts(ctx context.Context, _ *server) error { return burst(ctx, 16*processors()) }

// computeNowAndThen has as much as they can do.
func computeNowAndThen(ctx context.Context, _ *server) error { return burst(ctx, processors()) }

func burst(ctx context.Context, goroutines int) error {
	for ctx.Err() == nil {
		burst, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		spin(burst, goroutines)
		cancel()
		_ = sleep(ctx, time.Second)
	}
	return nil
}

// shortGoroutines starts goroutines faster than they can run: none is busy for
// long, and the queue is long all the same.
func shortGoroutines(ctx context.Context, _ *server) error {
	var alive sync.WaitGroup
	slots := make(chan struct{}, 1000*processors())
	block := make([]byte, 16<<10)
	for ctx.Err() == nil {
		slots <- struct{}{}
		alive.Go(func() {
			work(block)
			<-slots
		})
	}
	alive.Wait()
	return nil
}

// impatientClients is a closed loop with more clients than the processors can
// serve at a time.
func impatientClients(ctx context.Context, s *server) error {
	var clients sync.WaitGroup
	for range 16 * processors() {
		clients.Go(func() {
			for ctx.Err() == nil {
				get(ctx, s.client, s.url+"/work")
			}
		})
	}
	clients.Wait()
	return nil
}

// crowd starts other processes that want the processors, too.
func crowd(ctx context.Context, _ *server) error {
	stop, err := startHelpers(4*runtime.NumCPU(), spinOrder)
	if err != nil {
		return err
	}
	defer stop()
	spin(ctx, processors())
	return nil
}

// outrank starts as many other processes as there are CPUs, but the kernel
// prefers them.
func outrank(ctx context.Context, _ *server) error {
	stop, err := startHelpers(runtime.NumCPU(), outrankOrder)
	if err != nil {
		return err
	}
	defer stop()
	spin(ctx, processors())
	return nil
}

// promiseProcessors lets the Go scheduler run more threads than there are CPUs
// for, as a container does that sees all CPUs of its machine and may use few.
func promiseProcessors(ctx context.Context, _ *server) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8 * runtime.NumCPU()))
	spin(ctx, processors())
	return nil
}

// throttleSteadily wants all processors in a cgroup that may use a fifth of one.
func throttleSteadily(ctx context.Context, _ *server) error {
	leave, err := enterQuota(throttledCPUs)
	if err != nil {
		return err
	}
	spin(ctx, processors())
	return leave()
}

// throttleBursts uses a quota up in a short time, as a service does that answers
// a request with a goroutine a processor.
func throttleBursts(ctx context.Context, _ *server) error {
	leave, err := enterQuota(throttledCPUs)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		burst, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		spin(burst, processors())
		cancel()
		_ = sleep(ctx, 200*time.Millisecond) // its error is that of the loop
	}
	return leave()
}

// throttledCPUs is so little that the process uses it up on a busy machine, too.
const throttledCPUs = 0.2
