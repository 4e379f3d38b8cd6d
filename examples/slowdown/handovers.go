package main

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// More of what requests wait for: what others hand over to them, or take from them.

// waitForObject takes an object out of a pool of two, which is a channel.
func waitForObject(ctx context.Context, s *server) error {
	pool := make(chan []byte, 2)
	pool <- make([]byte, 4096)
	pool <- make([]byte, 4096)
	return letWait(ctx, s, func(context.Context) {
		object := <-pool // planted: wait/objects
		time.Sleep(slotTime)
		pool <- object
	})
}

// waitForToken shares one token, which is a mutex made of a channel.
func waitForToken(ctx context.Context, s *server) error {
	token := make(chan struct{}, 1)
	return letWait(ctx, s, func(context.Context) {
		token <- struct{}{} // planted: wait/token
		time.Sleep(slotTime)
		<-token
	})
}

// waitForFuture gives each request's work to two workers, and waits for the result.
func waitForFuture(ctx context.Context, s *server) error {
	type future struct{ result chan int }
	queue := make(chan future, waitingClients)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(queue)
	for range 2 {
		workers.Go(func() {
			for f := range queue {
				time.Sleep(slotTime)
				f.result <- 1
			}
		})
	}
	return letWait(ctx, s, func(context.Context) {
		f := future{make(chan int, 1)}
		queue <- f
		<-f.result // planted: wait/future
	})
}

// waitForBatch adds each request to a batch that is written down twice a second.
func waitForBatch(ctx context.Context, s *server) error {
	var mu sync.Mutex
	written := make(chan struct{})
	var flusher sync.WaitGroup
	defer flusher.Wait()
	flushing, stop := context.WithCancel(context.Background())
	defer stop()
	flusher.Go(func() {
		for flushing.Err() == nil {
			_ = sleep(flushing, 10*slotTime)
			mu.Lock()
			close(written)
			written = make(chan struct{})
			mu.Unlock()
		}
	})
	return letWait(ctx, s, func(context.Context) {
		mu.Lock()
		mine := written
		mu.Unlock()
		<-mine // planted: wait/batch
	})
}

// waitForGroup starts four parts with an errgroup that runs one at a time.
func waitForGroup(ctx context.Context, s *server) error {
	return letWait(ctx, s, func(context.Context) {
		var parts errgroup.Group
		parts.SetLimit(1)
		for range 4 {
			parts.Go(func() error { // planted: wait/errgroup
				time.Sleep(slotTime) // planted: wait/errgroup
				return nil
			})
		}
		_ = parts.Wait()
	})
}

// waitInRollouts has a driver whose HTTP client may have two connections: it serves no
// request, and its limit is full for that.
func waitInRollouts(ctx context.Context, _ *server) error {
	call, end := twoConnections()
	defer end()
	admission := newAdmission(waitingClients)
	drive(ctx, 2*waitingClients, func(ctx context.Context) error { return admission.Do(ctx, call) })
	return nil
}
