package observer

import (
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sys/cpu"
)

// UnmatchedRoute is the http.route of a cancelled request for which no
// registered pattern is known. The path of a request is never used instead: it
// is unbounded, and it may hold what must not leave the process.
const UnmatchedRoute = "unmatched"

const (
	// overflowRoute takes the cancellations of every route beyond maxRoutes.
	overflowRoute = "overflow"

	// maxRoutes bounds the routes that are counted by name. With the two
	// sentinels and both phases that makes 1,804 attribute sets; past 2,000 the
	// SDK would fold points into otel.metric.overflow, and lose their phase.
	maxRoutes = 900

	// The statuses that net/http lets out; WriteHeader panics on any other.
	minStatus, maxStatus = 100, 999
)

// requestTotals outlives every Start and Stop: a counter never goes down while
// the process lives.
var requestTotals RequestMetrics

// RequestMetrics counts the requests that this process serves and makes. Its
// methods are safe for concurrent use and cost a few atomic additions, no lock
// and no OpenTelemetry call: the exporter's goroutine reads the totals when it
// collects. On a nil pointer they count nothing.
//
// [Middleware] and [Transport] do the counting for net/http. A server of
// another kind calls Begin and the Count methods itself, through [Requests].
type RequestMetrics struct {
	// Every request writes these on whichever core serves it, so that each has
	// cache lines of its own.
	served   inFlight
	outbound inFlight
	expected inFlight // of those served, the ones of WithExpectedWait

	// Responses by their status: those of the middleware, which each end a request
	// that served has begun and does not end, and those of CountResponse. One
	// addition for both is worth a sum elsewhere: what every core writes is what a
	// request pays most for.
	answered  statusCounts
	responses statusCounts
	_         cpu.CacheLinePad
	seen      statusList // those of both

	exceptions atomic.Int64
	routes     routeTable
}

// Requests returns the request counters of the process, or nil while nothing
// observes it. It costs one atomic load, so it is to be called at each request;
// a pointer kept from before a Stop still counts.
func Requests() *RequestMetrics {
	if running.Load() == nil {
		return nil
	}
	return &requestTotals
}

// CountResponse counts one response by its final HTTP status code. A code
// outside 100 to 999, which net/http lets no handler send, is not counted.
func (m *RequestMetrics) CountResponse(status int) {
	if m == nil {
		return
	}
	m.countStatus(&m.responses, status)
}

// servedNow returns how many requests are in flight; as in inFlight.now, what
// has ended is read first.
func (m *RequestMetrics) servedNow() int64 {
	ended := m.served.ended.Load()
	for _, seen := range m.seen.all() {
		ended += m.answered[seen.status-minStatus].Load()
	}
	return m.served.begun.Load() - ended
}

// responded returns how many responses had a status.
func (m *RequestMetrics) responded(status int) int64 {
	return m.answered[status-minStatus].Load() + m.responses[status-minStatus].Load()
}

// statusCounts counts by status.
type statusCounts [maxStatus - minStatus + 1]atomic.Int64

// countStatus reports whether the status is one that net/http lets out.
func (m *RequestMetrics) countStatus(counts *statusCounts, status int) bool {
	if status < minStatus || status > maxStatus {
		return false
	}
	m.seen.add(status)
	counts[status-minStatus].Add(1)
	return true
}

// statusList lists the statuses that have been counted, which are few, for those
// who read the counts.
type statusList struct {
	appendOnly[seenStatus]
	known [len(statusCounts{})]atomic.Bool // for those who count: apart from the counts, which every core writes
	mu    sync.Mutex                       // held to add
}

type seenStatus struct {
	status  int
	options []metric.ObserveOption // the attribute of its points
}

// add lists a status, before it is counted, unless it is listed.
func (l *statusList) add(status int) {
	if !l.known[status-minStatus].Load() {
		l.addNew(status)
	}
}

func (l *statusList) addNew(status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[status-minStatus].Load() {
		return
	}
	defer l.known[status-minStatus].Store(true)
	l.append(seenStatus{
		status:  status,
		options: []metric.ObserveOption{attributesOf(attribute.Int(HTTPStatusCodeAttribute, status))},
	})
}

// appendOnly is a list that may be read while somebody adds to it, who holds a
// lock. The zero value is empty.
type appendOnly[T any] struct{ listed atomic.Pointer[[]T] }

func (l *appendOnly[T]) append(value T) {
	listed := append(l.all(), value)
	l.listed.Store(&listed)
}

// all returns the list. The elements that the slice has now never change.
func (l *appendOnly[T]) all() []T {
	if listed := l.listed.Load(); listed != nil {
		return *listed
	}
	return nil
}

