package observer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gym-observer/observer/internal/survive"
)

// handle is one claim on the process-wide state.
type handle struct {
	ctx      context.Context
	settings Settings
	refused  error // why it never observed; the fields below are then unset

	session  *session
	loop     *loop // nil for Acquire
	unwatch  func() bool
	deadline atomic.Pointer[time.Time] // of the first release; nil before it
	left     chan struct{}             // closed when it has left the process
	ended    atomic.Bool               // the application has ended it before
}

// acquire makes a handle, with a sampler unless loopName is nil.
func acquire(ctx context.Context, loopName *string, options []Option) *handle {
	c := resolve(options)
	h := &handle{ctx: survive.ContextOrBackground(ctx), settings: c.settings, left: make(chan struct{})}
	h.refused = h.join(c, loopName)
	switch {
	case errors.Is(h.refused, ErrOff):
		c.notes.Add(slog.LevelInfo, "observer is off. To turn it on, pass observer.WithMeterProvider, or export.FromEnv() with NEMO_GYM_OTEL_ENABLED=true or OTEL_EXPORTER_OTLP_ENDPOINT set, or install a provider with otel.SetMeterProvider before Start",
			slog.Any("reason", h.refused))
	case h.refused != nil:
		c.notes.Add(slog.LevelWarn, "observer does not observe", slog.Any("error", h.refused))
	default:
		watching := make(chan struct{})
		h.unwatch = context.AfterFunc(h.ctx, func() {
			<-watching // the line above has ended
			h.release()
		})
		close(watching)
	}
	c.notes.Say(c.settings.Logger)
	return h
}

// join claims the process-wide state, setting it up if this is the first claim.
func (h *handle) join(c *config, loopName *string) (err error) {
	if h.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrStopped, context.Cause(h.ctx))
	}
	if err := c.switchedOff(); err != nil {
		return err
	}
	name := ""
	if loopName != nil {
		name = *loopName
	}
	h.session, err = enter(c, func() (*session, error) { return setUp(h.ctx, name, c) }, func(s *session) {
		if loopName != nil {
			h.loop = newLoop(name, c.settings, &s.sampler, &s.loops)
			first := s.loops.Add(h.loop)
			if first {
				s.sampler.gc.begin() // what happened while nobody sampled is not reported
			}
			h.loop.start(first)
		}
	})
	return err
}

// status returns what Err documents.
func (h *handle) status() error {
	switch {
	case h == nil: // in the zero Observer
		return ErrOff
	case h.refused != nil:
		return h.refused
	case h.deadline.Load() != nil || h.ctx.Err() != nil:
		return ErrStopped
	}
	return nil
}

// end releases on behalf of the application, and the first time it gives goroutines
// that have ended the time to return: see [survive.LetReturn].
func (h *handle) end() {
	if h == nil || h.refused != nil {
		return
	}
	h.release()
	if !h.ended.Swap(true) {
		survive.LetReturn()
	}
}

// release gives the claim up, once, and waits until that is done.
func (h *handle) release() {
	deadline := time.Now().Add(stopPatience)
	if h.deadline.CompareAndSwap(nil, &deadline) {
		h.unwatch()
		go h.leave()
	}
	survive.Await(h.left, *h.deadline.Load())
	s := h.session
	if !s.ended.Load() {
		return // others hold on to it
	}
	// The handle that left last, and flushes, may be another: its time counts, so
	// that a late call neither cuts its export short nor returns before it.
	if s.deadline.Before(deadline) {
		deadline = s.deadline
	}
	if !survive.Await(s.closed, deadline) && deadline.Equal(s.deadline) {
		// The provider is stuck. Should it come round and collect once more, that would
		// show what happened after this Stop: it is given nothing.
		s.collector.silent.Store(true)
	}
}

// leave gives the claim up. The last one closes the process-wide state.
func (h *handle) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), flushPatience)
	defer cancel()
	if h.loop != nil {
		h.loop.Stop(loopPatience)
	}
	last := h.session.drop(h.loop, *h.deadline.Load())
	close(h.left)
	if last {
		h.session.close(ctx)
	}
}
