package observer

import (
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/testlog"
)

func TestFailureIsLoggedOncePerCause(t *testing.T) {
	var log testlog.Log
	f := &failures{logger: log.Logger()}
	f.report("a", nil)
	assert.Empty(t, log.Causes(), "no error, no line")
	for range 3 {
		f.report("a", errUnavailable)
		f.report("a", errors.New("another error of the same cause"))
		f.report("b", errUnavailable)
	}
	assert.Equal(t, map[string]int{"a": 1, "b": 1}, log.Causes())
}

func TestFailureIsLoggedOnceFromManyGoroutines(t *testing.T) {
	var log testlog.Log
	f := &failures{logger: log.Logger()}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { f.report("a", errUnavailable) })
	}
	wg.Wait()
	assert.Equal(t, map[string]int{"a": 1}, log.Causes())
}

func TestFailureLineHasLevelCauseAndError(t *testing.T) {
	var log testlog.Log
	f := &failures{logger: log.Logger()}
	f.report("the cause", errUnavailable)
	assert.Len(t, log.Of("WARN ", "cause=the cause", "error=no such reading"), 1)
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
	var log testlog.Log
	f := &failures{logger: log.Logger()}
	func() {
		defer f.survive("a")
		throwFromHere()
	}()
	assert.Len(t, log.Of("thrown by the test", "throwFromHere"), 1, "with the frame that panicked")

	var err error
	func() {
		defer catch(&err)
		throwFromHere()
	}()
	assert.ErrorContains(t, err, "thrown by the test")
	assert.ErrorContains(t, err, "throwFromHere")
}

func TestSurviveLeavesAloneWhatDidNotPanic(t *testing.T) {
	var log testlog.Log
	f := &failures{logger: log.Logger()}
	err := errUnavailable
	func() {
		defer f.survive("a")
		defer catch(&err)
	}()
	assert.Empty(t, log.Causes())
	assert.Equal(t, errUnavailable, err)
}

func TestLogSurvivesItsHandler(t *testing.T) {
	handler := &testlog.Log{On: throwFromHere}
	f := &failures{logger: handler.Logger()}
	f.report("a", errUnavailable)
	assert.Equal(t, map[string]int{"a": 1}, handler.Causes())
	log(new(slog.Logger), slog.LevelWarn, "a logger without a handler")
}
