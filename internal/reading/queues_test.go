package reading_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/number"
	"github.com/gym-observer/observer/internal/reading"
)

func TestYieldsIfSomebodyMayWait(t *testing.T) {
	assert.False(t, reading.Queues{Runnable: number.Known(0)}.MayWait())
	assert.True(t, reading.Queues{Runnable: number.Known(1)}.MayWait())
	assert.True(t, reading.Queues{}.MayWait(), "a Go that does not tell")
}
