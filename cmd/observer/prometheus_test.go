package main

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakePrometheus has one process of a job, or whatever it is told.
type fakePrometheus struct {
	*httptest.Server
	mu      sync.Mutex
	queries []string
	header  http.Header
}

func (f *fakePrometheus) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.queries...)
}

func servePrometheus(t *testing.T) *fakePrometheus {
	f := &fakePrometheus{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query().Get("query")
		f.mu.Lock()
		f.queries = append(f.queries, query)
		f.header = r.Header.Clone()
		f.mu.Unlock()
		value := ""
		switch {
		case r.URL.Path != "/api/v1/query":
			http.NotFound(w, r)
			return
		case strings.Contains(query, "lag_ms"):
			value = "38.4"
		case strings.Contains(query, "server[._]requests"):
			value = "34"
		case strings.Contains(query, "responses_total"):
			value = "12"
		case strings.Contains(query, "client[._]requests"):
			value = "NaN"
		}
		result := ""
		if value != "" {
			result = fmt.Sprintf(`{"metric": {"job": "nemo", "instance": "model:9100"}, "value": [1772632985.1, %q]}`, value)
		}
		fmt.Fprintf(w, `{"status": "success", "data": {"resultType": "vector", "result": [%s]}}`, result)
	}))
	t.Cleanup(f.Close)
	return f
}

func TestWhyNamesAPeerWithWhatPrometheusHas(t *testing.T) {
	prometheus := servePrometheus(t)
	python := httptest.NewServer(http.NotFoundHandler())
	defer python.Close()
	peer := strings.TrimPrefix(python.URL, "http://")
	driver := serve(t, "driver", 1, downstream(peer))

	code, stdout, stderr := call(t, "why", driver.URL, "-prometheus", prometheus.URL, "-query", peer+`={job="nemo"}`,
		"-header", "Authorization: Bearer pages", "-prometheus-header", "Authorization: Bearer prometheus")
	assert.Equal(t, 1, code, stderr)
	assert.Contains(t, stdout, "404 Not Found); by Prometheus, without a verdict: event loop lag 38ms (p99), 34 requests in flight\n")
	assert.Equal(t, "Bearer prometheus", prometheus.header.Get("Authorization"))
	assert.Equal(t, "Bearer pages", driver.header.Get("Authorization"))

	_, stdout, _ = call(t, "why", driver.URL, "-prometheus", prometheus.URL)
	assert.Contains(t, stdout, "; Prometheus has no series of it\n")
	prometheus.Close()
	code, stdout, _ = call(t, "why", driver.URL, "-prometheus", prometheus.URL)
	assert.Equal(t, 1, code, "the chain is there without it")
	assert.Contains(t, stdout, "; asking Prometheus at "+strings.TrimPrefix(prometheus.URL, "http://")+": refused\n")
}

func TestPeerIsFoundByItsLabels(t *testing.T) {
	all := []measured{{job: "ns/model", instance: "uuid-1"}, {job: "ns/model", instance: "uuid-2"}, {job: "x", instance: "tool:9100"}, {job: "x", instance: "tool:8000"}, {job: "y", instance: "127.0.0.1:9100"}}
	for peer, want := range map[string]int{"model:8000": 2, "tool:8000": 1, "tool:1": 2, "tool": 2, "x:80": 2, "other:1": 0, "127.0.0.1:9100": 1, "127.0.0.1:9101": 0} {
		assert.Len(t, ofPeer(all, peer), want, peer)
	}
	nan := math.NaN()
	assert.Equal(t, "2 processes, event loop lag 1.5s (p99), 3 requests in flight, 2.5 active rollouts",
		sentenceOf([]measured{{lag: 10, inFlight: 1, outbound: nan, active: nan}, {lag: 1500, inFlight: 2, outbound: nan, active: 2.5}}))
}

func TestWhatIsNoPrometheusIsSaid(t *testing.T) {
	for _, body := range []string{"", "<html>", `{"status": "error", "error": "\u001b[2J"}`, `{"status": "success", "data": {"resultType": "matrix", "result": []}}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		flags := newFlags("x")
		python := newPrometheusFlags(flags)
		_, err := flags.parse([]string{"-prometheus", server.URL})
		require.NoError(t, err)
		source, err := python.source(flags)
		require.NoError(t, err)
		_, err = source.processes(t.Context(), "")
		assert.ErrorContains(t, err, "it does not answer as one does")
		server.Close()
	}
}
