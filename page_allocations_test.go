//go:build !race

package observer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Each sample ends a second. A window, which comes far less often, allocates.
func TestHistoryAllocatesNothingAtASample(t *testing.T) {
	h, now := newHistory(), time.Now()
	sample := sampleAt(now, time.Millisecond)
	h.begin(now)
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Second)
		h.pause(0.001)
		sample.At = now
		h.add(sample, time.Second)
	}))
	assert.Equal(t, 600, len(h.Seconds(now.Add(time.Millisecond))))
}
