package main

import (
	"context"
	"runtime"
	"sync"
	"time"
)

func readMemStats(ctx context.Context, _ *server) error {
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var stats runtime.MemStats
			for ctx.Err() == nil {
				runtime.ReadMemStats(&stats) // planted: stop_the_world/memstats
			}
		})
	}
	readers.Wait()
	return nil
}

// dumpStacks writes down what every goroutine does, as /debug/pprof/goroutine
// with debug=2 does: the world stands still meanwhile.
func dumpStacks(ctx context.Context, _ *server) error {
	var parked sync.WaitGroup
	for range 3000 {
		parked.Go(func() { <-ctx.Done() })
	}
	text := make([]byte, 4*megabyte)
	for sleep(ctx, 50*time.Millisecond) == nil {
		const ofAll = true
		runtime.Stack(text, ofAll) // planted: stop_the_world/stacks
	}
	parked.Wait()
	return nil
}

func flipProcessors(ctx context.Context, _ *server) error {
	before := processors()
	defer runtime.GOMAXPROCS(before)
	for ctx.Err() == nil {
		runtime.GOMAXPROCS(before + 1) // planted: stop_the_world/gomaxprocs
		runtime.GOMAXPROCS(before)     // planted: stop_the_world/gomaxprocs
	}
	return nil
}
