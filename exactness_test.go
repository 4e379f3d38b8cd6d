package observer_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/response"
)

// ending is one way for a request to end, and what it must add to the totals.
type ending struct {
	path      string
	handler   http.HandlerFunc
	leaves    bool // the client goes away as soon as the handler is entered
	http1Only bool

	status    int // 0 for no response
	exception bool
	cancelled bool
	started   bool // of a cancellation
}

func endings(entered *sync.Map, ended <-chan struct{}) []ending {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	untilLeft := func(w http.ResponseWriter, r *http.Request) {
		channel, _ := entered.Load(r.PathValue("id"))
		close(channel.(chan struct{}))
		<-r.Context().Done()
	}
	deadline := func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		w.WriteHeader(http.StatusGatewayTimeout)
	}
	return []ending{
		{path: "/ok", handler: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }, status: 200},
		{path: "/implicit", handler: func(http.ResponseWriter, *http.Request) {}, status: 200},
		{path: "/empty", handler: status(204), status: 204},
		{path: "/moved", handler: status(304), status: 304},
		{path: "/missing", handler: http.NotFound, status: 404},
		{path: "/broken", handler: status(503), status: 503},
		{path: "/hints", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
		}, status: 418},
		{path: "/panic", handler: func(http.ResponseWriter, *http.Request) { panic("boom") }, exception: true},
		{path: "/late-panic", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			panic("boom")
		}, status: 202, exception: true},
		{path: "/abort", handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{path: "/exit", handler: func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, http1Only: true}, // net/http leaves an HTTP/2 stream open
		{path: "/timeout", handler: http.TimeoutHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			<-ended // not before: it would be chance whether that or the timeout comes first
		}), time.Millisecond, "").ServeHTTP, status: 503},
		{path: "/deadline", handler: deadline, status: 504},
		{path: "/before/{id}", handler: untilLeft, leaves: true, cancelled: true},
		{path: "/after/{id}", handler: func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			untilLeft(w, r)
		}, leaves: true, cancelled: true, started: true, status: 200},
		{path: "/late-head/{id}", handler: func(w http.ResponseWriter, r *http.Request) {
			untilLeft(w, r)
			w.WriteHeader(http.StatusBadGateway) // that nobody receives
		}, leaves: true, cancelled: true},
		{path: "/upgrade", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusSwitchingProtocols)
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				conn.Close()
			}
		}, status: 101, http1Only: true},
		{path: "/steal", handler: func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				conn.Close()
			}
		}, http1Only: true},
	}
}

// withDeadline gives one path a deadline of the server's own, outside the
// middleware: that is no departure.
func withDeadline(path string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path {
			ctx, cancel := context.WithTimeout(r.Context(), time.Millisecond)
			defer cancel()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

func TestTenThousandRequestsAreCountedExactly(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	const requests, clients = 10_000, 32
	cumulative, delta := sdkmetric.NewManualReader(), deltaReader()
	start(t, "server", observer.WithMeterProvider(providerOf(cumulative, delta)))
	metrics := observer.Requests()
	before := metrics.Counts()

	// Both readers collect all the time. The delta reader's points are added up;
	// its first collection holds what other tests counted.
	stop, collected := make(chan struct{}), make(chan struct{})
	exported := collect(t, delta)
	first, _ := exported.value(observer.ResponsesInstrument, attribute.Int(observer.HTTPStatusCodeAttribute, 200))
	var deltas float64
	add := func() {
		n, _ := collect(t, delta).value(observer.ResponsesInstrument, attribute.Int(observer.HTTPStatusCodeAttribute, 200))
		deltas += n
	}
	go func() {
		defer close(collected)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond): // one processor would do nothing else
			}
			var into metricdata.ResourceMetrics
			assert.NoError(t, cumulative.Collect(context.Background(), &into))
			add()
			assert.GreaterOrEqual(t, metrics.Counts().InFlight, int64(0))
		}
	}()

	var entered sync.Map // the id in a path to the channel that says it is entered
	want := counts{Responses: make(statuses), Cancellations: make(cancellations)}
	for _, protocol := range protocols {
		mux := http.NewServeMux()
		var script []ending
		for _, e := range endings(&entered, t.Context().Done()) {
			if e.http1Only && protocol != http1Protocol {
				continue
			}
			mux.HandleFunc(e.path, e.handler)
			script = append(script, e)
		}
		s := serve(t, protocol, withDeadline("/deadline", observer.Middleware(mux)))
		s.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = clients
		s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

		work := make(chan int)
		var working sync.WaitGroup
		for range clients {
			working.Go(func() {
				for i := range work {
					s.play(t, script[i%len(script)], fmt.Sprintf("%c-%d", protocol[5], i), &entered)
				}
			})
		}
		for i := range requests / len(protocols) {
			e := script[i%len(script)]
			if e.status != 0 {
				want.Responses[e.status]++
			}
			if e.exception {
				want.UnhandledExceptions++
			}
			if e.cancelled {
				want.Cancellations[observer.Cancellation{Route: e.path, ResponseStarted: e.started}]++
			}
			work <- i
		}
		close(work)
		working.Wait()
		for range requests / len(protocols) {
			receive(t, s.ended)
		}
	}
	close(stop)
	receive(t, collected)
	add()

	assert.Zero(t, response.Streaming(), "all have ended")
	now := metrics.Counts()
	assert.Equal(t, want, counts{
		InFlight:            now.InFlight - before.InFlight,
		UnhandledExceptions: now.UnhandledExceptions - before.UnhandledExceptions,
		Responses:           grown(before.Responses, now.Responses),
		Cancellations:       grown(before.Cancellations, now.Cancellations),
	})
	total := collect(t, cumulative).require(t, observer.ResponsesInstrument, attribute.Int(observer.HTTPStatusCodeAttribute, 200))
	assert.Equal(t, float64(now.Responses[200]), total, "of the cumulative reader")
	assert.Equal(t, total, first+deltas, "of the delta reader")
}

// play sends one request of the script. A POST, because a client sends a GET
// again when its connection ends.
func (s *site) play(t *testing.T, e ending, id string, entered *sync.Map) {
	if e.leaves {
		channel := make(chan struct{})
		entered.Store(id, channel)
		leave := s.begin(t, s.request(t, http.MethodPost, strings.Replace(e.path, "{id}", id, 1)))
		receive(t, channel)
		leave()
		return
	}
	response, err := s.Client().Post(s.URL+e.path, "", nil)
	if err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}
