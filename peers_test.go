package observer_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
)

// peersWindow is that of the tests of peers, which sample ten times in it.
const peersWindow = time.Second

// waitingFor observes a process, in a bubble, that sends requests to some hosts
// through transports, of which none is answered before the test ends.
type waitingFor struct {
	*observed
	answer chan struct{}
}

func waitForPeers(t *testing.T) *waitingFor {
	observer.WithMachine(t, fstest.MapFS{}, t.TempDir())
	o := start(t, "test", observer.WithSampleInterval(peersWindow/10), observer.WithWindow(peersWindow), observer.WithSites(false))
	return &waitingFor{observed: o, answer: make(chan struct{})}
}

// send sends n requests to a URL.
func (w *waitingFor) send(t *testing.T, n int, url string, options ...observer.TransportOption) {
	transport := observer.Transport(roundTrip(func(*http.Request) (*http.Response, error) {
		<-w.answer
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}), options...)
	for range n {
		request, err := http.NewRequest(http.MethodGet, url, nil)
		require.NoError(t, err)
		go transport.RoundTrip(request)
	}
	synctest.Wait()
}

// diagnosed is what is said after so many windows.
func (w *waitingFor) diagnosed(windows int) observer.Diagnosis {
	time.Sleep(time.Duration(windows)*peersWindow + peersWindow/2)
	synctest.Wait()
	return observer.Diagnose()
}

// end answers all, after which nothing is in flight and nothing is waited for.
func (w *waitingFor) end(t *testing.T) {
	close(w.answer)
	synctest.Wait()
	assert.Zero(t, w.collect(t).require(t, observer.OutboundInFlightInstrument), "outbound requests in flight at the end")
	assert.Empty(t, w.diagnosed(2).Peers)
}

func hosts(d observer.Diagnosis) (names []string) {
	for _, peer := range d.Peers {
		names = append(names, peer.Host)
	}
	return names
}

func TestPeersAreNamedForTheHostOfTheURLAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waitForPeers(t)
		w.send(t, 12, "http://user:password@model:8000/secret?token=secret")
		w.send(t, 3, "http://tools/")
		d := w.diagnosed(3)
		assert.Equal(t, []observer.Peer{
			{Host: "model:8000", Waiting: 12, Wait: d.Window, InFlight: 12},
			{Host: "tools", Waiting: 3, Wait: d.Window, InFlight: 3},
		}, d.Peers)
		assert.Equal(t, observer.CauseDownstream, d.Verdict)
		assert.Contains(t, d.Summary, "12.0 of them for model:8000, ")
		assert.NotContains(t, d.Summary, "secret")
		w.end(t)
	})
}

// A forward proxy calls what its clients ask for.
func TestPeerNameHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waitForPeers(t)
		w.send(t, 12, "http://"+strings.Repeat("a", 100_000)+"/")
		d := w.diagnosed(3)
		require.Len(t, d.Peers, 1)
		assert.Len(t, d.Peers[0].Host, 259)
		assert.Less(t, len(d.Summary), 1000)
		w.end(t)
	})
}

func TestWithPeerNamesAndHides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waitForPeers(t)
		named := observer.WithPeer(func(r *http.Request) string { return "the-" + r.URL.Host })
		hidden := observer.WithPeer(func(*http.Request) string { return "" })
		panics := observer.WithPeer(func(*http.Request) string { panic("what host?") })
		w.send(t, 4, "http://model:8000/", named, observer.WithPeer(nil), nil)
		w.send(t, 9, "http://hidden:1/", hidden)
		w.send(t, 2, "http://panics:1/", panics)
		d := w.diagnosed(3)
		assert.Equal(t, []observer.Peer{
			{Host: "", Waiting: 11, Wait: d.Window, InFlight: 11},
			{Host: "the-model:8000", Waiting: 4, Wait: d.Window, InFlight: 4},
		}, d.Peers, "those without a name are together")
		assert.Equal(t, observer.CauseDownstream, d.Verdict)
		for _, name := range []string{"hidden", "panics", "of them for"} {
			assert.NotContains(t, d.Summary, name, "the first has no name")
		}
		assert.Empty(t, w.log.Of("panic"))
		w.end(t)
	})
}

func TestExpectedOutboundWaitIsCountedAndNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waitForPeers(t)
		w.send(t, 20, "http://watch:1/watch", observer.WithExpectedOutboundWait(func(r *http.Request) bool { return r.URL.Path == "/watch" }))
		d := w.diagnosed(3)
		assert.Equal(t, observer.CauseNone, d.Verdict)
		assert.Empty(t, d.Peers)
		for _, f := range d.Findings {
			if f.Cause == observer.CauseDownstream {
				assert.Zero(t, f.Load)
			}
		}
		assert.Equal(t, 20.0, w.collect(t).require(t, observer.OutboundInFlightInstrument))

		// Where it panics, and where it says no, the request is as any other.
		w.send(t, 10, "http://model:8000/", observer.WithExpectedOutboundWait(func(*http.Request) bool { panic("is it?") }))
		w.send(t, 10, "http://model:8000/", observer.WithExpectedOutboundWait(func(*http.Request) bool { return false }), observer.WithExpectedOutboundWait(nil))
		d = w.diagnosed(3)
		assert.Equal(t, observer.CauseDownstream, d.Verdict)
		assert.Equal(t, []observer.Peer{{Host: "model:8000", Waiting: 20, Wait: d.Window, InFlight: 20}}, d.Peers)
		w.end(t)
	})
}

func TestPeersBeyondEightAreTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waitForPeers(t)
		const all = 12
		for i := range all {
			w.send(t, 2*all-i, "http://host"+string(rune('a'+i))+":80/")
		}
		d := w.diagnosed(2)
		assert.Equal(t, []string{"hosta:80", "hostb:80", "hostc:80", "hostd:80", "hoste:80", "hostf:80", "hostg:80", "hosth:80", "others"}, hosts(d))
		assert.Equal(t, 16.0+15+14+13, d.Peers[8].Waiting)
		assert.Equal(t, 16+15+14+13, d.Peers[8].InFlight)
		w.end(t)
	})
}

func TestOldestOutboundRequestHasItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waitForPeers(t)
		_, any := w.collect(t).value(observer.OutboundOldestAgeInstrument)
		assert.False(t, any, "there is no age of nothing")
		w.send(t, 1, "http://model:8000/")
		time.Sleep(30 * time.Second)
		w.send(t, 1, "http://model:8000/")
		assert.InDelta(t, 30, w.collect(t).require(t, observer.OutboundOldestAgeInstrument), peersWindow.Seconds()/10)
		w.end(t)
		_, any = w.collect(t).value(observer.OutboundOldestAgeInstrument)
		assert.False(t, any)
	})
}

// TestHostsAreInNoMetric prints the whole export as text: a host name anywhere in it
// would be found.
func TestHostsAreInNoMetric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waitForPeers(t)
		w.send(t, 12, "http://secrethost:8000/")
		w.send(t, 12, "http://model/", observer.WithPeer(func(*http.Request) string { return "secrethost" }))
		require.Contains(t, hosts(w.diagnosed(3)), "secrethost:8000")
		assert.NotEmpty(t, w.log.Of("verdict changed"))
		var all metricdata.ResourceMetrics
		require.NoError(t, w.reader.Collect(t.Context(), &all))
		text, err := json.Marshal(all)
		require.NoError(t, err)
		assert.Contains(t, string(text), observer.OutboundInFlightInstrument)
		assert.NotContains(t, string(text), "secrethost")
		w.end(t)
	})
}

func TestOutboundCountsEndWithAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waitForPeers(t)
		for _, options := range [][]observer.TransportOption{nil, {observer.WithExpectedOutboundWait(func(*http.Request) bool { return true })}} {
			transport := observer.Transport(roundTrip(func(*http.Request) (*http.Response, error) { panic("base") }), options...)
			request := httptest.NewRequest(http.MethodGet, "http://model:8000/", nil)
			assert.PanicsWithValue(t, "base", func() { _, _ = transport.RoundTrip(request) })
			left := make(chan struct{})
			exits := observer.Transport(roundTrip(func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }), options...)
			go func() { defer close(left); _, _ = exits.RoundTrip(request) }()
			<-left
		}
		_, any := w.collect(t).value(observer.OutboundOldestAgeInstrument)
		assert.False(t, any, "nothing is listed")
		w.end(t)
	})
}

func TestTransportSurvivesTheFunctionsOfItsOptions(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":          func() { panic("no answer") },
		"panic with nil": func() { panic(nil) },
		"Goexit":         runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			o := observe(t)
			base := new(http.Response)
			transport := observer.Transport(roundTrip(func(*http.Request) (*http.Response, error) { return base, nil }),
				observer.WithPeer(func(*http.Request) string { end(); return "server" }),
				observer.WithExpectedOutboundWait(func(*http.Request) bool { end(); return true }))
			var response *http.Response
			done := make(chan struct{})
			go func() {
				defer close(done)
				response, _ = transport.RoundTrip(httptest.NewRequest(http.MethodGet, "http://model:8000/", nil))
			}()
			<-done
			assert.Same(t, base, response, "the request goes on")
			assert.Zero(t, o.collect(t).require(t, observer.OutboundInFlightInstrument))
		})
	}
}

// TestTransportAllocatesAtMostASmallObjectARequest asks where each request is to a
// server that was given up meanwhile, as after a quiet window.
func TestTransportAllocatesAtMostASmallObjectARequest(t *testing.T) {
	observer.ForgetPeers()
	t.Cleanup(observer.ForgetPeers) // the fifty below, of which others would find the places taken
	observe(t)
	response := new(http.Response)
	transport := observer.Transport(roundTrip(func(*http.Request) (*http.Response, error) { return response, nil }))
	var requests []*http.Request
	for i := range 50 { // each of them a server that nothing was sent to
		requests = append(requests, httptest.NewRequest(http.MethodGet, "http://host"+strings.Repeat("x", i)+"/", nil))
	}
	next := 0
	objects := testing.AllocsPerRun(len(requests)-1, func() {
		_, _ = transport.RoundTrip(requests[next])
		next++
	})
	assert.LessOrEqual(t, objects, 1.0, "to a server that nothing was sent to")
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = transport.RoundTrip(requests[0]) }), "to a server that is known")
}
