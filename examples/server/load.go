package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/examples/internal/demo"
)

// patience is what a client has for a search, which takes two seconds.
const patience = 200 * time.Millisecond

// load is what the built-in clients do to the server, and what they saw of it.
type load struct {
	server  string
	client  *http.Client // not observed: it stands for clients elsewhere
	clients sync.WaitGroup

	mu      sync.Mutex // guards what follows
	seen    map[int]int64
	hangUps int64
}

// startLoad starts n clients that call the server until ctx ends.
func startLoad(ctx context.Context, server string, n int) *load {
	l := &load{
		server: server,
		client: &http.Client{Transport: demo.NewTransport()},
		seen:   make(map[int]int64),
	}
	for range n {
		l.clients.Go(func() {
			for ctx.Err() == nil {
				l.call()
				time.Sleep(rand.N(20 * time.Millisecond))
			}
		})
	}
	return l
}

// call makes one request: mostly a good one, now and then for a rollout that
// does not exist, or one that is given up before the response or within it.
func (l *load) call() {
	switch rand.IntN(40) {
	case 0:
		ctx, giveUp := context.WithTimeout(context.Background(), patience)
		defer giveUp()
		l.get(ctx, "/search")
	case 1:
		ctx, giveUp := context.WithCancel(context.Background())
		defer giveUp()
		if body := l.open(ctx, "/rollouts/7/events"); body != nil {
			_, _ = bufio.NewReader(body).ReadString('\n') // one event is enough
			_ = body.Close()
			l.hangUp()
		}
	case 2:
		l.get(context.Background(), "/rollouts/0")
	default:
		l.get(context.Background(), fmt.Sprintf("/rollouts/%d", 1+rand.IntN(1000)))
	}
}

// get makes a request and reads the whole response.
func (l *load) get(ctx context.Context, path string) {
	if body := l.open(ctx, path); body != nil {
		_, _ = io.Copy(io.Discard, body)
		_ = body.Close()
	}
}

// open makes a request and returns the body of the response, nil without one.
func (l *load) open(ctx context.Context, path string) io.ReadCloser {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.server+path, nil)
	if err != nil {
		panic(err) // the paths are written above
	}
	response, err := l.client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			l.hangUp()
		}
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[response.StatusCode]++
	return response.Body
}

func (l *load) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hangUps++
}

// wait waits until the clients have ended, each with a last response.
func (l *load) wait() {
	l.clients.Wait()
	l.client.CloseIdleConnections()
}

// summarize prints what the clients saw beside what the observer counted.
func (l *load) summarize(counted observer.RequestCounts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Printf("\n%-12s %14s %18s\n", "responses", "clients saw", "observer counted")
	statuses := make(map[int]bool)
	for status := range l.seen {
		statuses[status] = true
	}
	for status := range counted.Responses {
		statuses[status] = true
	}
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		fmt.Printf("%-12d %14d %18d\n", status, l.seen[status], counted.Responses[status])
	}
	var cancelled int64
	for _, n := range counted.Cancellations {
		cancelled += n
	}
	fmt.Printf("%-12s %14d %18d\n", "hang-ups", l.hangUps, cancelled)
	if cancelled < l.hangUps {
		fmt.Println("A hang-up counts where the server had the request and still owed some of the response.")
	}
}
