// Package otlptest is a collector for tests: a real OTLP receiver over gRPC or
// HTTP on a loopback port, which keeps what it accepts, and can be told to fail.
package otlptest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// Protocol is a value of OTEL_EXPORTER_OTLP_PROTOCOL.
type Protocol string

// The protocols that the SDK's exporters speak.
const (
	GRPC Protocol = "grpc"
	HTTP Protocol = "http/protobuf"
)

// Answer is what a collector does with a request once it has read it.
type Answer struct {
	after   time.Duration
	kind    answerKind
	partial *collectorpb.ExportMetricsPartialSuccess // of an accepted one; may be nil
}

type answerKind int

const (
	accept answerKind = iota
	refuse
	unavailable
	never
)

// The answers. A collector accepts until it is told otherwise.
var (
	Accept      = Answer{kind: accept}
	Refuse      = Answer{kind: refuse}      // INVALID_ARGUMENT or 400: not to be tried again
	Unavailable = Answer{kind: unavailable} // UNAVAILABLE or 503: to be tried again
	Never       = Answer{kind: never}       // read, and left without an answer
)

// AcceptAfter accepts, but late.
func AcceptAfter(d time.Duration) Answer { return Answer{after: d, kind: accept} }

// AcceptWith accepts, and answers with OTLP's partial success: how many points
// the collector says it rejected, which may be none, and what it has to say.
func AcceptWith(rejected int64, message string) Answer {
	return Answer{kind: accept, partial: &collectorpb.ExportMetricsPartialSuccess{RejectedDataPoints: rejected, ErrorMessage: message}}
}

// patience is how long a wait may take before the test fails.
const patience = 20 * time.Second

// Collector is a running receiver. Its methods are safe for concurrent use.
type Collector struct {
	// CertificateFile holds what a client must trust; KeyFile holds its key, so
	// that a client can show the same one. Both are empty without TLS.
	CertificateFile, KeyFile string

	protocol Protocol
	identity *identity // nil without TLS
	address  string

	mu       sync.Mutex
	stop     func() // nil while stopped
	answer   Answer
	attempts int
	requests []Request
	changed  chan struct{} // closed and replaced at each attempt and each request
}

// Request is one export that was accepted.
type Request struct {
	Path        string // of the URL, or the method of gRPC
	Header      http.Header
	Compression string // such as gzip; empty for none
	Certified   bool   // the client showed a certificate
	Body        *collectorpb.ExportMetricsServiceRequest
}

// Start starts a collector in plain text, which stops with the test.
func Start(t testing.TB, protocol Protocol) *Collector {
	t.Helper()
	return start(t, protocol, nil)
}

// StartTLS starts a collector with a certificate of its own, which stops with the test.
func StartTLS(t testing.TB, protocol Protocol) *Collector {
	t.Helper()
	return start(t, protocol, newIdentity(t))
}

func start(t testing.TB, protocol Protocol, identity *identity) *Collector {
	t.Helper()
	listener := listen(t, "127.0.0.1:0")
	c := &Collector{protocol: protocol, identity: identity, address: listener.Addr().String(), changed: make(chan struct{})}
	if identity != nil {
		c.CertificateFile, c.KeyFile = identity.file, identity.keyFile
	}
	c.serve(listener)
	t.Cleanup(c.Stop)
	return c
}

// Address returns the host and port, the same ones for the collector's life.
func (c *Collector) Address() string { return c.address }

// Endpoint returns the URL for OTEL_EXPORTER_OTLP_ENDPOINT.
func (c *Collector) Endpoint() string {
	if c.identity != nil {
		return "https://" + c.address
	}
	return "http://" + c.address
}

// Answer changes what happens to requests from now on.
func (c *Collector) Answer(a Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = a
}

// Stop closes the port and all connections, as a collector that dies. It may be
// called again.
func (c *Collector) Stop() {
	c.mu.Lock()
	stop := c.stop
	c.stop = nil
	c.mu.Unlock()
	if stop != nil {
		stop() // without the lock: it may wait for a request that takes it
	}
}

// Restart listens again, on the same port, after Stop.
func (c *Collector) Restart(t testing.TB) {
	t.Helper()
	c.serve(listen(t, c.address))
}

func (c *Collector) serve(listener net.Listener) {
	serve := c.serveGRPC
	if c.protocol == HTTP {
		serve = c.serveHTTP
	}
	stop := serve(listener)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop = stop
}

// Requests returns what was accepted so far, in order.
func (c *Collector) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[:len(c.requests):len(c.requests)]
}

// Attempts returns how many requests arrived, whatever the answer was.
func (c *Collector) Attempts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attempts
}

// Forget drops what was accepted so far.
func (c *Collector) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = nil
}

// WaitForAttempts waits until n requests have arrived, whatever the answer was.
func (c *Collector) WaitForAttempts(t testing.TB, n int) {
	t.Helper()
	c.wait(t, func() bool { return c.Attempts() >= n })
}

// WaitFor returns the first accepted request that matches, and waits for one.
func (c *Collector) WaitFor(t testing.TB, matches func(Request) bool) (found Request) {
	t.Helper()
	seen := 0
	c.wait(t, func() bool {
		requests := c.Requests()
		for _, request := range requests[min(seen, len(requests)):] {
			if matches(request) {
				found = request
				return true
			}
		}
		seen = len(requests)
		return false
	})
	return found
}

// WaitForMetric waits for a request that has the metric.
func (c *Collector) WaitForMetric(t testing.TB, name string) *metricspb.Metric {
	t.Helper()
	return c.WaitFor(t, func(r Request) bool { return r.Metric(name) != nil }).Metric(name)
}

func (c *Collector) wait(t testing.TB, done func() bool) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			t.Fatalf("the %s collector has not had what was waited for in %v; %d attempts, %d accepted",
				c.protocol, patience, c.Attempts(), len(c.Requests()))
		}
	}
}

// receive answers one request that was read.
func (c *Collector) receive(ctx context.Context, request Request) Answer {
	c.mu.Lock()
	answer := c.answer
	c.attempts++
	c.signal()
	c.mu.Unlock()

	if answer.kind == never {
		<-ctx.Done()
		return Never
	}
	if answer.after > 0 {
		select {
		case <-ctx.Done():
			return Never
		case <-time.After(answer.after):
		}
	}
	if answer.kind == accept {
		c.mu.Lock()
		c.requests = append(c.requests, request)
		c.signal()
		c.mu.Unlock()
	}
	return answer
}

// signal wakes those who wait; mu is held.
func (c *Collector) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Metric returns the metric of that name, or nil.
func (r Request) Metric(name string) *metricspb.Metric {
	for _, metric := range r.Metrics() {
		if metric.GetName() == name {
			return metric
		}
	}
	return nil
}

// Metrics returns all metrics of the request.
func (r Request) Metrics() (all []*metricspb.Metric) {
	for _, resource := range r.Body.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			all = append(all, scope.GetMetrics()...)
		}
	}
	return all
}

// Resource returns the attributes of the resource: strings and int64s.
func (r Request) Resource() map[string]any {
	attributes := make(map[string]any)
	for _, resource := range r.Body.GetResourceMetrics() {
		for _, attribute := range resource.GetResource().GetAttributes() {
			if _, isInteger := attribute.GetValue().GetValue().(*intValue); isInteger {
				attributes[attribute.GetKey()] = attribute.GetValue().GetIntValue()
			} else {
				attributes[attribute.GetKey()] = attribute.GetValue().GetStringValue()
			}
		}
	}
	return attributes
}
