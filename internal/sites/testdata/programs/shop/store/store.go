// Package store waits in the ways that are hard to name.
package store

import (
	"context"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"
)

type Cache[K comparable] struct{ mu sync.Mutex }

func (c *Cache[K]) Put(K) {
	c.mu.Lock() // planted: generic method
	defer c.mu.Unlock()
}

var cache = func() *Cache[string] {
	c := &Cache[string]{}
	c.mu.Lock()
	return c
}()

func Generic(http.ResponseWriter, *http.Request) { cache.Put("key") }

func Function(http.ResponseWriter, *http.Request) { receive[int]() }

func receive[T any]() T {
	return <-make(chan T) // planted: generic function
}

var limit = semaphore.NewWeighted(0)

// Small is inlined wherever it is called.
func small() { _ = limit.Acquire(context.Background(), 1) } // planted: inlined

func Inlined(http.ResponseWriter, *http.Request) { small() }

// Deep waits so far in that a record does not show the middleware any more.
func Deep(http.ResponseWriter, *http.Request) { deep(60) }

//go:noinline
func deep(n int) {
	if n > 0 {
		deep(n - 1)
		return
	}
	<-make(chan int) // planted: deep
}

// A Limiter's promoted method is a function that the compiler wrote.
type Limiter struct{ *semaphore.Weighted }

// Waiter is met by a method of the library that Limiter promotes.
type Waiter interface {
	Acquire(context.Context, int64) error
}

func (l Limiter) ServeHTTP(http.ResponseWriter, *http.Request) {
	var w Waiter = Limiter{limit}
	_ = w.Acquire(context.Background(), 1) // planted: promoted
}

func Child(http.ResponseWriter, *http.Request) {
	var group sync.WaitGroup
	group.Go(func() {
		<-make(chan int) // planted: child
	})
	group.Wait()
}
