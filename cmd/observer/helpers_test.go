package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

var update = flag.Bool("update", false, "write the golden texts anew")

// golden compares a text with the one in testdata.
func golden(t *testing.T, file, text string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), text)
}

// page is a page that says what a test wants.
type page struct {
	*httptest.Server
	mu       sync.Mutex
	document map[string]any
	header   http.Header
}

func serve(t *testing.T, process string, pid int, d observer.Diagnosis) *page {
	t.Helper()
	text, err := json.Marshal(d)
	require.NoError(t, err)
	p := &page{}
	require.NoError(t, json.Unmarshal(text, &p.document))
	p.document["process"], p.document["pid"] = process, pid
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.header = r.Header.Clone()
	_ = json.NewEncoder(w).Encode(p.document)
}

func (p *page) host() string { return strings.TrimPrefix(p.URL, "http://") }

// call runs the command line.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return callWithin(t.Context(), args...)
}

func callWithin(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(ctx, args, &out, &err)
	return code, out.String(), err.String()
}

var now = time.Date(2026, 3, 4, 14, 3, 5, 0, time.UTC)

func none() observer.Diagnosis {
	return observer.Diagnosis{At: now, Window: 10 * time.Second, Verdict: observer.CauseNone, Summary: "none: nothing waits beyond its normal bounds"}
}

func waiting() observer.Diagnosis {
	const evidence = "11.8 of 12.0 requests in flight wait in database/sql.(*DB).conn, called at store.go:88"
	const advice = "Raise the pool's limit, or hold its connections for a shorter time."
	return observer.Diagnosis{
		At: now.Add(1), Window: 10 * time.Second, Verdict: observer.CauseWait, Summary: "wait: " + evidence + ". " + advice,
		Findings: []observer.Finding{{Cause: observer.CauseWait, Load: 11.8, Evidence: evidence, Advice: advice}},
		Also:     []observer.Cause{observer.CauseLock},
		Sites: []observer.Site{
			{Kind: "wait", Function: "main.(*store).load", Location: "store.go:88", In: "database/sql.(*DB).conn", Caller: "agent.go:31", Load: 11.8, Share: 0.98},
			{Kind: "hold", Function: "main.(*store).load", Location: "store.go:91", Load: 4, Share: 0.3},
		},
		Oldest: []observer.Work{{Kind: "request", Name: "/rollouts/{id}", Age: 12500 * time.Millisecond}, {Kind: "request", Age: 3 * time.Second}},
	}
}

func downstream(hosts ...string) observer.Diagnosis {
	const evidence = "14.2 of 15.0 outbound requests waited, 3.1 s each"
	d := observer.Diagnosis{
		At: now.Add(2), Window: 10 * time.Second, Verdict: observer.CauseDownstream, Summary: "downstream: " + evidence + ". Look at that server.",
		Findings: []observer.Finding{{Cause: observer.CauseDownstream, Load: 14.2, Evidence: evidence, Advice: "Look at that server."}},
		Sites:    []observer.Site{{Kind: "wait", Function: "main.ask", Location: "agent.go:77", Load: 14, Share: 1}},
	}
	n := 14.0
	for _, host := range hosts {
		d.Peers = append(d.Peers, observer.Peer{Host: host, Waiting: n, Wait: 3100 * time.Millisecond, InFlight: int(n) + 1})
		n /= 2
	}
	return d
}
