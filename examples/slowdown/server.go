package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gym-observer/observer"
)

// server is the small server that suffers, with what an injection may get hold
// of.
type server struct {
	url    string
	http   *http.Server
	client *http.Client // of those who ask this server: not observed, they are other people
	model  *http.Client // of the server's own requests to others: observed

	mutex sync.Mutex   // the handler takes both, as a server does
	cache sync.RWMutex // that counts and caches
	asked map[string]int

	upstream atomic.Pointer[string]                // what /ask asks
	wait     atomic.Pointer[func(context.Context)] // what /wait does

	capacity float64 // requests a second that it can answer, where that was measured
	answers  answers
}

// pagePath is where the live page is.
const pagePath = "/debug/observer"

const (
	askInterval    = 50 * time.Millisecond // between the requests of somebody who looks in
	requestTimeout = 10 * time.Second
)

// newServer starts to serve on a port of the loopback interface.
func newServer() (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{
		url:    "http://" + listener.Addr().String(),
		client: newClient(),
		model:  newClient(),
		asked:  make(map[string]int),
	}
	s.model.Transport = observer.Transport(s.model.Transport)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /rollouts/{id}", s.serveRollout)
	mux.HandleFunc("GET /work", serveWork)
	mux.HandleFunc("GET /ask", s.serveAsk)
	mux.HandleFunc("GET /wait", s.serveWait)
	outer := http.NewServeMux()
	outer.Handle("/", observer.Middleware(mux))
	outer.Handle(pagePath, observer.Handler()) // beside the middleware: who looks is not counted
	s.http = &http.Server{Addr: listener.Addr().String(), Handler: outer}
	go s.http.Serve(listener)
	return s, nil
}

// newClient returns a client that keeps as many connections as it needs.
func newClient() *http.Client {
	return &http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}
}

func (s *server) close() {
	s.http.Close()
	s.client.CloseIdleConnections()
	s.model.CloseIdleConnections()
}

// serveRollout answers with a small piece of JSON, after a little of everything:
// a mutex, a cache, memory and the processor.
func (s *server) serveRollout(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.mutex.Lock()
	s.asked[id]++
	times := s.asked[id]
	s.mutex.Unlock()
	s.cache.RLock()
	size := len(s.url)
	s.cache.RUnlock()
	work(make([]byte, 16<<10))
	json.NewEncoder(w).Encode(map[string]any{"id": id, "asked": times, "size": size})
}

// serveWork uses a processor for a while and nothing else.
func serveWork(w http.ResponseWriter, r *http.Request) {
	work(workload[:])
	w.WriteHeader(http.StatusNoContent)
}

// serveAsk passes the question on.
func (s *server) serveAsk(w http.ResponseWriter, r *http.Request) {
	if err := s.askModel(r.Context(), *s.upstream.Load()); err != nil {
		http.Error(w, "asking the model", http.StatusBadGateway)
	}
}

// workload is what serveWork hashes: a few milliseconds of work.
var workload [1 << 20]byte

// work uses a processor for a while that depends on what it is given alone, and
// not on the clock, which goes on while the goroutine waits.
func work(on []byte) {
	sha256.Sum256(on) // planted: cpu_throttled/* cpu_contended/* cpu_saturated/*
}

// askModel asks another server and waits for its answer.
func (s *server) askModel(ctx context.Context, url string) error { return get(ctx, s.model, url) }

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request) // planted: downstream/*
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// askNowAndThen asks the server 20 times a second, whether it has answered or
// not, so that there is somebody to suffer. It goes on until stop is called.
func (s *server) askNowAndThen() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var requests sync.WaitGroup
	requests.Go(func() {
		for n := 0; sleep(ctx, askInterval) == nil; n++ {
			url := fmt.Sprintf("%s/rollouts/%d", s.url, n%10)
			requests.Go(func() {
				began := time.Now()
				s.answers.ask()
				if get(ctx, s.client, url) == nil {
					s.answers.add(time.Since(began))
				}
			})
		}
	})
	return func() {
		cancel()
		requests.Wait()
	}
}

// answers are how the server looks from outside.
type answers struct {
	mu    sync.Mutex
	asked int
	took  []time.Duration
}

// latencies are the answers of one window.
type latencies struct {
	Asked    int     `json:"asked"`
	Answered int     `json:"answered"`
	Median   seconds `json:"median_seconds"`
	Slowest  seconds `json:"slowest_seconds"`
}

func (a *answers) ask() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
}

func (a *answers) add(took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took = append(a.took, took)
}

// take returns the answers since the last time.
func (a *answers) take() latencies {
	a.mu.Lock()
	asked, took := a.asked, a.took
	a.asked, a.took = 0, nil
	a.mu.Unlock()
	l := latencies{Asked: asked, Answered: len(took)}
	if len(took) > 0 {
		slices.Sort(took)
		l.Median = seconds(took[len(took)/2].Seconds())
		l.Slowest = seconds(took[len(took)-1].Seconds())
	}
	return l
}
