package examine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/sites"
	"github.com/gym-observer/observer/internal/sites/profile"
	"github.com/gym-observer/observer/internal/survive"
)

// profilesApart is the least time between two profiles of the processor, while each
// of which /debug/pprof/profile answers 500.
const profilesApart = 10 * time.Minute

// Profiles takes the profiles of the heap and of the processor, for the causes that
// snapshots of the goroutines say nothing of. [NewProfiles] alone leads to its
// functions, so that what they need is in no binary that does not call it: whoever
// calls package profile by name has it in all.
type Profiles struct {
	beginAllocated func() error
	allocated      func(*sites.Reader) ([]sites.Site, error) // since beginAllocated
	inUse          func(*sites.Reader) ([]sites.Site, error)
	processor      func(context.Context) (found []sites.Site, profile []byte, err error)

	counting bool      // allocations, in the open window
	began    time.Time // the last profile of the processor
	last     []byte    // which it was; nil while it is being taken

	// Stop waits for them, while a loop that it could not wait for may still run.
	ctx    context.Context
	cancel context.CancelFunc
	done   atomic.Pointer[chan struct{}] // closed when the profile that is being taken is there; nil for none
	taken  atomic.Pointer[takenProfile]
}

type takenProfile struct {
	sites   []sites.Site
	profile []byte
	err     error
}

// NewProfiles returns what takes profiles, of a process whose functions have some
// marks; used is the processor time of the process so far, or nil where it is not known.
func NewProfiles(marks sites.Marks, used func() time.Duration) *Profiles {
	allocations := new(profile.Allocations)
	p := &Profiles{
		beginAllocated: allocations.Begin,
		allocated:      allocations.Sites,
		inUse:          profile.InUse,
		processor: func(ctx context.Context) ([]sites.Site, []byte, error) {
			return profile.Processor(ctx, sites.NewReader(sites.ReadBuild(), marks), used)
		},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// profiled reports whether a profile shows where a cause is.
func profiled(cause diagnosis.Cause) bool {
	switch cause {
	case diagnosis.GC, diagnosis.Memory:
		return true
	}
	return ofProcessor(cause)
}

var causesOfProcessor = [...]diagnosis.Cause{diagnosis.CPUSaturated, diagnosis.CPUContended, diagnosis.CPUThrottled, diagnosis.StopTheWorld}

func ofProcessor(cause diagnosis.Cause) bool { return slices.Contains(causesOfProcessor[:], cause) }

// endWindow keeps what was found for a window's first cause, and begins what is to
// be found in the next.
func (p *Profiles) endWindow(reader *sites.Reader, found *found, first diagnosis.Cause, now time.Time) {
	if taken := p.taken.Swap(nil); taken != nil {
		p.last = taken.profile
		// One profile says the same for all of them, and on a crowded machine they take
		// turns: the verdict may be another than the cause that it was taken for.
		for _, cause := range causesOfProcessor {
			found.keep(cause, now, taken.sites, taken.err)
		}
	}
	if p.counting {
		all, err := p.allocated(reader)
		found.keep(diagnosis.GC, now, all, err)
		p.counting = false
	}
	recent := found.recently(first, now)
	switch {
	case first == diagnosis.GC && !recent:
		if err := p.beginAllocated(); err != nil {
			found.keep(first, now, nil, err)
		} else {
			p.counting = true
		}
	case first == diagnosis.Memory && !recent:
		all, err := p.inUse(reader)
		found.keep(first, now, all, err)
	case ofProcessor(first) && !p.busy() && (p.began.IsZero() || now.Sub(p.began) >= profilesApart):
		p.began, p.last = now, nil
		p.takeProcessor()
	}
}

// next says when the next profile of the processor is due, where the last one is of an
// older incident; nothing while one is being taken.
func (p *Profiles) next(now time.Time) string {
	wait := profilesApart - now.Sub(p.began)
	if p.began.IsZero() || wait <= 0 || p.busy() || p.taken.Load() != nil {
		return ""
	}
	return fmt.Sprintf("the next profile of the processor, which would name the line, is due in %.0f min", math.Ceil(wait.Minutes()))
}

// takeProcessor profiles the processor, beside the sampling: it takes seconds.
func (p *Profiles) takeProcessor() {
	done := make(chan struct{})
	p.done.Store(&done)
	go func() {
		defer close(done)
		taken := new(takenProfile)
		defer p.taken.Store(taken)
		defer survive.Catch(&taken.err)
		taken.sites, taken.profile, taken.err = p.processor(p.ctx)
	}()
}

func (p *Profiles) busy() bool {
	done := p.done.Load()
	if done == nil {
		return false
	}
	select {
	case <-*done:
		return false
	default:
		return true
	}
}

// stop ends a profile that is being taken, and waits for its end until a deadline.
func (p *Profiles) stop(deadline time.Time) {
	p.cancel()
	done := p.done.Load()
	if done == nil {
		return
	}
	survive.Await(*done, deadline)
}