// CountCancellation counts one client that went away before its response was
// complete. The route must be a registered template, such as "/rollouts/{id}";
// an empty one counts as [UnmatchedRoute]. At most 900 different routes are
// counted by name, the rest together as "overflow".
func (m *RequestMetrics) CountCancellation(route string, responseStarted bool) {
	if m == nil {
		return
	}
	counts := m.routes.counts(route)
	if responseStarted {
		counts.responseStarted.Add(1)
	} else {
		counts.beforeResponse.Add(1)
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
	return m.served.during()
}

// BeginOutbound counts one outbound request as waiting for its response headers
// until end is called. The end function is never nil; calling it again does
// nothing.
func (m *RequestMetrics) BeginOutbound() (end func()) {
	if m == nil {
		return func() {}
	}
	return m.outbound.during()
}

// inFlight counts what has begun and what has ended. One gauge that goes up and
// down would cost the same and not tell how many have ended.
type inFlight struct {
	_     cpu.CacheLinePad
	begun atomic.Int64
	_     cpu.CacheLinePad
	ended atomic.Int64
	_     cpu.CacheLinePad
}

// begin returns how many have begun with this one.
func (f *inFlight) begin() (number int64) { return f.begun.Add(1) }
func (f *inFlight) end()                  { f.ended.Add(1) }

// now returns how many are in flight. What has ended is read first: the other
// way round, something that begins and ends in between would make it negative.
func (f *inFlight) now() int64 {
	ended := f.ended.Load()
	return f.begun.Load() - ended
}

// during counts one until the returned function is first called.
func (f *inFlight) during() (end func()) {
	f.begin()
	var ended atomic.Bool
	return func() {
		if ended.CompareAndSwap(false, true) {
			f.end()
		}
	}
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
		InFlight:            m.servedNow(),
		OutboundInFlight:    m.outbound.now(),
		UnhandledExceptions: m.exceptions.Load(),
		Responses:           make(map[int]int64),
		Cancellations:       make(map[Cancellation]int64),
	}
	for _, seen := range m.seen.all() {
		if n := m.responded(seen.status); n > 0 {
			counts.Responses[seen.status] = n
		}
	}
	for _, route := range m.routes.all() {
		if n := route.beforeResponse.Load(); n > 0 {
			counts.Cancellations[Cancellation{Route: route.name}] = n
		}
		if n := route.responseStarted.Load(); n > 0 {
			counts.Cancellations[Cancellation{Route: route.name, ResponseStarted: true}] = n
		}
	}
	return counts
}

// routeTable holds a bounded set of routes with their cancellations.
type routeTable struct {
	byName                   sync.Map    // string to *routeCounts
	appendOnly[*routeCounts]             // the same in the order in which they were first seen
	full                     atomic.Bool // maxRoutes are named: a route that is not known overflows

	mu    sync.Mutex // held to add a route; guards named
	named int        // the routes that are not sentinels
}

// routeCounts are the cancellations of one route.
type routeCounts struct {
	name            string
	beforeResponse  atomic.Int64
	responseStarted atomic.Int64

	beforeOptions, startedOptions []metric.ObserveOption // the attributes of each
}

// counts returns where cancellations of route are counted. It takes the lock
// only to add one, at most maxRoutes times and twice for the sentinels.
func (t *routeTable) counts(route string) *routeCounts {
	if route == "" {
		route = UnmatchedRoute
	}
	// An attribute that is not UTF-8 would fail the encoding of a whole export.
	route = strings.ToValidUTF8(route, "\uFFFD")
	if known, ok := t.byName.Load(route); ok {
		return known.(*routeCounts)
	}
	sentinel := route == UnmatchedRoute || route == overflowRoute
	if !sentinel && t.full.Load() {
		return t.counts(overflowRoute)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.byName.Load(route); ok {
		return known.(*routeCounts)
	}
	if !sentinel {
		if t.named == maxRoutes { // filled between the look and the lock
			return t.add(overflowRoute)
		}
		t.named++
		t.full.Store(t.named == maxRoutes)
	}
	return t.add(route)
}

// add lists a route that may be listed already; t.mu is held.
func (t *routeTable) add(route string) *routeCounts {
	counts, known := t.byName.LoadOrStore(route, &routeCounts{
		name:           route,
		beforeOptions:  routeOptions(route, "before_response"),
		startedOptions: routeOptions(route, "response_started"),
	})
	added := counts.(*routeCounts)
	if !known {
		t.append(added)
	}
	return added
}

// routeOf returns the path part of a ServeMux pattern, "[METHOD ][HOST]/[PATH]",
// without the method and the host, which would multiply the routes.
func routeOf(pattern string) string {
	if method, rest, found := strings.Cut(pattern, " "); found && !strings.Contains(method, "/") {
		pattern = strings.TrimLeft(rest, " \t")
	}
	if i := strings.IndexByte(pattern, '/'); i >= 0 {
		return pattern[i:]
	}
	return UnmatchedRoute
}
