package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gym-observer/observer"
)

func rest(ctx context.Context, _ *server) error {
	<-ctx.Done()
	return nil
}

// measureCapacity finds out how many requests a second the server can answer, by
// asking for as many as that with a few clients for a second.
func measureCapacity(ctx context.Context, s *server) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var answered atomic.Int64
	began := time.Now()
	together(ctx, 4*processors(), func() {
		if get(ctx, s.client, s.url+"/work") == nil {
			answered.Add(1)
		}
	})
	s.capacity = float64(answered.Load()) / time.Since(began).Seconds()
	if s.capacity == 0 {
		return fmt.Errorf("the server answered nothing for %v", time.Since(began))
	}
	return nil
}

// serveOpenLoop asks at random moments, whether the server has answered the last
// request or not, as many independent users do. The moments are the same each
// time.
func serveOpenLoop(ctx context.Context, s *server) error {
	const share = 0.6
	every := time.Duration(float64(time.Second) / (share * s.capacity))
	arriveAtRandom(ctx, every, func() { _ = get(ctx, s.client, s.url+"/work") })
	return nil
}

// arriveAtRandom does something at random moments, every so often on average, until
// ctx ends, and then waits for all of it. The moments are the same each time.
func arriveAtRandom(ctx context.Context, every time.Duration, do func()) {
	random := rand.New(rand.NewPCG(1, 2))
	var arrived sync.WaitGroup
	defer arrived.Wait()
	for due := time.Now(); ; {
		due = due.Add(time.Duration(random.ExpFloat64() * float64(every)))
		if sleep(ctx, time.Until(due)) != nil {
			return
		}
		arrived.Go(do)
	}
}

// keepBusy uses every processor, which alone slows nobody down.
func keepBusy(ctx context.Context, _ *server) error {
	spin(ctx, processors())
	return nil
}

// wakeTogether makes long run queues that are gone in no time.
func wakeTogether(ctx context.Context, _ *server) error {
	const every = 100 * time.Millisecond
	block := make([]byte, 1<<10)
	together(ctx, 1000, func() {
		now := time.Now()
		if sleep(ctx, now.Truncate(every).Add(every).Sub(now)) == nil {
			work(block)
		}
	})
	return nil
}

// driveWell is a driver with a bit of everything, and too much of nothing.
func driveWell(ctx context.Context, s *server) error {
	const rollouts = 16
	admission := newAdmission(rollouts)
	drive(ctx, rollouts, func(ctx context.Context) error {
		return admission.Do(ctx, func(ctx context.Context) error {
			if err := elsewhere(ctx); err != nil {
				return err
			}
			if err := get(ctx, s.model, s.url+"/work"); err != nil {
				return err
			}
			s.mutex.Lock()
			s.asked["driver"]++
			s.mutex.Unlock()
			return writeQuickly(ctx)
		})
	})
	return nil
}

// runTools runs a tool of 3 s in each of 16 rollouts, in a process of its own. The
// goroutine that waits for it sits in a system call, as one does that is stuck.
func runTools(ctx context.Context, _ *server) error {
	admission := newAdmission(16)
	drive(ctx, 16, func(ctx context.Context) error {
		return admission.Do(ctx, func(ctx context.Context) error {
			tool, err := startHelper(restOrder + " 3s")
			if err != nil {
				return err
			}
			defer context.AfterFunc(ctx, func() { tool.input.Close() })()
			return tool.command.Wait()
		})
	})
	return nil
}

// shareALimit uses a limit of 4 to 80 %: some always wait, none for long.
func shareALimit(ctx context.Context, _ *server) error {
	const each = 10 * time.Millisecond
	admission := newAdmission(4)
	arriveAtRandom(ctx, each*10/8/4, func() {
		_ = admission.Do(ctx, func(ctx context.Context) error { return sleep(ctx, each) })
	})
	return nil
}

// watch keeps twelve calls open in which another server would tell of events, as
// clients of a message queue or a cluster's API do, and says that they wait by design.
func watch(ctx context.Context, _ *server) error {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	client := newClient()
	client.Timeout = 0
	client.Transport = observer.Transport(client.Transport, observer.WithExpectedOutboundWait(func(*http.Request) bool { return true }))
	together(ctx, 12, func() { _ = get(ctx, client, silent.URL) })
	return nil
}
