package observer

import "net/http"

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
func Transport(next http.RoundTripper) http.RoundTripper {
	return &transport{next: next, fallback: http.DefaultTransport}
}

type transport struct {
	next     http.RoundTripper
	fallback http.RoundTripper // what the default was before it became this transport
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.base()
	counts := Requests()
	if counts == nil {
		return base.RoundTrip(r)
	}
	counts.outbound.Begin()
	defer counts.outbound.End() // also when base panics
	return base.RoundTrip(r)
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
