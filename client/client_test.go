package client_test

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/client"
)

func TestGetReadsARealPage(t *testing.T) {
	defer observer.Start(t.Context(), "test", observer.WithMeterProvider(noop.NewMeterProvider()),
		observer.WithWindow(time.Second), observer.WithSampleInterval(100*time.Millisecond)).Stop()
	mux := http.NewServeMux()
	mux.Handle("/", observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	mux.Handle("/debug/observer", observer.Handler())
	server := httptest.NewServer(mux)
	defer server.Close()
	var report client.Report
	require.Eventually(t, func() bool {
		response, err := http.Get(server.URL)
		require.NoError(t, err)
		response.Body.Close()
		report, err = client.Get(t.Context(), hostOf(server.URL))
		require.NoError(t, err)
		return report.Diagnosis.Verdict != "" && report.Recent.Responses > 0 && report.Recent.CPU >= 0
	}, 20*time.Second, 100*time.Millisecond)
	want := observer.Diagnose()
	assert.Equal(t, server.URL+"/debug/observer", report.URL)
	assert.WithinDuration(t, want.At, report.Diagnosis.At, 10*time.Second)
	assert.GreaterOrEqual(t, report.Diagnosis.Window, time.Second)
	assert.NotEmpty(t, report.Diagnosis.Findings)
	assert.Positive(t, report.Recent.Over)
	assert.Positive(t, report.Recent.Processors)
	assert.False(t, report.Recent.Driving)
}

func TestGetAsksWhereAPersonMeans(t *testing.T) {
	page := serve(t, "server", 7, healthy())
	for _, text := range []string{
		page.host(), page.URL, page.URL + "/", page.URL + "/debug/observer", page.URL + "/debug/observer?format=html#load",
		"http://user:secret@" + page.host(),
	} {
		report, err := client.Get(t.Context(), text)
		require.NoError(t, err, text)
		assert.Equal(t, page.URL+"/debug/observer", report.URL, text)
		assert.Equal(t, "server", report.Name)
		assert.Equal(t, 7, report.PID)
	}
	assert.Equal(t, "Basic dXNlcjpzZWNyZXQ=", page.header.Get("Authorization"))
	for _, text := range []string{"", "http://", "ftp://host", "host:port", "host:99999", "http://[::1", "http://user:secret%zz@host", ":80", "\x1b[2J"} {
		report, err := client.Get(t.Context(), text)
		require.Error(t, err, "%q", text)
		assert.Zero(t, report)
		assert.NotContains(t, err.Error(), "secret")
		assert.ErrorAs(t, err, new(*client.Failure))
	}
}

func TestFailuresHaveTheirReason(t *testing.T) {
	released := make(chan struct{})
	respond := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); _, _ = io.WriteString(w, body) }
	}
	endless := func(w io.Writer, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat(" ", 64<<10)); err != nil {
				return
			}
		}
	}
	packed := func(write func(z *gzip.Writer, r *http.Request)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
			write(z, r)
			_ = z.Close()
		}
	}
	beat := func(r *http.Request) bool {
		select {
		case <-r.Context().Done():
			return false
		case <-released:
			return false
		case <-time.After(20 * time.Millisecond):
			return true
		}
	}
	for reason, handler := range map[string]http.HandlerFunc{
		"404 Not Found":                    http.NotFound,
		"401 Unauthorized":                 respond(401, "\x1b[2Jno"),
		"503 Service Unavailable":          respond(503, ""),
		"799":                              respond(799, ""),
		"not JSON":                         respond(200, "<html>"),
		"not JSON (unexpected end":         respond(200, ""),
		"not an observer's page":           respond(200, `{"status": "ok"}`),
		"not an observer's page: it has":   respond(200, `null`),
		"not an observer's page: json":     respond(200, `[]`),
		"not an observer's page: no list":  respond(200, `{"verdict": "none", "summary": "", "peers": 3}`),
		"not an observer's page: parsing":  respond(200, `{"verdict": "none", "summary": "", "at": "yesterday"}`),
		"answers with a megabyte or more":  func(w http.ResponseWriter, r *http.Request) { endless(w, r) },
		"answers with a megabyte or more ": packed(func(z *gzip.Writer, r *http.Request) { endless(z, r) }), // a bomb
		"answers with a megabyte or more  ": packed(func(z *gzip.Writer, r *http.Request) { // one that unpacks to nothing
			for r.Context().Err() == nil && z.Flush() == nil {
			}
		}),
		"no answer: reading gzip": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "plain text, which is no gzip")
		},
		"timed out after 500ms": func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-released:
			}
		},
		"timed out after 500ms ": func(w http.ResponseWriter, r *http.Request) { // after the head, and a part
			_, _ = io.WriteString(w, `{"verdict": `)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-released:
			}
		},
		"timed out after 500ms  ": func(w http.ResponseWriter, r *http.Request) { // a byte now and then
			for beat(r) {
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
			}
		},
		"timed out after 500ms   ": func(w http.ResponseWriter, r *http.Request) { // a head line now and then
			connection, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer connection.Close()
			for n := 0; err == nil && beat(r); n++ {
				_, _ = fmt.Fprintf(buffered, "%s\r\n", cmp.Or(strings.Repeat(fmt.Sprintf("X-Slow-%d: 1", n), min(n, 1)), "HTTP/1.1 200 OK"))
				err = buffered.Flush()
			}
		},
		"timed out after 500ms    ": func(w http.ResponseWriter, r *http.Request) { // two redirects, each in time by itself
			select {
			case <-time.After(300 * time.Millisecond):
				http.Redirect(w, r, "/debug/observer/", http.StatusTemporaryRedirect)
			case <-r.Context().Done():
			}
		},
		"redirects to another host": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://localhost:1/debug/observer", http.StatusFound)
		},
		"redirects to another host ": func(w http.ResponseWriter, r *http.Request) { // another port is another process
			http.Redirect(w, r, "http://127.0.0.1:1/debug/observer", http.StatusFound)
		},
		"redirects to another host  ": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		},
		"redirects without an end": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/debug/observer/", http.StatusTemporaryRedirect)
		},
		"closes the connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"no answer: ": func(w http.ResponseWriter, _ *http.Request) { // a head without an end
			w.Header().Set("X-Long", strings.Repeat("x", 80<<10))
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			timeout := time.Minute // what has another reason shows it however slow the machine is
			if strings.HasPrefix(reason, "timed out") {
				timeout = 500 * time.Millisecond
			}
			report, err := client.Get(t.Context(), server.URL, client.WithTimeout(timeout))
			var failure *client.Failure
			require.ErrorAs(t, err, &failure)
			assert.True(t, strings.HasPrefix(failure.Reason, strings.TrimSpace(reason)), failure.Reason)
			assert.Equal(t, server.URL+"/debug/observer", failure.URL)
			assert.Equal(t, client.Report{URL: failure.URL}, report)
		})
	}
	t.Cleanup(func() { close(released) })
	t.Run("timed out after 2s, without an option", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		t.Cleanup(server.Close)
		began := time.Now()
		_, err := client.Get(t.Context(), server.URL)
		assert.ErrorContains(t, err, "timed out after 2s")
		assert.GreaterOrEqual(t, time.Since(began), 2*time.Second)
	})
	t.Run("refused", func(t *testing.T) {
		_, err := client.Get(t.Context(), refusing(t))
		assert.ErrorContains(t, err, "/debug/observer: refused")
	})
	t.Run("no such host", func(t *testing.T) {
		_, err := client.Get(t.Context(), "nobody.invalid:80", client.WithTimeout(20*time.Second))
		assert.ErrorContains(t, err, "nobody.invalid:80/debug/observer: ")
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := client.Get(ctx, refusing(t))
		assert.ErrorContains(t, err, "interrupted")
		assert.ErrorIs(t, err, context.Canceled)
	})
}

