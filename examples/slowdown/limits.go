package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
)

const (
	memoryLimit = 256 * megabyte
	nearlyFull  = memoryLimit * 93 / 100
)

// fillHeap keeps a large heap and leaves it alone, so that the collector has
// nothing to do although the limit is near.
func fillHeap(ctx context.Context, _ *server) error {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	var live [][]byte
	for memoryInUse() < nearlyFull {
		live = append(live, make([]byte, megabyte)) // planted: memory/heap
	}
	runtime.GC() // which counts what is live
	<-ctx.Done()
	runtime.KeepAlive(live)
	return nil
}

// fillCache keeps a large map, and leaves it alone.
func fillCache(ctx context.Context, _ *server) error {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	cache := make(map[int][]byte)
	for memoryInUse() < nearlyFull {
		cache[len(cache)] = make([]byte, 64<<10) // planted: memory/cache
	}
	runtime.GC()
	<-ctx.Done()
	runtime.KeepAlive(cache)
	return nil
}

// fillStacks uses memory that is not heap.
func fillStacks(ctx context.Context, _ *server) error {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	var parked sync.WaitGroup
	for memoryInUse() < nearlyFull {
		grown := make(chan struct{})
		parked.Go(func() {
			useStack(256, func() {
				close(grown)
				<-ctx.Done()
			})
		})
		<-grown
	}
	<-ctx.Done()
	parked.Wait()
	return nil
}

// useStack makes the stack of its goroutine grow by a kibibyte for each level, and
// calls wait at the bottom: each collection halves a stack of which less than a quarter
// is in use.
func useStack(levels int, wait func()) byte {
	var frame [1 << 10]byte
	if levels > 0 {
		frame[levels%len(frame)] = useStack(levels-1, wait)
	} else {
		wait()
	}
	return frame[0]
}
