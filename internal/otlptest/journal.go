package otlptest

import (
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Journal keeps what is logged to its Logger. Its methods are safe for
// concurrent use.
type Journal struct {
	Logger *slog.Logger

	mu      sync.Mutex
	lines   []string
	changed chan struct{} // closed and replaced at each line
}

// NewJournal returns an empty journal.
func NewJournal() *Journal {
	j := &Journal{changed: make(chan struct{})}
	j.Logger = slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return j
}

// Write takes one line from the handler.
func (j *Journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, strings.TrimSpace(string(line)))
	close(j.changed)
	j.changed = make(chan struct{})
	return len(line), nil
}

// Lines returns the lines that contain all the words, in order.
func (j *Journal) Lines(words ...string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return matching(j.lines, words)
}

// WaitFor waits for a line that contains all the words.
func (j *Journal) WaitFor(t testing.TB, words ...string) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		j.mu.Lock()
		lines, changed := j.lines, j.changed
		j.mu.Unlock()
		if len(matching(lines, words)) > 0 {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			t.Fatalf("no line with %q was logged in %v, but:\n%s", words, patience, strings.Join(lines, "\n"))
		}
	}
}

func matching(lines, words []string) (found []string) {
	for _, line := range lines {
		if containsAll(line, words) {
			found = append(found, line)
		}
	}
	return found
}

func containsAll(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}

// ClearEnvironment unsets what the observer and the SDK read, until the test ends.
func ClearEnvironment(t testing.TB) {
	t.Helper()
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "NEMO_") || strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "") // which also puts it back
			_ = os.Unsetenv(name)
		}
	}
}
