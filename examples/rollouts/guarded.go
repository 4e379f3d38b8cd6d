package main

import (
	"sync"
	"time"
)

// guarded is a state that all requests of a process share, under one lock.
type guarded struct {
	mu    sync.Mutex // held over a change
	takes time.Duration
	count int
}

func (g *guarded) add() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count++
	time.Sleep(g.takes) // as a change that asks somebody else does
}
