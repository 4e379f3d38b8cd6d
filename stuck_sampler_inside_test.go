package observer

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/reading"
)

// A log handler that hangs keeps its sampler for longer than a Stop waits, and the
// next loop samples meanwhile. What comes back from the handler must find nothing
// left to do, or the two would write to the same.
func TestASamplerTouchesNothingAfterItsLogLine(t *testing.T) {
	for line, fail := range map[string]func(*sampler){
		"cause=" + GCPauseInstrument: func(s *sampler) { s.gc.pauses.Metric = "/no/such:metric" },
		"cause=own CPU time": func(s *sampler) {
			s.windows.Process = &failsLater{Process: s.windows.Process}
			s.windows.Every = 5 * time.Millisecond
		},
		"verdict changed": func(s *sampler) {
			s.windows.Process = nearlyAllOpen{s.windows.Process}
			s.windows.Every = 5 * time.Millisecond
		},
	} {
		t.Run(line, func(t *testing.T) {
			i := withSource(t)
			s := &i.session.sampler
			fail(s)
			stuck, release := make(chan struct{}), make(chan struct{})
			var hung atomic.Bool
			i.log.On = func() {
				if len(i.log.Of(line)) > 0 && hung.CompareAndSwap(false, true) {
					close(stuck)
					<-release
				}
			}
			first := Start(context.Background(), "first", WithSampleInterval(time.Millisecond))
			require.NoError(t, first.Err())
			<-stuck
			first.Stop()
			s.samples = 1000
			s.diagnosed.Store(nil)
			second := Start(context.Background(), "second", WithSampleInterval(time.Hour))
			close(release)
			<-first.handle.loop.Done()
			assert.Equal(t, 1000, s.samples)
			assert.Nil(t, s.diagnosed.Load())
			second.Stop()
		})
	}
}

// nearlyAllOpen is a process whose descriptors run out.
type nearlyAllOpen struct{ reading.Process }

func (nearlyAllOpen) OpenDescriptors() (int64, error) { return 1 << 40, nil }

// failsLater is a process whose CPU time cannot be read any more once the first
// window is open.
type failsLater struct {
	reading.Process
	opened atomic.Bool
}

func (p *failsLater) CPUTime() (user, system float64, err error) {
	if !p.opened.Swap(true) {
		return p.Process.CPUTime()
	}
	return 0, 0, errors.New("refused by the test")
}
