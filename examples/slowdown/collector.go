package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// node is a small object with a pointer, for the collector to follow.
type node struct {
	next *node
	_    [7]int64
}

const nodeBytes = 64

// newList returns that many bytes of nodes.
func newList(bytes int) *node {
	var first *node
	for range bytes / nodeBytes {
		first = &node{next: first} // planted: gc/*
	}
	return first
}

const megabyte = 1 << 20

// litter keeps n goroutines allocating short lists until ctx ends.
func litter(ctx context.Context, n int) {
	var allocators sync.WaitGroup
	for range n {
		allocators.Go(func() {
			for ctx.Err() == nil {
				newList(64 << 10)
			}
		})
	}
	allocators.Wait()
}

// churn allocates with a GOGC so low that the collector never rests.
func churn(ctx context.Context, _ *server) error {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	live := newList(64 * megabyte)
	litter(ctx, 2*processors())
	runtime.KeepAlive(live)
	return nil
}

// thrash allocates with so little room below GOMEMLIMIT that the collector never
// rests.
func thrash(ctx context.Context, _ *server) error {
	live := newList(64 * megabyte)
	runtime.GC()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryInUse() + 8*megabyte))
	litter(ctx, 2*processors())
	runtime.KeepAlive(live)
	return nil
}

// memoryInUse is what counts towards GOMEMLIMIT.
func memoryInUse() int64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.Sys - stats.HeapReleased)
}

// allocateModerately is what the collector is made for.
func allocateModerately(ctx context.Context, _ *server) error {
	live := newList(32 * megabyte)
	const each = 10 * time.Millisecond
	for sleep(ctx, each) == nil {
		newList(megabyte)
	}
	runtime.KeepAlive(live)
	return nil
}
