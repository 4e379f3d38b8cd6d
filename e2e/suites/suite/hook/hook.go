//go:build ignore

// Package hook is copied into the test binaries of other people: it puts the
// observer into them, through variables that the patched net/http has, and
// reports the counts when the tests have ended. It is ignored here, since only a
// patched Go can build it.
package hook

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gym-observer/observer"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

var (
	entered, left atomic.Int64 // handlers, as seen from outside of the middleware
	sent, got     atomic.Int64 // round trips, as seen from outside of the transport
	lowest        atomic.Int64 // of the counts in flight, while the tests ran
)

func init() {
	switch mode := os.Getenv("OBSERVER_SUITES_MODE"); mode {
	case "", "without":
		return
	case "server":
		http.ForeignHandler = middleware
	case "inner":
		http.ForeignInner = middleware
	case "transport":
		http.ForeignTransport = func(next http.RoundTripper) http.RoundTripper { return countedTransport{observer.Transport(next)} }
	default:
		panic("hook: unknown mode " + mode)
	}
	testing.ForeignRun = observed
}

func middleware(next http.Handler) http.Handler { return counted{observer.Middleware(next)} }

type counted struct{ next http.Handler }

func (c counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	entered.Add(1)
	defer left.Add(1)
	c.next.ServeHTTP(w, r)
}

type countedTransport struct{ next http.RoundTripper }

func (c countedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent.Add(1)
	defer got.Add(1)
	return c.next.RoundTrip(r)
}

func (c countedTransport) CloseIdleConnections() {
	if next, ok := c.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// observed runs the tests while the observer observes.
func observed(run func() int) (code int) {
	reader := sdkmetric.NewManualReader()
	o := observer.Start(context.Background(), "server", observer.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	if err := o.Err(); err != nil {
		panic("hook: the observer does not observe: " + err.Error())
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		again := time.NewTicker(2 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-stop:
				return
			case <-again.C:
				counts := observer.Requests().Counts()
				if low := min(counts.InFlight, counts.OutboundInFlight); low < lowest.Load() {
					lowest.Store(low)
				}
			}
		}
	}()
	code = run()
	close(stop)
	<-stopped
	counts := settle()
	o.Stop()
	awaitNone()
	report(counts)
	return code
}

// settle waits for the handlers and round trips that the tests left behind, and
// which may end by themselves, up to 6 s.
func settle() observer.RequestCounts {
	for deadline := time.Now().Add(6 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		before := entered.Load() + left.Load() + sent.Load() + got.Load()
		counts := observer.Requests().Counts()
		quiet := before == entered.Load()+left.Load()+sent.Load()+got.Load()
		if quiet && counts.InFlight == 0 && counts.OutboundInFlight == 0 && entered.Load() == left.Load() && sent.Load() == got.Load() {
			return counts
		}
		if time.Now().After(deadline) {
			return counts
		}
	}
}

// awaitNone gives the observer's goroutines 2 s to be gone after Stop. One that
// stays is in the report, and suites that look for leaks find it, too.
func awaitNone() {
	for range 200 {
		if goroutines() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func report(counts observer.RequestCounts) {
	responses := int64(0)
	for _, n := range counts.Responses {
		responses += n
	}
	line, err := json.Marshal(map[string]int64{
		"Entered": entered.Load(), "Left": left.Load(), "Sent": sent.Load(), "Got": got.Load(),
		"InFlight": counts.InFlight, "Outbound": counts.OutboundInFlight, "Lowest": lowest.Load(),
		"Responses": responses, "Exceptions": counts.UnhandledExceptions, "Goroutines": int64(goroutines()),
	})
	if err != nil {
		panic(err)
	}
	file, err := os.OpenFile(os.Getenv("OBSERVER_SUITES_REPORT"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := file.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

// goroutines counts those that the observer has started and that are there.
func goroutines() (n int) {
	for _, stack := range strings.Split(stacks(), "\n\n")[1:] { // without this one
		if _, by, ok := strings.Cut(stack, "created by "); ok && strings.Contains(by, "gym-observer/observer") {
			n++
		}
	}
	return n
}

func stacks() string {
	text := make([]byte, 1<<20)
	return string(text[:runtime.Stack(text, true)])
}
