package reading

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/number"
)

func TestRuntimeTotals(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 40))
	var r Runtime
	before := r.Read()
	assert.Equal(t, number.Known(float64(runtime.GOMAXPROCS(0))), before.Processors)
	assert.Equal(t, int64(1<<40), before.MemoryLimit)
	assert.Positive(t, before.NotHeap)
	for name, n := range map[string]number.Number{
		"collector": before.Collector, "stopped": before.Stopped, "locked": before.Locked, "collections": before.Collections,
		"limited at": before.LimitedAt, "live": before.HeapLive, "goal": before.HeapGoal, "objects": before.HeapObjects,
	} {
		value, known := n.Get()
		assert.True(t, known, name)
		assert.GreaterOrEqual(t, value, 0.0, name)
	}

	runtime.GC()
	after := r.Read()
	assert.GreaterOrEqual(t, after.Collections.Or(0), before.Collections.Or(0)+1)
	assert.Greater(t, after.Collector.Or(0), before.Collector.Or(0))
	assert.Positive(t, after.HeapLive.Or(0))

	debug.SetMemoryLimit(math.MaxInt64)
	assert.Zero(t, r.Read().MemoryLimit, "none")
}

func TestReadingTheRuntimeAllocatesNothing(t *testing.T) {
	var r Runtime
	var q QueueReader
	r.Read()
	q.Read()
	assert.Zero(t, testing.AllocsPerRun(100, func() { r.Read(); q.Read() }))
}

func TestH32AMissingQueueIsNotKnown(t *testing.T) {
	var q QueueReader
	_, known := q.Read().Runnable.Get()
	assert.True(t, known, "this Go tells")
	q.samples[0].Name = "/no/such:metric"
	queues := q.Read()
	assert.False(t, queues.Runnable.IsKnown())
	assert.True(t, queues.NotInGo.IsKnown())
	assert.True(t, queues.MayWait(), "somebody may")
}
