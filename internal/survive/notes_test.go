package survive

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/testlog"
)

func TestNotesWaitUntilTheyAreSaid(t *testing.T) {
	var notes Notes
	notes.Say(nil) // of nothing, to nobody
	notes.Add(slog.LevelInfo, "first", slog.Int("given", 2))
	notes.Add(slog.LevelWarn, "second")
	var log testlog.Log
	notes.Say(log.Logger())
	lines := log.Of("")
	assert.Len(t, lines, 2)
	assert.Contains(t, lines[0], "INFO first given=2")
	assert.Contains(t, lines[1], "WARN second")
}

func TestNoteSurvivesItsHandler(t *testing.T) {
	handler := &testlog.Log{On: throwFromHere}
	var notes Notes
	notes.Add(slog.LevelInfo, "first")
	notes.Add(slog.LevelInfo, "second")
	notes.Say(handler.Logger())
	assert.Len(t, handler.Of("second"), 1, "the first does not keep the second")
}

func TestNilPointerIsNil(t *testing.T) {
	var pointer *Failures
	assert.True(t, IsNil(nil))
	assert.True(t, IsNil(pointer))
	assert.False(t, IsNil(new(Failures)))
	assert.False(t, IsNil(Failures{Logger: nil}), "a value, whatever is in it")
	assert.False(t, IsNil(0))
}
