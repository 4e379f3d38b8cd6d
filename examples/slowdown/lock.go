package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
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

// waitForPipe writes log lines into a pipe whose reader is slow, as to a process that
// ships them. One writes; the others wait for the lock of the file.
func waitForPipe(ctx context.Context, s *server) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	defer w.Close()
	var reader sync.WaitGroup
	defer reader.Wait()
	defer r.Close()
	line := make([]byte, 16<<10)
	reader.Go(func() {
		buffer := make([]byte, len(line))
		for {
			if n, err := r.Read(buffer); n == 0 || err != nil {
				return
			}
			time.Sleep(slotTime)
		}
	})
	return letWait(ctx, s, func(context.Context) {
		if _, err := w.Write(line); err != nil { // planted: lock/pipe
			return
		}
	})
}
