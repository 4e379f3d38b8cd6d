package client_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

// fakePage is a page that says what a test wants.
type fakePage struct {
	*httptest.Server
	mu     sync.Mutex
	says   map[string]any
	asked  atomic.Int64
	header http.Header // of the last request
}

// serve starts a page.
func serve(t *testing.T, name string, pid int, d observer.Diagnosis) *fakePage {
	t.Helper()
	p := &fakePage{}
	p.say(t, name, pid, d)
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *fakePage) say(t *testing.T, name string, pid int, d observer.Diagnosis) {
	t.Helper()
	text, err := json.Marshal(d)
	require.NoError(t, err)
	says := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &says))
	if name != "" {
		says["process"], says["pid"] = name, pid
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.says = says
}

func (p *fakePage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.asked.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.header = r.Header.Clone()
	if r.URL.Path != "/debug/observer" || r.URL.Query().Get("format") != "json" {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(p.says)
}

// host is what a request to the page has in URL.Host.
func (p *fakePage) host() string { return hostOf(p.URL) }

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return u.Host
}

// each process of a test has another end of its window, as in life.
var windows atomic.Int64

func diagnosis(verdict observer.Cause, evidence string) observer.Diagnosis {
	d := observer.Diagnosis{
		At:      time.Date(2026, 3, 4, 14, 3, 5, int(windows.Add(1)), time.UTC),
		Window:  10 * time.Second,
		Verdict: verdict,
		Summary: string(verdict) + ": " + evidence,
	}
	if verdict != observer.CauseNone {
		d.Findings = []observer.Finding{{Cause: verdict, Load: 14.2, Evidence: evidence, Advice: "Do something."}}
		d.Summary += ". Do something."
	}
	return d
}

func healthy() observer.Diagnosis {
	return diagnosis(observer.CauseNone, "nothing waits beyond its normal bounds")
}

// downstream waits for hosts, for each half as much as for the one before.
func downstream(hosts ...string) observer.Diagnosis {
	d := diagnosis(observer.CauseDownstream, "outbound requests waited")
	waiting := 16.0
	for _, host := range hosts {
		d.Peers = append(d.Peers, observer.Peer{Host: host, Waiting: waiting, Wait: 1500 * time.Millisecond, InFlight: int(waiting)})
		waiting /= 2
	}
	return d
}

func locked() observer.Diagnosis {
	d := diagnosis(observer.CauseLock, "7.1 goroutines waited for a mutex")
	d.Sites = []observer.Site{{Kind: "wait", Function: "store.(*Cache).Put", Location: "store/cache.go:42", Load: 7, Share: 0.94}}
	return d
}

// refusing is an address that nobody listens on.
func refusing(t *testing.T) string {
	server := httptest.NewServer(nil)
	server.Close()
	return hostOf(server.URL)
}
