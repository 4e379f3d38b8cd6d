package observer

import (
	"bytes"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFailureIsLoggedOncePerCause(t *testing.T) {
	var log lineCounter
	f := &failures{logger: slog.New(&log)}
	f.report("a", nil)
	assert.Empty(t, log.lines, "no error, no line")
	for range 3 {
		f.report("a", errUnavailable)
		f.report("a", errors.New("another error of the same cause"))
		f.report("b", errUnavailable)
	}
	assert.Equal(t, map[string]int{"a": 1, "b": 1}, log.lines)
}

func TestFailureIsLoggedOnceFromManyGoroutines(t *testing.T) {
	var log lineCounter
	f := &failures{logger: slog.New(&log)}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { f.report("a", errUnavailable) })
	}
	wg.Wait()
	assert.Equal(t, map[string]int{"a": 1}, log.lines)
}

func TestFailureLineHasLevelCauseAndError(t *testing.T) {
	var text bytes.Buffer
	f := &failures{logger: slog.New(slog.NewTextHandler(&text, nil))}
	f.report("the cause", errUnavailable)
	assert.Contains(t, text.String(), "level=WARN")
	assert.Contains(t, text.String(), `cause="the cause"`)
	assert.Contains(t, text.String(), `error="no such reading"`)
}

func TestNilFailuresReportNothing(t *testing.T) {
	var f *failures
	f.report("a", errUnavailable)
	func() {
		defer f.survive("a")
		panic("thrown by the test")
	}()
}

func throwFromHere() { panic("thrown by the test") }

func TestSurvivedPanicIsReportedWithItsStack(t *testing.T) {
	var text bytes.Buffer
	f := &failures{logger: slog.New(slog.NewTextHandler(&text, nil))}
	func() {
		defer f.survive("a")
		throwFromHere()
	}()
	assert.Contains(t, text.String(), "thrown by the test")
	assert.Contains(t, text.String(), "throwFromHere", "the frame that panicked")

	var err error
	func() {
		defer catch(&err)
		throwFromHere()
	}()
	assert.ErrorContains(t, err, "thrown by the test")
	assert.ErrorContains(t, err, "throwFromHere")
}

func TestSurviveLeavesAloneWhatDidNotPanic(t *testing.T) {
	var log lineCounter
	f := &failures{logger: slog.New(&log)}
	err := errUnavailable
	func() {
		defer f.survive("a")
		defer catch(&err)
	}()
	assert.Empty(t, log.lines)
	assert.Equal(t, errUnavailable, err)
}

func TestLogSurvivesItsHandler(t *testing.T) {
	handler := &lineCounter{on: throwFromHere}
	f := &failures{logger: slog.New(handler)}
	f.report("a", errUnavailable)
	assert.Equal(t, map[string]int{"a": 1}, handler.lines)
	log(new(slog.Logger), slog.LevelWarn, "a logger without a handler")
}
