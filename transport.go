package observer

import (
	"net/http"

	"github.com/gym-observer/observer/internal/inflight"
	"github.com/gym-observer/observer/internal/survive"
)

// Transport counts the outbound requests that next sends, each from the call
// until its response headers arrive or it fails; reading the body is no longer
// counted. A nil next means what [http.DefaultTransport] is at each request. It
// may be called before [Start], and while nothing observes it passes requests on
// at the cost of one atomic load.
//
// Request, response, body and error go through untouched, and so does
// CloseIdleConnections to a next that has it. The hops of a redirect are counted
// one at a time; a transport that is wrapped twice counts each request twice.
//
// Behind any wrapper [http.Client] does not always name its Timeout in the text of
// the error of a request that took too long: it sets the time limit in two ways at
// once for a transport whose type it does not know, and the text depends on which is
// first. Match the error by errors.Is(err, context.DeadlineExceeded) or its Timeout
// method, which hold either way, and not by its text. (The text could be had by a
// type named http2.Transport, which net/http takes for its own. Whoever looks at the
// type would be misled, and the next net/http may look more closely.)
//
// http.DefaultTransport = observer.Transport(nil) goes on to the default before
// it. A wrapper of another kind around Transport(nil) must not become the
// default, since the two would call each other: give it the transport itself.
func Transport(next http.RoundTripper, opts ...TransportOption) http.RoundTripper {
	t := &transport{next: next, fallback: http.DefaultTransport}
	for _, opt := range opts {
		if opt != nil {
			opt(t)
		}
	}
	return t
}

// TransportOption changes what [Transport] does; a nil one changes nothing.
type TransportOption func(*transport)

// WithPeer sets what the diagnosis calls the server that a request is for: the host
// and port of its URL without this option. The name comes from a small set, since
// at most 64 servers are told apart at a time; an empty one hides the server.
//
// The function gets the request before it is sent, on a goroutine of its own and only
// while something observes; the request waits for it. Where it panics or calls
// runtime.Goexit, the server is hidden. Its
// name appears in the diagnosis, on the page, in the log and in captures, never in a
// metric's attribute. A nil function changes nothing.
func WithPeer(peer func(*http.Request) string) TransportOption {
	return func(t *transport) {
		if peer != nil {
			t.peer = peer
		}
	}
}

// WithExpectedOutboundWait tells which outbound requests wait for events by design:
// a watch, a long poll. They count as any other in flight, but a diagnosis does not
// take their waiting for a load. The function gets the request before it is sent,
// on a goroutine of its own and only while something observes; the request waits for
// it. Where it panics or calls runtime.Goexit, the request is none of them. A nil
// function changes nothing.
func WithExpectedOutboundWait(expected func(*http.Request) bool) TransportOption {
	return func(t *transport) {
		if expected != nil {
			t.expected = expected
		}
	}
}

type transport struct {
	next     http.RoundTripper
	fallback http.RoundTripper          // what the default was before it became this transport
	peer     func(*http.Request) string // of WithPeer; nil without it
	expected func(*http.Request) bool   // of WithExpectedOutboundWait; nil without it
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.base()
	counts := Requests()
	if counts == nil || r == nil { // a nil request is the base's to refuse
		return base.RoundTrip(r)
	}
	if t.expected != nil && answered(t.expected, r) {
		return t.sendExpected(base, r, counts)
	}
	return t.send(base, r, counts, counts.peers.Begin(t.nameOfPeer(r)))
}

// sendExpected sends a request that waits by design. It is in the stack of one:
// snapshots of the goroutines leave it out by that.
//
//go:noinline
func (t *transport) sendExpected(base http.RoundTripper, r *http.Request, counts *RequestMetrics) (*http.Response, error) {
	counts.expectedOutbound.Begin()
	defer counts.expectedOutbound.End()
	return t.send(base, r, counts, nil)
}

// send sends a request that is counted; the peer is nil where it is not waited for.
func (t *transport) send(base http.RoundTripper, r *http.Request, counts *RequestMetrics, peer *inflight.Peer) (*http.Response, error) {
	number := counts.outbound.Begin()
	listed := counts.calls.New()
	counts.calls.List(listed, number)
	defer func() { // also when base panics
		counts.calls.End(listed)
		if peer != nil {
			peer.End()
		}
		counts.outbound.End()
	}()
	return base.RoundTrip(r)
}

// nameOfPeer is what the diagnosis calls the server, "" for one that is hidden.
func (t *transport) nameOfPeer(r *http.Request) string {
	if t.peer != nil {
		return answered(t.peer, r)
	}
	if r.URL == nil {
		return "" // the base will refuse it
	}
	return r.URL.Host[:min(len(r.URL.Host), maxPeerName)]
}

// maxPeerName is as long as a host's name and a port can be. What is longer, as a
// client may ask of a forward proxy, would make the log line about a verdict as long.
const maxPeerName = 253 + len(":65535")

// answered returns what the application says of a request, the zero value where it
// panics. It is asked on a goroutine of its own, for a microsecond: a Goexit there must
// not end the one that the request is for. It is waited for without a limit, since
// whoever has the request may write to it as soon as this returns.
func answered[T any](ask func(*http.Request) T, r *http.Request) T {
	o := <-survive.Apart(func() (T, error) { return ask(r), nil })
	return o.Value
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] looks for.
func (t *transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// base returns the transport that sends.
func (t *transport) base() http.RoundTripper {
	if t.next != nil {
		return t.next
	}
	if _, ours := http.DefaultTransport.(*transport); ours {
		return t.fallback // http.DefaultTransport = observer.Transport(nil), once or twice, must not call itself
	}
	return http.DefaultTransport
}