func TestRedirectOnTheSameHostIsFollowed(t *testing.T) {
	page := serve(t, "server", 7, healthy())
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/observer", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/real/debug/observer?"+r.URL.RawQuery, http.StatusMovedPermanently)
	})
	mux.Handle("/real/", http.StripPrefix("/real", page))
	server := httptest.NewServer(mux)
	defer server.Close()
	report, err := client.Get(t.Context(), server.URL, client.WithHeader("Authorization", "Bearer t"))
	require.NoError(t, err)
	assert.Equal(t, observer.CauseNone, report.Diagnosis.Verdict)
	assert.Equal(t, "Bearer t", page.header.Get("Authorization"))
}

// A redirect from http to https on one host is one to another origin.
func TestHeaderStaysWithTheOriginThatWasNamed(t *testing.T) {
	var leaked atomic.Bool
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(leaked.Load() || r.Header.Get("Authorization") != "")
		_, _ = io.WriteString(w, `{"verdict": "none", "summary": "none"}`)
	}))
	defer other.Close()
	named := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusFound)
	}))
	defer named.Close()
	roots := x509.NewCertPool()
	roots.AddCert(other.Certificate())
	report, err := client.Get(t.Context(), named.URL, client.WithHeader("Authorization", "Bearer t"), client.WithRootCAs(roots))
	require.NoError(t, err)
	assert.Equal(t, observer.CauseNone, report.Diagnosis.Verdict)
	assert.False(t, leaked.Load())
}

func TestTLS(t *testing.T) {
	page := serve(t, "server", 7, healthy())
	server := httptest.NewUnstartedServer(page)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())

	_, err := client.Get(t.Context(), server.URL)
	assert.ErrorContains(t, err, "its certificate is not trusted")
	_, err = client.Get(t.Context(), hostOf(server.URL))
	assert.ErrorContains(t, err, "it speaks TLS: ask for https://"+hostOf(server.URL))
	_, err = client.Get(t.Context(), "https://"+page.host())
	assert.ErrorContains(t, err, "it does not speak TLS")
	report, err := client.Get(t.Context(), server.URL, client.WithRootCAs(roots))
	require.NoError(t, err)
	assert.Equal(t, "server", report.Name)
}

