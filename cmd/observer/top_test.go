package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/client"
)

// output is written to by top and read by a test.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	fail error
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fail != nil {
		return 0, o.fail
	}
	return o.text.Write(b)
}

// blocks are the pictures so far.
func (o *output) blocks() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Split(o.text.String(), "\n\n")
}

// startTop runs top until the test ends it.
func startTop(t *testing.T, args ...string) (out *output, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out = new(output)
	done := make(chan int)
	go func() {
		var stderr bytes.Buffer
		code := run(ctx, append([]string{"top"}, args...), out, &stderr)
		assert.Empty(t, stderr.String())
		done <- code
	}()
	end = sync.OnceFunc(func() {
		cancel()
		assert.Equal(t, 0, <-done)
	})
	t.Cleanup(end)
	return out, end
}

func eventually(t *testing.T, out *output, what string, check func(block string) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		blocks := out.blocks()
		return check(blocks[len(blocks)-1])
	}, 20*time.Second, 10*time.Millisecond, "%s: %s", what, out.blocks()[len(out.blocks())-1])
}

func tableRows() []row {
	recent := client.Recent{Over: 10 * time.Second, Lag: 12400 * time.Microsecond, InFlight: 11.9, Responses: 104.2, CPU: 1.1, Processors: 2}
	driving := client.Recent{Over: 10 * time.Second, Lag: 400 * time.Microsecond, Driving: true, Resident: 16, CPU: 0.1, Processors: 2}
	contended := waiting()
	contended.Verdict, contended.Findings[0] = observer.CauseCPUContended, observer.Finding{Cause: observer.CauseCPUContended, Load: 1.4}
	return []row{
		{address: "driver:6060", answered: true, report: client.Report{Name: "driver", PID: 4711, Since: now.Add(-3 * time.Minute), Diagnosis: downstream("agent:8001"), Recent: driving}},
		{address: "10.0.0.11:6060", answered: true, report: client.Report{Name: "model", PID: 1, Since: now.Add(-40 * time.Hour), Diagnosis: none(), Recent: recent}},
		{address: "10.0.0.12:6060", answered: true, report: client.Report{Name: "model", PID: 1, Since: now.Add(-70 * time.Second), Diagnosis: contended, Recent: recent}},
		{address: "agent:6060", answered: true, report: client.Report{Name: "agent", PID: 4194304, Since: now.Add(-200 * time.Second), Diagnosis: waiting(), Recent: recent}},
		{address: "resources:6060", answered: true, report: client.Report{Name: "resources", PID: 4750, Diagnosis: none()}, silentSince: now.Add(-12 * time.Second), silent: "timed out after 2s"},
		{address: "never:6060", silentSince: now.Add(-5 * time.Second), silent: "refused"},
		{address: "new:6060", answered: true, report: client.Report{Name: "new", PID: 4760, Diagnosis: observer.Diagnosis{Summary: "not complete"}}},
		{address: "asked:6060"},
		{measured: &measured{job: "nemo-agent", instance: "py:1", lag: 38.4, inFlight: 34, responses: 12}, address: "py:1"},
		{measured: &measured{job: "nemo-driver", instance: "py:2", lag: 2, inFlight: 0, resident: 64, offered: 3.4}, address: "py:2"},
	}
}

func TestTableReads(t *testing.T) {
	golden(t, "top.txt", strings.Join(table(tableRows(), now, 80, 0, false), "\n")+"\n")
}

func TestProcessesOfOneNameAreToldApart(t *testing.T) {
	assert.Equal(t, "…7.0.0.1:33249", apart("rollouts", "127.0.0.1:33249", 14))
	assert.Equal(t, "10.0.0.1:33249", apart("rollouts", "10.0.0.1:33249", 14))
	assert.Equal(t, "rollouts 127.0.0.1:33249", apart("rollouts", "127.0.0.1:33249", 24))
}

