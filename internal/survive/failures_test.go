package survive

import (
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/testlog"
)

var errUnavailable = errors.New("no such reading")

func TestFailureIsLoggedOncePerCause(t *testing.T) {
	var log testlog.Log
	f := &Failures{Logger: log.Logger()}
	f.Report("a", nil)
	assert.Empty(t, log.Causes(), "no error, no line")
	for range 3 {
		f.Report("a", errUnavailable)
		f.Report("a", errors.New("another error of the same cause"))
		f.Report("b", errUnavailable)
	}
	assert.Equal(t, map[string]int{"a": 1, "b": 1}, log.Causes())
}

func TestFailureIsLoggedOnceFromManyGoroutines(t *testing.T) {
	var log testlog.Log
	f := &Failures{Logger: log.Logger()}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { f.Report("a", errUnavailable) })
	}
	wg.Wait()
	assert.Equal(t, map[string]int{"a": 1}, log.Causes())
}

func TestFailureLineHasLevelCauseAndError(t *testing.T) {
	var log testlog.Log
	f := &Failures{Logger: log.Logger()}
	f.Report("the cause", errUnavailable)
	assert.Len(t, log.Of("WARN ", "cause=the cause", "error=no such reading"), 1)
}

func TestNilFailuresReportNothing(t *testing.T) {
	var f *Failures
	f.Report("a", errUnavailable)
	func() {
		defer f.Survive("a")
		panic("thrown by the test")
	}()
}

func throwFromHere() { panic("thrown by the test") }

func TestSurvivedPanicIsReportedWithItsStack(t *testing.T) {
	var log testlog.Log
	f := &Failures{Logger: log.Logger()}
	func() {
		defer f.Survive("a")
		throwFromHere()
	}()
	assert.Len(t, log.Of("thrown by the test", "throwFromHere"), 1, "with the frame that panicked")

	var err error
	func() {
		defer Catch(&err)
		throwFromHere()
	}()
	assert.ErrorContains(t, err, "thrown by the test")
	assert.ErrorContains(t, err, "throwFromHere")
}

func TestSurviveLeavesAloneWhatDidNotPanic(t *testing.T) {
	var log testlog.Log
	f := &Failures{Logger: log.Logger()}
	err := errUnavailable
	func() {
		defer f.Survive("a")
		defer Catch(&err)
	}()
	assert.Empty(t, log.Causes())
	assert.Equal(t, errUnavailable, err)
}

func TestLogSurvivesItsHandler(t *testing.T) {
	handler := &testlog.Log{On: throwFromHere}
	f := &Failures{Logger: handler.Logger()}
	f.Report("a", errUnavailable)
	assert.Equal(t, map[string]int{"a": 1}, handler.Causes())
	Log(new(slog.Logger), slog.LevelWarn, "a logger without a handler")
}