// Each asks for a moment of the server's, so that they would pile up.
func TestAtMost32ConnectionsAtOnce(t *testing.T) {
	var open, most atomic.Int64
	page := serve(t, "server", 7, healthy())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for now := open.Add(1); ; {
			if seen := most.Load(); now <= seen || most.CompareAndSwap(seen, now) {
				break
			}
		}
		defer open.Add(-1)
		time.Sleep(5 * time.Millisecond)
		page.ServeHTTP(w, r)
	}))
	defer server.Close()
	urls := make([]string, 200)
	for i := range urls {
		urls[i] = server.URL
	}
	urls[17] = "ftp://nobody"
	answers := client.GetAll(t.Context(), urls, client.WithTimeout(time.Minute))
	require.Equal(t, 200, len(answers))
	for i, a := range answers {
		if i == 17 {
			assert.ErrorContains(t, a.Err, "neither http nor https")
			continue
		}
		assert.NoError(t, a.Err)
		assert.Equal(t, "server", a.Report.Name)
	}
	assert.LessOrEqual(t, most.Load(), int64(32))
	assert.Greater(t, most.Load(), int64(8), "they are asked at once")
}

func TestReportIsReadAsFarAsItGoes(t *testing.T) {
	at := func(second int) string {
		return time.Date(2026, 3, 4, 14, 3, second, 0, time.UTC).Format(time.RFC3339)
	}
	second := func(at string, lag string, inFlight float64, ok int) string {
		return fmt.Sprintf(`{"at": %q, "length_seconds": 1, "lag": %s, "longest_lag_seconds": 0.03, "in_flight": %v, "responses": {"2xx": %d, "5xx": 1}, "driver": {"resident": 3}}`, at, lag, inFlight, ok)
	}
	body := fmt.Sprintf(`{"now": %q, "at": %q, "window_seconds": 10.5, "verdict": "gc", "summary": "gc: much", "process": "server, process 4711",
		"findings": [{"cause": "gc", "load": 1.5}, {"cause": "lock", "load": null}], "unmeasured": [],
		"history": {"lag_boundaries_seconds": [0.001, 0.01, 0.1], "seconds": [%s, %s, %s],
			"windows": [{"at": %q, "verdict": "none"}, {"at": %q, "verdict": "gc", "cpu": 1}, {"at": %q, "verdict": "gc", "cpu": null, "processors": 2}]}}`,
		at(50), at(50), second(at(20), "[1000, 0, 0, 99]", 99, 99), second(at(45), "[50, 48, 0, 0]", 2, 5), second(at(46), "[0, 1, 1, 0]", 4, 7),
		at(30), at(40), at(50))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	defer server.Close()
	report, err := client.Get(t.Context(), server.URL)
	require.NoError(t, err)
	assert.Equal(t, "server", report.Name)
	assert.Equal(t, 4711, report.PID)
	assert.Equal(t, 10500*time.Millisecond, report.Diagnosis.Window)
	assert.Nil(t, report.Diagnosis.Unmeasured)
	assert.Equal(t, at(30), report.Since.Format(time.RFC3339), "the end of the last window with another verdict")
	assert.True(t, report.Slow())
	load, ok := report.Load()
	assert.True(t, ok)
	assert.Equal(t, 1.5, load)
	assert.True(t, math.IsNaN(report.Recent.CPU))
	report.Recent.CPU = 0
	assert.Equal(t, client.Recent{Over: 2 * time.Second, Lag: 10 * time.Millisecond, InFlight: 3, Responses: 7, Driving: true, Resident: 3, Processors: 2}, report.Recent)

	text, err := json.Marshal(report)
	require.NoError(t, err)
	var d observer.Diagnosis
	require.NoError(t, json.Unmarshal(text, &d))
	assert.Equal(t, report.Diagnosis, d, "a Report decodes as a Diagnosis")
	assert.Contains(t, string(text), `"process":"server","pid":4711,"verdict_since":"2026-03-04T14:03:30Z","at":`)
}

func TestListsOfAStrangerHaveBounds(t *testing.T) {
	entries := strings.Repeat(`{},`, 40000) + `{"host": "last", "at": "2026-03-04T14:03:05Z", "length_seconds": 1}`
	body := `{"verdict": "downstream", "summary": "", "peers": [` + entries + `], "sites": [` + entries + `], "oldest": [` + entries + `], "findings": [` + entries + `],
		"history": {"seconds": [` + entries + `], "windows": [` + entries + `]}}`
	require.Less(t, len(body), 1<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	defer server.Close()
	report, err := client.Get(t.Context(), server.URL, client.WithTimeout(time.Minute))
	require.NoError(t, err)
	assert.Len(t, report.Diagnosis.Peers, 64)
	assert.Len(t, report.Diagnosis.Sites, 64)
	assert.Len(t, report.Diagnosis.Oldest, 64)
	assert.Len(t, report.Diagnosis.Findings, 64)
	assert.Equal(t, time.Second, report.Recent.Over, "of the history the end is kept")
}
