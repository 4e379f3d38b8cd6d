package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/gym-observer/observer"
)

// waitingClients are more than the 8 from which on requests that wait are a verdict.
const waitingClients = 16

// slotTime is how long one request keeps what the others wait for.
const slotTime = 50 * time.Millisecond

// serveWait does what the injection has planted.
func (s *server) serveWait(_ http.ResponseWriter, r *http.Request) {
	if wait := s.wait.Load(); wait != nil {
		(*wait)(r.Context())
	}
}

// letWait has clients ask for what waits, until ctx ends.
func letWait(ctx context.Context, s *server, wait func(context.Context)) error {
	return letWaitFor(ctx, s, waitingClients, wait)
}

func letWaitFor(ctx context.Context, s *server, clients int, wait func(context.Context)) error {
	s.wait.Store(&wait)
	defer s.wait.Store(nil)
	together(ctx, clients, func() { _ = get(ctx, s.client, s.url+"/wait") })
	return nil
}

// waitForConsumer hands each request to one goroutine that is slow.
func waitForConsumer(ctx context.Context, s *server) error {
	jobs := make(chan struct{})
	var consumer sync.WaitGroup
	defer consumer.Wait()
	defer close(jobs)
	consumer.Go(func() {
		for range jobs {
			time.Sleep(slotTime)
		}
	})
	return letWait(ctx, s, func(context.Context) {
		jobs <- struct{}{} // planted: wait/channel
	})
}

// waitForLogger logs through a channel, whose other end writes to a slow disk.
func waitForLogger(ctx context.Context, s *server) error {
	lines := make(chan string, 4)
	var writer sync.WaitGroup
	defer writer.Wait()
	defer close(lines)
	writer.Go(func() {
		for range lines {
			time.Sleep(slotTime)
		}
	})
	log := func(line string) {
		lines <- line // planted: wait/logger
	}
	return letWait(ctx, s, func(context.Context) { log("answered") })
}

// waitForDatabase has more requests than its pool has connections.
func waitForDatabase(ctx context.Context, s *server) error {
	db := sql.OpenDB(slowDatabase{})
	defer db.Close()
	db.SetMaxOpenConns(2)
	return letWait(ctx, s, func(ctx context.Context) {
		_, _ = db.ExecContext(ctx, "UPDATE") // planted: wait/database
	})
}

// slowDatabase is a driver whose statements take their time.
type slowDatabase struct{}

func (slowDatabase) Connect(context.Context) (driver.Conn, error) { return slowDatabase{}, nil }
func (slowDatabase) Driver() driver.Driver                        { return nil }
func (slowDatabase) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (slowDatabase) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }
func (slowDatabase) Close() error                                 { return nil }
func (slowDatabase) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	time.Sleep(slotTime)
	return driver.RowsAffected(1), nil
}

// waitForSemaphore limits what is done at once.
func waitForSemaphore(ctx context.Context, s *server) error {
	limit := semaphore.NewWeighted(2)
	return letWait(ctx, s, func(ctx context.Context) {
		if limit.Acquire(ctx, 1) == nil { // planted: wait/semaphore
			time.Sleep(slotTime)
			limit.Release(1)
		}
	})
}

// waitForLimiter lets one request pass at each tick.
func waitForLimiter(ctx context.Context, s *server) error {
	tokens := time.NewTicker(slotTime)
	defer tokens.Stop()
	return letWait(ctx, s, func(context.Context) {
		<-tokens.C // planted: wait/limiter
	})
}

// waitForParts waits for what each request has started.
func waitForParts(ctx context.Context, s *server) error {
	slots := make(chan struct{}, 2)
	return letWait(ctx, s, func(context.Context) {
		var parts sync.WaitGroup
		for range 2 {
			parts.Go(func() {
				slots <- struct{}{} // planted: wait/waitgroup
				time.Sleep(slotTime)
				<-slots
			})
		}
		parts.Wait()
	})
}

// waitForFlight shares one slow answer, as a cache does that fills itself.
func waitForFlight(ctx context.Context, s *server) error {
	var flights singleflight.Group
	return letWait(ctx, s, func(context.Context) {
		_, _, _ = flights.Do("key", func() (any, error) { // planted: wait/singleflight
			time.Sleep(10 * slotTime)
			return nil, nil
		})
	})
}

// waitForConnection has more requests than its transport has connections.
func waitForConnection(ctx context.Context, s *server) error {
	call, end := twoConnections()
	defer end()
	return letWait(ctx, s, func(ctx context.Context) { _ = call(ctx) })
}

// twoConnections calls a slow server through an HTTP client that may have two
// connections.
func twoConnections() (call func(context.Context) error, end func()) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(slotTime) }))
	client := &http.Client{Transport: observer.Transport(&http.Transport{MaxConnsPerHost: 2})}
	call = func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, other.URL, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request) // planted: wait/transport wait/rollouts
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	return call, func() {
		client.CloseIdleConnections()
		other.Close()
	}
}

// backOff sleeps before it tries again.
func backOff(ctx context.Context, s *server) error {
	return letWait(ctx, s, func(context.Context) {
		time.Sleep(10 * slotTime) // planted: wait/backoff
	})
}

// pollForEvents waits for events that do not come. It looks like a gate of the
// application's own, so that there is a sentence and no verdict.
func pollForEvents(ctx context.Context, s *server) error {
	events := make(chan struct{})
	return letWait(ctx, s, func(ctx context.Context) {
		select { // planted: none/poll
		case <-events:
		case <-ctx.Done():
		}
	})
}

// pollWithCond does the same with a Cond, as a queue in memory does.
func pollWithCond(ctx context.Context, s *server) error {
	var mu sync.Mutex
	changed, over := sync.NewCond(&mu), false
	defer context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		changed.Broadcast()
	})()
	return letWait(ctx, s, func(context.Context) {
		mu.Lock()
		defer mu.Unlock()
		for !over {
			changed.Wait() // planted: none/cond
		}
	})
}