func TestTableFits(t *testing.T) {
	for _, width := range []int{1, 20, 79, 80, 81, 120, 500} {
		for _, lines := range []int{0, 1, 2, 3, 5, 11, 12, 50} {
			drawn := table(tableRows(), now, width, lines, false)
			if lines > 0 {
				assert.LessOrEqual(t, len(drawn), lines, "lines")
			}
			for _, line := range drawn {
				assert.LessOrEqual(t, len([]rune(line)), width, line)
			}
		}
	}
	few := table(tableRows(), now, 80, 4, false)
	assert.Contains(t, few[1], "agent ", "the slow ones stay")
	assert.Equal(t, "… and 8 more that are less slow; a taller window has them", few[3])
	assert.NotContains(t, strings.Join(table(tableRows(), now, 80, 11, false), "\n"), "more that are", "they just fit")
}

func TestColourIsOnlyWhereItIsWanted(t *testing.T) {
	drawn := strings.Join(table(tableRows(), now, 80, 0, true), "\n")
	assert.Equal(t, 2, strings.Count(drawn, "\x1b[31m"), "the slow ones")
	assert.Equal(t, 2, strings.Count(drawn, "\x1b[33m"), "those without an answer")
	assert.NotContains(t, strings.Join(table(tableRows(), now, 80, 0, false), "\n"), "\x1b")

	size := func() (int, int) { return 80, 24 }
	for _, c := range []struct {
		noColour string
		want     bool
	}{{"", true}, {"1", false}} {
		s := newScreen(new(output), size, func(name string) string { return map[string]string{"NO_COLOR": c.noColour}[name] })
		assert.Equal(t, c.want, s.colour)
		s.close()
	}
}

func TestTerminalIsGivenBack(t *testing.T) {
	out := new(output)
	s := newScreen(out, func() (int, int) { return 0, 0 }, func(string) string { return "" })
	width, height := s.size()
	assert.Equal(t, []int{80, 24}, []int{width, height}, "where a terminal does not know")
	require.NoError(t, s.draw([]string{"one", "two"}))
	s.close()
	assert.Equal(t, "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[Hone\x1b[K\r\ntwo\x1b[K\x1b[J\x1b[?7h\x1b[?25h\x1b[?1049l", out.text.String())
}

func TestNoTerminalIsAskedForNothing(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	for _, out := range []io.Writer{file, new(output)} {
		s := openScreen(out, func(name string) string {
			return map[string]string{"TERM": "xterm", "COLUMNS": "120"}[name]
		})
		width, height := s.size()
		assert.Equal(t, []int{120, 0}, []int{width, height})
		assert.False(t, s.colour)
		s.close()
	}
}

func TestProcessThatStopsAnsweringStays(t *testing.T) {
	well, leaving := serve(t, "well", 1, none()), serve(t, "leaving", 2, none())
	out, end := startTop(t, "-every", "100ms", well.URL, leaving.URL)
	eventually(t, out, "both answer", func(b string) bool { return strings.Count(b, " none ") == 2 })
	leaving.Close()
	eventually(t, out, "one is gone", func(b string) bool { return strings.Contains(b, "refused") })
	end()
	blocks := out.blocks()
	last := strings.Split(blocks[len(blocks)-1], "\n")
	assert.Contains(t, last[0], "2 processes, 0 slow, 1 without an answer; every 100ms")
	assert.Regexp(t, `^leaving +2 no answer +\ds refused$`, last[2], "its name and since when")
	assert.Regexp(t, `^well +1 none `, last[3])
}

func TestTopEndsWhereNobodyReadsOn(t *testing.T) {
	out := &output{fail: io.ErrClosedPipe}
	assert.Equal(t, 0, run(t.Context(), []string{"top", serve(t, "p", 1, none()).URL}, out, io.Discard))
}

