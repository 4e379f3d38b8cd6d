package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/cpu"

	"github.com/gym-observer/observer"
)

var processorCounts = []int{1, 2, 4, 8}

const (
	scaledMiddleware = "observer's middleware"
	scaledTransport  = "observer's transport"
	scaledAdmission  = "observer's admission"

	// The machine's own share of a request, an outbound request and an admission:
	// as many counters as each writes what other cores write, too. Of a request
	// that are those in flight and ended, its status and its place among those in
	// flight, and the collector needs a core for its allocation. Of an outbound
	// request they are those in flight and ended, and its server's, which lie on one
	// cache line and are written together. Of an admission
	// these are the waiting begun and ended, the place in the ring, and the active
	// and the held up and down again.
	shareOfMiddleware = "4 shared atomic counters and an allocation"
	shareOfTransport  = "3 shared atomic counters"
	shareOfAdmission  = "7 shared atomic counters"
)

func onProcessors(what string, processors int) string {
	return fmt.Sprintf("%s, GOMAXPROCS=%d", what, processors)
}

// scaling measures what several cores do at once to the same counters.
func scaling() *family {
	f := &family{
		name:  scaled,
		about: "As many goroutines as processors do the same; CPU time of one operation, so that 2 processors show as the same value when neither slows the other. What a core pays for a cache line that another has just written is the machine's own share: it shows in the counters, which are as many as the observer writes for a request, an outbound request and an admission.",
		unit:  "ns",
	}
	for _, c := range []struct {
		name     string
		role     role
		observed bool
		new      func() func() func(n int) // called once, then once for each goroutine
	}{
		{bareHandler, floor, false, scaledHandling(trivial)},
		{bareTransport, floor, false, scaledTripping(func(t http.RoundTripper) http.RoundTripper { return t })},
		{bareSemaphore, floor, false, scaledAdmitting(func(l observer.Limiter) observer.Limiter { return l })},
		{shareOfMiddleware, floor, false, scaledCounting(4, func() *[22]*int { return new([22]*int) })},
		{shareOfTransport, floor, false, scaledCounting(3, nil)},
		{shareOfAdmission, floor, false, scaledCounting(7, nil)},
		{scaledMiddleware, ours, true, scaledHandling(middleware(trivial))},
		{scaledTransport, ours, true, scaledTripping(observing)},
		{scaledAdmission, ours, true, scaledAdmitting(metered)},
	} {
		for _, processors := range processorCounts {
			run := func(_ *observed, e effort) (sample, error) {
				return uncounted(inParallel(processors, e.slice, c.new())), nil
			}
			f.cases = append(f.cases, &testCase{onProcessors(c.name, processors), c.role, observedOrNot(c.observed, run)})
		}
	}
	return f
}

func scaledHandling(h http.Handler) func() func() func(int) {
	return func() func() func(int) {
		return func() func(int) {
			w, r := &fakeWriter{header: make(http.Header)}, httptest.NewRequest(http.MethodGet, "/", nil)
			return func(n int) {
				for range n {
					h.ServeHTTP(w, r)
				}
			}
		}
	}
}

func scaledTripping(wrap func(http.RoundTripper) http.RoundTripper) func() func() func(int) {
	return func() func() func(int) {
		transport := wrap(atOnce{&http.Response{StatusCode: http.StatusOK, Body: http.NoBody}})
		return func() func(int) {
			request := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
			return func(n int) {
				for range n {
					_, _ = transport.RoundTrip(request)
				}
			}
		}
	}
}

func scaledAdmitting(wrap func(observer.Limiter) observer.Limiter) func() func() func(int) {
	return func() func() func(int) {
		limit, ctx := wrap(semaphore.NewWeighted(slots)), context.Background()
		return func() func(int) {
			return func(n int) {
				for range n {
					if limit.Acquire(ctx, 1) == nil {
						limit.Release(1)
					}
				}
			}
		}
	}
}

func scaledCounting(counters int, allocate func() *[22]*int) func() func() func(int) {
	return func() func() func(int) {
		shared := make([]struct {
			_ cpu.CacheLinePad
			atomic.Int64
			_ cpu.CacheLinePad
		}, counters)
		return func() func(int) {
			var kept *[22]*int // 176 bytes, as large as what the middleware allocates
			return func(n int) {
				for range n {
					for i := range shared {
						shared[i].Add(1)
					}
					if allocate != nil {
						kept = allocate()
					}
				}
				runtime.KeepAlive(kept)
			}
		}
	}
}

// inParallel returns the nanoseconds of CPU time that one operation takes with
// so many processors, as far as the machine has them.
func inParallel(processors int, slice time.Duration, newOperation func() func(int)) float64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	var operations []func(int)
	for range processors {
		operations = append(operations, newOperation())
	}
	var done atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for _, operation := range operations {
		all.Go(func() {
			const atATime = 1000
			for time.Since(began) < slice {
				operation(atATime)
				done.Add(atATime)
			}
		})
	}
	all.Wait()
	cores := min(processors, runtime.NumCPU())
	return float64(time.Since(began).Nanoseconds()) * float64(cores) / float64(done.Load())
}
