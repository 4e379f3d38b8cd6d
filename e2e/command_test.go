package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/e2e/internal/backend"
)

// TestCommandShowsProcessesWithoutAPage asks a real Prometheus for what processes in
// Python export: the names with a unit at the end and without, one of them a driver,
// and beside them one in Go, which has a page and is left out.
func TestCommandShowsProcessesWithoutAPage(t *testing.T) {
	var scrapes atomic.Int64
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := scrapes.Add(1)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		for _, lag := range []struct{ name, labels string }{
			{"gym_event_loop_lag_ms_milliseconds", `job="agent",instance="a"`},
			{"gym_event_loop_lag_ms", `job="driver",instance="d"`},
			{"gym_event_loop_lag_ms_milliseconds", `job="go",instance="g"`},
		} {
			fmt.Fprintf(w, "%[1]s_bucket{%[2]s,le=\"10\"} %[3]d\n%[1]s_bucket{%[2]s,le=\"20\"} %[4]d\n%[1]s_bucket{%[2]s,le=\"+Inf\"} %[4]d\n", lag.name, lag.labels, 0, 100*n)
		}
		fmt.Fprintf(w, "gym_server_requests_in_flight{job=\"agent\",instance=\"a\"} 34\n")
		fmt.Fprintf(w, "gym_server_responses_total{job=\"agent\",instance=\"a\",http_response_status_code=\"200\"} %d\n", 10*n)
		fmt.Fprintf(w, "gym_driver_rollouts_resident{job=\"driver\",instance=\"d\"} 64\n")
		fmt.Fprintf(w, "gym_load{job=\"go\",instance=\"g\",nemo_gym_cause=\"gc\"} 0\n")
	}))
	defer exporter.Close()
	prometheus := backend.StartPrometheus(t, backend.Scraping(time.Second, strings.TrimPrefix(exporter.URL, "http://")))

	// A driver in Go waits for the agent, which has no page.
	driver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"at": "2026-03-04T14:03:05Z", "process": "rollouts", "pid": 1, "verdict": "downstream", "summary": "downstream: it waits",
			"peers": [{"host": "agent:1", "waiting": 14, "wait_seconds": 3, "in_flight": 15}]}`)
	}))
	defer driver.Close()
	program := filepath.Join(t.TempDir(), "observer")
	built, err := exec.Command("go", "build", "-o", program, "github.com/gym-observer/observer/cmd/observer").CombinedOutput()
	require.NoError(t, err, "%s", built)

	run := func(within time.Duration, args ...string) string {
		command := exec.Command(program, args...)
		command.WaitDelay = time.Second
		output, err := os.CreateTemp(t.TempDir(), "")
		require.NoError(t, err)
		command.Stdout, command.Stderr = output, output
		require.NoError(t, command.Start())
		if within > 0 {
			time.AfterFunc(within, func() { _ = command.Process.Signal(os.Interrupt) })
		}
		_ = command.Wait()
		text, err := os.ReadFile(output.Name())
		require.NoError(t, err)
		return string(text)
	}
	backend.Await(t, func() error {
		text := run(1500*time.Millisecond, "top", "-every", "1s", "-prometheus", prometheus.URL)
		for _, line := range []string{
			`(?m)^agent +no verdict +- +- +20ms +34\.0 +\d+\.\d +- +-$`,
			`(?m)^driver +no verdict +- +- +20ms +64\.0 +- +- +-$`,
		} {
			if !regexp.MustCompile(line).MatchString(text) {
				return fmt.Errorf("there is no line %s in:\n%s", line, text)
			}
		}
		assert.NotRegexp(t, `(?m)^go `, text, "it has a page")
		return nil
	})
	selected := run(1500*time.Millisecond, "top", "-every", "1s", "-prometheus", prometheus.URL, "-query", `{job=~"g.*"}`)
	assert.Regexp(t, `(?m)^go +no verdict `, selected, "whoever asks for it gets it")
	assert.NotContains(t, selected, "driver")

	assert.Contains(t, run(0, "why", driver.URL, "-timeout", "20s", "-page", "agent:1="+exporter.URL+"/metrics", "-prometheus", prometheus.URL),
		"by Prometheus, without a verdict: event loop lag 20ms (p99), 34 requests in flight")
}