// Two hundred processes of which forty hang: the others are all there after one
// refresh, and no more than 32 connections are open at once.
func TestTwoHundredProcessesInOneRefresh(t *testing.T) {
	var open, most atomic.Int64
	count := func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			now := open.Add(1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
		case http.StateClosed:
			open.Add(-1)
		}
	}
	answering := serve(t, "p", 1, none())
	// Not counted: such a server learns of a connection's end when it looks.
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hanging.Close()
	counted := httptest.NewUnstartedServer(answering)
	counted.Config.ConnState = count
	counted.Start()
	defer counted.Close()
	_, port, err := net.SplitHostPort(counted.Listener.Addr().String())
	require.NoError(t, err)
	_, hangingPort, err := net.SplitHostPort(hanging.Listener.Addr().String())
	require.NoError(t, err)
	args := []string{"-every", "2s", "-timeout", "1s"}
	for i := range 200 {
		if i < 40 {
			args = append(args, "localhost:"+hangingPort)
		} else {
			args = append(args, "127.0.0.1:"+port)
		}
	}
	out, end := startTop(t, args...)
	eventually(t, out, "a picture", func(b string) bool { return strings.Contains(b, "none") })
	eventually(t, out, "all that answer", func(b string) bool { return strings.Count(b, " none ") == 160 })
	eventually(t, out, "the silent ones", func(b string) bool { return strings.Contains(b, "200 processes, 0 slow, 40 without") })
	before := len(out.blocks())
	require.Eventually(t, func() bool { return len(out.blocks()) > before }, 10*time.Second, 10*time.Millisecond)
	end()
	assert.LessOrEqual(t, most.Load(), int64(32))
	w := newWatch(nil, nil, nil, "")
	assert.Equal(t, 32, cap(w.slots)+cap(w.slotsForSilent)+prometheusConnections)
	for _, block := range out.blocks()[before:] {
		assert.Equal(t, 160, strings.Count(block, " none "), "all of them, each time")
	}
}

// The pages of real observers, with a history each, and every flag as it is by
// default: all are there when the second picture comes.
func TestTwoHundredRealPagesInOneRefresh(t *testing.T) {
	const processes = 200
	observing := observer.Start(t.Context(), "p",
		observer.WithMeterProvider(noop.NewMeterProvider()), observer.WithLogger(slog.New(slog.DiscardHandler)), observer.WithWindow(time.Second))
	defer observing.Stop()
	require.NoError(t, observing.Err())
	require.Eventually(t, func() bool { return !observer.Diagnose().At.IsZero() }, 20*time.Second, 50*time.Millisecond)
	mux := http.NewServeMux()
	mux.Handle("/debug/observer", observer.Handler())
	var args []string
	for range processes {
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		args = append(args, server.Listener.Addr().String())
	}
	out, end := startTop(t, args...)
	defer end()
	require.Eventually(t, func() bool { return len(out.blocks()) > 2 }, 20*time.Second, 10*time.Millisecond)
	second := out.blocks()[1]
	assert.Contains(t, second, "200 processes", second)
	assert.Contains(t, second, " 0 without an answer", second)
	rows := strings.Split(strings.TrimSpace(second), "\n")[2:]
	require.Len(t, rows, processes)
	for _, row := range rows {
		assert.Regexp(t, fmt.Sprintf(`^\S+ +%d [a-z_]+ `, os.Getpid()), row, "name, number and verdict")
	}
}

func TestTopShowsProcessesOfPrometheus(t *testing.T) {
	prometheus := servePrometheus(t)
	out, end := startTop(t, "-every", "100ms", "-prometheus", prometheus.URL, "-query", `{job="nemo"}`, serve(t, "go", 1, waiting()).URL)
	eventually(t, out, "both", func(b string) bool { return strings.Contains(b, "no verdict") && strings.Contains(b, " wait ") })
	end()
	lines := strings.Split(out.blocks()[0], "\n")
	assert.Regexp(t, `^nemo +no verdict +- +- +38ms +34\.0 +12\.0 +- +-$`, lines[3])
	for _, query := range prometheus.asked() {
		assert.Contains(t, query, `,job="nemo"}`)
	}
	prometheus.Close()
	out, _ = startTop(t, "-every", "100ms", "-prometheus", prometheus.URL)
	eventually(t, out, "what is wrong", func(b string) bool {
		return strings.Contains(b, fmt.Sprintf("asking Prometheus at %s: refused", strings.TrimPrefix(prometheus.URL, "http://")))
	})
}

func TestALongNameKeepsWhatTellsItsProcessesApart(t *testing.T) {
	for named, want := range map[string]string{
		"rollouts/driver":          "…/driver",
		"rollouts/agent":           "rollouts/agent",
		"a-name-that-is-long":      "a-name-that-is-long", // cut as ever
		"/a-name-that-is-long":     "/a-name-that-is-long",
		"p/a-loop-that-is-as-long": "…/a-loop-that-is-as-long",
		"ünïcödé/äöüäöü":           "ünïcödé/äöüäöü",
	} {
		assert.Equal(t, want, ending(named, 14))
	}
}
