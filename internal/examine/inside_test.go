package examine

import (
	"context"
	"errors"
	"time"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/sites"
)

// Profile has a window end in which a cause held, lets meanwhile run, which gets a
// channel that is closed when no profile is being taken, and ends the next window.
func (e *Examiner) Profile(cause diagnosis.Cause, meanwhile func(taken <-chan struct{})) (found []sites.Site, where string) {
	now := time.Now()
	e.makeReader()
	e.Profiles.endWindow(e.reader, &e.found, cause, now)
	taken := make(chan struct{})
	if begun := e.Profiles.done.Load(); begun != nil {
		taken = *begun
	} else {
		close(taken)
	}
	meanwhile(taken)
	<-taken
	now = now.Add(time.Second)
	e.Profiles.endWindow(e.reader, &e.found, cause, now)
	return e.Of(cause, now)
}

// BeginProfile begins a profile of the processor, and returns what is closed when it
// is over.
func (e *Examiner) BeginProfile() <-chan struct{} {
	e.Profiles.takeProcessor()
	return *e.Profiles.done.Load()
}

// PanicInProfile has the next profile of the processor panic.
func (e *Examiner) PanicInProfile(with string) {
	e.Profiles.processor = func(context.Context) ([]sites.Site, []byte, error) { panic(with) }
}

// Refuse has the open window be one in which a look was asked for and refused.
func (e *Examiner) Refuse(why string) {
	e.asked, e.refused = true, errors.New(why)
}
