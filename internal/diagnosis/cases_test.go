package diagnosis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/number"
)

// judged is the outcome of three windows of 4 s in which every sample and every
// window was the same: change says what a reading gained since the one before.
func judged(sample Sample, change func(*Reading)) *Outcome {
	var (
		series  Series
		judge   Judge
		outcome *Outcome
	)
	reading, now := atRest(), windowBegan
	sample.Runnable = number.Known(0)
	series.Begin(now, reading)
	for range 3 {
		now = now.Add(windowLength)
		for sample.At = now.Add(-3 * time.Second); !sample.At.After(now); sample.At = sample.At.Add(time.Second) {
			series.Add(&sample)
		}
		change(&reading)
		if !series.AsksForChildren() {
			reading.Children = number.Number{}
		}
		outcome = judge.Next(series.End(now, reading), windowLength)
	}
	return outcome
}

func TestH64WarmPageCacheIsNoMemory(t *testing.T) {
	outcome := judged(Sample{NotInGo: number.Known(0)}, func(r *Reading) {
		r.Memory.GroupUsed, r.Memory.GroupLimit = 1_700_000, 256<<20 // without 230 MiB that the kernel can drop
	})
	assert.Equal(t, None, outcome.Verdict)
	assert.InDelta(t, 0, outcome.Window.Load[Memory].Or(1), 0.01)
}

func TestH65MemoryHighIsALimitWithWordsOfItsOwn(t *testing.T) {
	outcome := judged(Sample{Lag: 400 * time.Millisecond}, func(r *Reading) {
		r.Memory.GroupUsed, r.Memory.GroupLimit, r.Memory.GroupHigh = 41<<20, 40<<20, true
		r.Memory.Stalled = number.Known(r.Memory.Stalled.Or(0) + 2.4)
	})
	assert.Equal(t, Memory, outcome.Verdict)
	assert.Contains(t, outcome.Sentence(""), "memory: 41 MiB of the cgroup's memory.high of 40 MiB are in use, past which the kernel puts the process to sleep; all of it waited for memory for 0.60 s per second.")
}

func TestH69ToolsInChildrenBlockNothing(t *testing.T) {
	for name, children := range map[string]float64{"sixteen rollouts with a tool each": 16, "ten sleeps": 10} {
		outcome := judged(Sample{NotInGo: number.Known(children)}, func(r *Reading) { r.Children = number.Known(children) })
		assert.Equal(t, None, outcome.Verdict, name)
		assert.Equal(t, number.Known(0), outcome.Window.Load[BlockedThread], name)
	}
	calls := judged(Sample{NotInGo: number.Known(40)}, func(r *Reading) { r.Children = number.Known(0) })
	assert.Equal(t, BlockedThread, calls.Verdict, "forty slow calls are none")
}

func TestH70WatchDoesNotHideDescriptors(t *testing.T) {
	watch := Sample{NotInGo: number.Known(0), Outbound: 12, ExpectedOutbound: 12}
	assert.Equal(t, None, judged(watch, func(*Reading) {}).Verdict)
	full := func(r *Reading) { r.Descriptors = number.Known(190) }
	outcome := judged(watch, full)
	assert.Equal(t, Descriptors, outcome.Verdict)
	assert.Empty(t, outcome.Also)

	watch.ExpectedOutbound = 0
	outcome = judged(watch, full)
	assert.Equal(t, Descriptors, outcome.Verdict, "nor does one that nobody declared")
	assert.Equal(t, SetOf(Downstream), outcome.Also)
}
