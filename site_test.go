package observer_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

// observation shows what was counted since observe. The totals are the
// process's and go on from test to test, so that tests look at differences.
type observation struct {
	*observed
	metrics *observer.RequestMetrics
	before  observer.RequestCounts
}

// observe observes this process until the test ends.
func observe(t testing.TB) *observation {
	t.Helper()
	o := start(t, "test")
	metrics := observer.Requests()
	return &observation{observed: o, metrics: metrics, before: metrics.Counts()}
}

// counted returns what was counted since, with nil for an empty map.
func (o *observation) counted() observer.RequestCounts {
	now := o.metrics.Counts()
	return observer.RequestCounts{
		InFlight:            now.InFlight - o.before.InFlight,
		OutboundInFlight:    now.OutboundInFlight - o.before.OutboundInFlight,
		UnhandledExceptions: now.UnhandledExceptions - o.before.UnhandledExceptions,
		Responses:           grown(o.before.Responses, now.Responses),
		Cancellations:       grown(o.before.Cancellations, now.Cancellations),
	}
}

func grown[K comparable](before, now map[K]int64) map[K]int64 {
	var grown map[K]int64
	for key, n := range now {
		if n -= before[key]; n != 0 {
			if grown == nil {
				grown = make(map[K]int64)
			}
			grown[key] = n
		}
	}
	return grown
}

type (
	counts        = observer.RequestCounts
	statuses      = map[int]int64
	cancellations = map[observer.Cancellation]int64
)

// leftBefore and leftAfter are one cancelled request before and after the
// response had started.
func leftBefore(route string) cancellations {
	return cancellations{{Route: route}: 1}
}

func leftAfter(route string) cancellations {
	return cancellations{{Route: route, ResponseStarted: true}: 1}
}

// site is a real server on loopback.
type site struct {
	*httptest.Server
	ended chan struct{} // a value for each request that the handler, with its middleware, is done with
	log   chan string   // what net/http logs
}

const (
	http1Protocol = "HTTP/1.1"
	http2Protocol = "HTTP/2.0"
)

var protocols = []string{http1Protocol, http2Protocol}

// newSite returns a site that does not run yet.
func newSite(t testing.TB, protocol string, handler http.Handler) *site {
	s := &site{ended: make(chan struct{}, 10_000), log: make(chan string, 10_000)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { s.ended <- struct{}{} }()
		handler.ServeHTTP(w, r)
	}))
	s.EnableHTTP2 = protocol == http2Protocol
	s.Config.ErrorLog = log.New(logTo(s.log), "", 0)
	t.Cleanup(s.Close)
	return s
}

// serve runs a site until the test ends.
func serve(t testing.TB, protocol string, handler http.Handler) *site {
	s := newSite(t, protocol, handler)
	if s.EnableHTTP2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	return s
}

type logTo chan<- string

func (entries logTo) Write(entry []byte) (int, error) {
	entries <- string(entry)
	return len(entry), nil
}

// receive returns the next value of a channel, or fails the test.
func receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(20 * time.Second):
		require.FailNow(t, "nothing came within 20 s")
		panic("not reached")
	}
}

func (s *site) request(t testing.TB, method, path string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
	require.NoError(t, err)
	return request
}

// do sends a request, waits until the handler is done with it, and returns the
// response with its body.
func (s *site) do(t testing.TB, request *http.Request) (*http.Response, string) {
	t.Helper()
	response, err := s.Client().Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	receive(t, s.ended)
	return response, string(body)
}

func (s *site) get(t testing.TB, path string) (*http.Response, string) {
	t.Helper()
	return s.do(t, s.request(t, http.MethodGet, path))
}

// fail sends a request that the handler lets end without a response.
func (s *site) fail(t testing.TB, path string) {
	t.Helper()
	response, err := s.Client().Do(s.request(t, http.MethodGet, path))
	if err == nil { // the head had gone out
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	require.Error(t, err)
	receive(t, s.ended)
}

// begin sends a request whose client leaves when told to, and returns when it
// has left.
func (s *site) begin(t testing.TB, request *http.Request) (leave func()) {
	ctx, cancel := context.WithCancel(request.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		response, err := s.Client().Do(request.WithContext(ctx))
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}()
	return func() {
		cancel()
		receive(t, gone)
	}
}

// dial opens a connection and sends a request on it, as its text.
func (s *site) dial(t testing.TB, path string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: example.com\r\n\r\n", path)
	require.NoError(t, err)
	return conn.(*net.TCPConn)
}

// untilLeft is a handler that says when it is entered and waits for the client
// to leave.
type untilLeft chan struct{}

func (entered untilLeft) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	entered <- struct{}{}
	<-r.Context().Done()
}

// endable returns a request whose context the returned function ends.
func endable(method string, with func(context.Context) (context.Context, func())) (*http.Request, func()) {
	r := httptest.NewRequest(method, "/", nil)
	ctx, end := with(r.Context())
	return r.WithContext(ctx), end
}

func cancelled(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	return ctx, cancel
}

// steady returns the counts when nothing changes them any more: requests of other
// tests may end after their clients have.
func steady() observer.RequestCounts {
	for {
		before, listed := observer.Requests().Counts(), observer.WorkListed()
		time.Sleep(100 * time.Millisecond)
		if after := observer.Requests().Counts(); reflect.DeepEqual(before, after) && listed == observer.WorkListed() {
			return after
		}
	}
}

var okBody = []byte("ok")
