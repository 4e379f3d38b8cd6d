package observer

import (
	"sync/atomic"

	"github.com/gym-observer/observer/internal/count"
	"github.com/gym-observer/observer/internal/inflight"
)

// UnmatchedRoute is the http.route of a cancelled request for which no
// registered pattern is known. The path of a request is never used instead: it
// is unbounded, and it may hold what must not leave the process.
const UnmatchedRoute = "unmatched" // count.Unmatched

// RequestMetrics counts the requests that this process serves and makes. Its
// methods are safe for concurrent use and cost a few atomic additions and no
// OpenTelemetry call: the exporter's goroutine reads the totals when it collects.
// None takes a lock but CountCancellation, the first time that it sees a route. On
// a nil pointer they count nothing.
//
// [Middleware] and [Transport] do the counting for net/http. A server of
// another kind calls Begin and the Count methods itself, through [Requests].
type RequestMetrics struct {
	served    count.InFlight
	outbound  count.InFlight
	responses count.Statuses // those of the middleware end a request that served has begun

	// Of those in flight, what waits by design.
	expectedServed, expectedOutbound count.InFlight

	exceptions atomic.Int64
	routes     count.Routes

	listed inflight.Table // the requests that the middleware serves
	calls  inflight.Table // the requests that the transport sends
	peers  inflight.Peers // the same by server, without those that wait by design
}

// CountResponse counts one response by its final HTTP status code. A code
// outside 100 to 999, which net/http lets no handler send, is not counted.
func (m *RequestMetrics) CountResponse(status int) {
	if m != nil {
		m.responses.Count(status)
	}
}

// inFlight returns how many requests are in flight.
func (m *RequestMetrics) inFlight() int64 { return m.served.NowBeside(m.responses.Ended()) }

// CountCancellation counts one client that went away before its response was
// complete. The route must be a registered template, such as "/rollouts/{id}";
// an empty one counts as [UnmatchedRoute]. At most 900 different routes are
// counted by name, the rest together as "overflow".
func (m *RequestMetrics) CountCancellation(route string, responseStarted bool) {
	if m == nil {
		return
	}
	counts := m.routes.Of(route)
	if responseStarted {
		counts.ResponseStarted.Add(1)
	} else {
		counts.BeforeResponse.Add(1)
	}
}

// CountUnhandledException counts one panic that left a handler.
func (m *RequestMetrics) CountUnhandledException() {
	if m == nil {
		return
	}
	m.exceptions.Add(1)
}

// Begin counts one request as in flight until end is called, for servers that
// are not net/http. The end function is never nil; calling it again does
// nothing.
func (m *RequestMetrics) Begin() (end func()) {
	if m == nil {
		return func() {}
	}
	return m.served.During()
}

// BeginOutbound counts one outbound request as waiting for its response headers
// until end is called. The end function is never nil; calling it again does
// nothing.
func (m *RequestMetrics) BeginOutbound() (end func()) {
	if m == nil {
		return func() {}
	}
	return m.outbound.During()
}

// RequestCounts is a copy of what [RequestMetrics] has counted since the
// process began.
type RequestCounts struct {
	InFlight            int64                  // requests inside the middleware
	OutboundInFlight    int64                  // outbound requests waiting for their response headers
	UnhandledExceptions int64                  // panics that left a handler
	Responses           map[int]int64          // responses by status code; no entry where there was none
	Cancellations       map[Cancellation]int64 // clients that went away; no entry where there was none
}

// Cancellation says where a client went away.
type Cancellation struct {
	Route           string // a registered template, "unmatched" or "overflow"
	ResponseStarted bool   // whether the head of the response had been written
}

// Counts returns a copy of the totals: each is exact, but they are read one
// after the other while requests go on. On a nil pointer it returns the zero
// value.
func (m *RequestMetrics) Counts() RequestCounts {
	if m == nil {
		return RequestCounts{}
	}
	counts := RequestCounts{
		InFlight:            m.inFlight(),
		OutboundInFlight:    m.outbound.Now(),
		UnhandledExceptions: m.exceptions.Load(),
		Responses:           make(map[int]int64),
		Cancellations:       make(map[Cancellation]int64),
	}
	for status, n := range m.responses.All() {
		counts.Responses[status] = n
	}
	for _, route := range m.routes.All() {
		if n := route.BeforeResponse.Load(); n > 0 {
			counts.Cancellations[Cancellation{Route: route.Name}] = n
		}
		if n := route.ResponseStarted.Load(); n > 0 {
			counts.Cancellations[Cancellation{Route: route.Name, ResponseStarted: true}] = n
		}
	}
	return counts
}
