package main

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// holdMutex sleeps with the lock held, which stands for whatever a program does
// there: a query, a write.
func holdMutex(ctx context.Context, s *server) error {
	together(ctx, 32, func() {
		s.mutex.Lock() // planted: lock/mutex
		defer s.mutex.Unlock()
		time.Sleep(2 * time.Millisecond)
	})
	return nil
}

// stormRWMutex mixes readers with a few writers, each of which waits for all
// readers before it and keeps all after it out.
func stormRWMutex(ctx context.Context, s *server) error {
	var writers sync.WaitGroup
	writers.Go(func() {
		together(ctx, 4, func() {
			s.cache.Lock() // planted: lock/rwmutex
			time.Sleep(2 * time.Millisecond)
			s.cache.Unlock()
		})
	})
	together(ctx, 64, func() {
		s.cache.RLock() // planted: lock/rwmutex
		time.Sleep(time.Millisecond)
		s.cache.RUnlock()
	})
	writers.Wait()
	return nil
}

// logSlowly has no lock of its own: the handler has.
func logSlowly(ctx context.Context, _ *server) error {
	logger := slog.New(slog.NewTextHandler(slowWriter{}, nil))
	together(ctx, 32, func() {
		logger.Info("answered", "status", 200) // planted: lock/logger
	})
	return nil
}

// slowWriter is a log file on a busy disk.
type slowWriter struct{}

func (slowWriter) Write(line []byte) (int, error) {
	time.Sleep(2 * time.Millisecond)
	return len(line), nil
}
