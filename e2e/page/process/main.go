// Command process shows the live page of a server and rollout driver that
// suffers on request. Its first line is its address. It exports nothing: the page
// needs no backend.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer"
)

func main() {
	var options settings
	flag.DurationVar(&options.window, "window", time.Second, "of the diagnosis")
	flag.StringVar(&options.captures, "captures", "", "a `directory` for evidence")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type settings struct {
	window   time.Duration
	captures string
}

func (s settings) start() *observer.Observer {
	options := []observer.Option{observer.WithMeterProvider(noop.NewMeterProvider()), observer.WithWindow(s.window)}
	if s.captures != "" {
		options = append(options, observer.WithCapture(s.captures))
	}
	options = append(options, observer.WithProfiles())
	return observer.Start(context.Background(), "process", options...)
}

func run(ctx context.Context, options settings) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	url := "http://" + listener.Addr().String()
	p := &process{
		ctx:       ctx,
		settings:  options,
		observing: options.start(),
		model:     &http.Client{Transport: observer.Transport(nil)},
		url:       url,
		admission: observer.NewMeteredAdmission(semaphore.NewWeighted(8)),
		cache:     make(map[string]int),
	}
	page := observer.Handler()
	mux := http.NewServeMux()
	mux.Handle("/debug/observer", page)
	mux.Handle("/debug/observer/", page)
	mux.Handle("/stripped/", http.StripPrefix("/stripped", page))
	mux.HandleFunc("GET /model", func(http.ResponseWriter, *http.Request) { time.Sleep(20 * time.Millisecond) })
	mux.HandleFunc("POST /serve", p.begin(8, p.callServer))
	mux.HandleFunc("POST /drive", p.begin(24, p.drive))
	mux.HandleFunc("POST /lock", p.begin(24, p.holdLock))
	mux.HandleFunc("POST /gc", func(w http.ResponseWriter, r *http.Request) {
		debug.SetGCPercent(10)
		live := list(1 << 20) // what every collection has to mark
		p.begin(12, func(context.Context) {
			list(1 << 12)
			runtime.KeepAlive(live)
		})(w, r)
	})
	mux.HandleFunc("POST /recover", func(http.ResponseWriter, *http.Request) { p.recover() })
	mux.HandleFunc("POST /start", func(http.ResponseWriter, *http.Request) { p.observing = p.settings.start() })
	mux.HandleFunc("POST /stop", func(http.ResponseWriter, *http.Request) { p.observing.Stop() })
	observed := http.NewServeMux()
	observed.HandleFunc("GET /work/{id}", p.serveWork)
	mux.Handle("/work/", observer.Middleware(observed))

	// The stream of the page outlives this timeout.
	server := &http.Server{Handler: mux, WriteTimeout: 2 * time.Second}
	go func() { _ = server.Serve(listener) }()
	fmt.Println(url)
	<-ctx.Done()
	p.recover()
	// The page that a browser has open would keep it waiting for ever.
	shutdown, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = server.Shutdown(shutdown)
	p.observing.Stop()
	return err
}

// process is a server with what slows it down.
type process struct {
	settings
	ctx       context.Context
	observing *observer.Observer // requests to start and stop come one after the other
	url       string
	model     *http.Client
	admission *observer.MeteredAdmission

	lock  sync.Mutex
	cache map[string]int

	mu      sync.Mutex // guards cures
	cures   []context.CancelFunc
	running sync.WaitGroup
}

// begin returns a handler that lets n goroutines do something again and again,
// until the process recovers.
func (p *process) begin(n int, do func(context.Context)) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) {
		ctx, cure := context.WithCancel(p.ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cures = append(p.cures, cure)
		for range n {
			p.running.Go(func() {
				for ctx.Err() == nil {
					do(ctx)
				}
			})
		}
	}
}

// recover ends what was begun, and waits for it.
func (p *process) recover() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cure := range p.cures {
		cure()
	}
	p.cures = nil
	p.running.Wait()
	debug.SetGCPercent(100)
}

// serveWork asks a model, and fails now and then.
func (p *process) serveWork(w http.ResponseWriter, r *http.Request) {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, p.url+"/model", nil)
	if err != nil {
		panic(err) // the address is this process's own
	}
	response, err := p.model.Do(request)
	if err != nil {
		http.Error(w, "no answer", http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	switch r.PathValue("id") {
	case "0":
		http.NotFound(w, r)
	default:
		_, _ = io.Copy(w, response.Body)
	}
}

func (p *process) callServer(ctx context.Context) {
	for id := range 20 {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/work/%d", p.url, id), nil)
		if err != nil {
			panic(err)
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		time.Sleep(30 * time.Millisecond)
	}
}

func (p *process) drive(ctx context.Context) {
	driver := observer.Driver()
	driver.Offer(1)
	_ = driver.CountResident(func() error {
		return p.admission.Do(ctx, func(context.Context) error {
			time.Sleep(30 * time.Millisecond)
			return nil
		})
	})
	time.Sleep(60 * time.Millisecond)
}

func (p *process) holdLock(context.Context) {
	p.lock.Lock()
	defer p.lock.Unlock()
	time.Sleep(2 * time.Millisecond)
}

// node is a small object for the collector to follow.
type node struct {
	next *node
	_    [7]int64
}

func list(length int) (first *node) {
	for range length {
		first = &node{next: first}
	}
	return first
}
