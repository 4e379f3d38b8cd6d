package evidence

import (
	"errors"
	"io"
	"runtime"
	"runtime/trace"
	"sync"
	"time"
)

const (
	// The recorder keeps this much of the past, or what fits in so many bytes: a
	// busy process writes a few mebibytes of trace a second.
	traceAge   = 10 * time.Second
	traceBytes = 16 << 20
)

// Recorder keeps the execution trace of the last seconds, as long as there are not
// too many goroutines: each second of a trace begins with the state of all of
// them, also of those that do nothing. A nil one keeps nothing.
type Recorder struct {
	most int // goroutines from which on nothing is recorded

	mu     sync.Mutex            // a FlightRecorder must not be started, read and stopped at once
	flight *trace.FlightRecorder // nil while nothing is recorded
	enough int                   // it begins where there are at most so many goroutines; 0 when it never shall again
}

// Record starts to record, unless there are more than most goroutines now. An
// error says why it cannot: Go runs one flight recorder at a time, and an
// application that has one of its own is left alone.
func Record(most int) (*Recorder, error) {
	r := &Recorder{most: most, enough: most}
	return r, r.Adjust()
}

// Adjust stops to record where there have come to be too many goroutines, and goes
// on where half of them are gone: at the very bound it would start and stop again
// and again, and have seconds of trace each time. It returns an error once where
// it cannot record.
func (r *Recorder) Adjust() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	goroutines := runtime.NumGoroutine()
	switch {
	case r.flight != nil && goroutines > r.most:
		r.flight.Stop()
		r.flight, r.enough = nil, r.most/2
	case r.flight == nil && goroutines <= r.enough:
		flight := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: traceAge, MaxBytes: traceBytes})
		if err := flight.Start(); err != nil {
			r.enough = 0
			return err
		}
		r.flight = flight
	}
	return nil
}

// Recording says whether there is a trace.
func (r *Recorder) Recording() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flight != nil
}

// File is a file with the trace.
func (r *Recorder) File(name string) File {
	return File{name, func(w io.Writer) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.flight == nil {
			return errors.New("nothing is recorded any more")
		}
		_, err := r.flight.WriteTo(w)
		return err
	}}
}

// Stop stops to record for good.
func (r *Recorder) Stop() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enough = 0
	if r.flight != nil {
		r.flight.Stop()
		r.flight = nil
	}
}
