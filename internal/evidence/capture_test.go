package evidence

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/trace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// succeeds fails the test where a capture does.
func succeeds(t *testing.T) func(string, error) {
	return func(cause string, err error) { assert.NoError(t, err, cause) }
}

// settingsOf are those of captures without a cooldown.
func settingsOf(directory string) *Settings {
	return &Settings{Directory: directory, Lag: time.Second, Budget: 1 << 20, Goroutines: 20_000}
}

// now captures and waits until that is done.
func (c *Capture) now(reason string) {
	c.Begin(reason, JSON("diagnosis.json", reason))
	c.Wait()
}

func TestCaptureWritesTheEvidence(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "made", "on", "the", "way")
	c, err := Start(settingsOf(directory), succeeds(t))
	require.NoError(t, err)
	defer func() { <-c.End() }()
	before := time.Now().UTC().Truncate(time.Microsecond)
	trace.WithRegion(t.Context(), "region of the test", func() {})
	c.Begin("gc", JSON("diagnosis.json", "of the test"), JSON("sites.json", []string{"store.go:42"}))
	c.Wait()
	after := time.Now().UTC()

	names := entries(t, directory)
	require.Len(t, names, 1)
	parts := regexp.MustCompile(`^(\d{8}T\d{6}\.\d{6}Z)-gc-(\d+)$`).FindStringSubmatch(names[0])
	require.NotNil(t, parts, names[0])
	at, err := time.Parse("20060102T150405.000000Z", parts[1])
	require.NoError(t, err)
	assert.WithinRange(t, at, before, after)
	assert.Equal(t, fmt.Sprint(os.Getpid()), parts[2])

	folder := filepath.Join(directory, names[0])
	assert.Equal(t, []string{"diagnosis.json", "goroutines.txt", "sites.json", "trace.out"}, entries(t, folder))
	text, err := os.ReadFile(filepath.Join(folder, "diagnosis.json"))
	require.NoError(t, err)
	assert.JSONEq(t, `"of the test"`, string(text))
	text, err = os.ReadFile(filepath.Join(folder, "sites.json"))
	require.NoError(t, err)
	assert.JSONEq(t, `["store.go:42"]`, string(text))
	goroutines, err := os.ReadFile(filepath.Join(folder, "goroutines.txt"))
	require.NoError(t, err)
	assert.Contains(t, string(goroutines), "goroutine profile: total ")
	assert.Contains(t, string(goroutines), "TestCaptureWritesTheEvidence", "grouped by stack, with names")

	program, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command here")
	}
	parsed, err := exec.CommandContext(t.Context(), program, "tool", "trace", "-d=parsed", filepath.Join(folder, "trace.out")).CombinedOutput()
	require.NoError(t, err, "%.1000s", parsed)
	assert.Contains(t, string(parsed), "region of the test")
}

func TestOneCaptureAtATime(t *testing.T) {
	directory := t.TempDir()
	done, goOn := make(chan struct{}, 2), make(chan struct{})
	c := newCapture(settingsOf(directory), func(_ string, err error) { // what a capture calls at its end
		assert.NoError(t, err)
		done <- struct{}{}
		<-goOn
	})
	c.Begin("gc", JSON("diagnosis.json", 1))
	<-done
	c.Begin("lock", JSON("diagnosis.json", 2))
	c.Begin("lag", JSON("diagnosis.json", 3))
	close(goOn)
	c.Wait()
	assert.Len(t, entries(t, directory), 1)
	c.now("lag")
	assert.Len(t, entries(t, directory), 2)
}

func TestCooldownBetweenCaptures(t *testing.T) {
	directory := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		settings := settingsOf(directory)
		settings.Cooldown = time.Minute
		c := newCapture(settings, succeeds(t))
		var reasons []string
		for _, step := range []struct {
			after  time.Duration
			reason string
		}{{0, "first"}, {0, "at_once"}, {time.Minute - 1, "just_before"}, {1, "then"}, {time.Second, "soon"}, {time.Hour, "later"}} {
			time.Sleep(step.after)
			c.now(step.reason)
		}
		for _, name := range entries(t, directory) {
			reasons = append(reasons, strings.Split(name, "-")[1])
		}
		assert.Equal(t, []string{"first", "then", "later"}, reasons)
	})
}

func TestNothingIsCapturedAfterTheEnd(t *testing.T) {
	directory := t.TempDir()
	c := newCapture(settingsOf(directory), succeeds(t))
	c.now("before")
	<-c.End()
	require.Len(t, entries(t, directory), 1)
	c.now("after")
	assert.Len(t, entries(t, directory), 1)
}

func TestPanicInACaptureIsItsFailure(t *testing.T) {
	var failed error
	c := newCapture(settingsOf(t.TempDir()), func(_ string, err error) { failed = err })
	c.write = func(*Capture, time.Time, string, []File) error { panic("of the test") }
	c.now("gc")
	assert.ErrorContains(t, failed, "panic: of the test")
}

func TestNilCapturesNothing(t *testing.T) {
	var c *Capture
	c.Begin("gc")
	c.Watch()
	<-c.End()
	assert.False(t, c.IsLate(time.Hour))
	assert.Empty(t, c.Directory())
}
