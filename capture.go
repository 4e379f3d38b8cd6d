package observer

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gym-observer/observer/internal/evidence"
	"github.com/gym-observer/observer/internal/monotonic"
)

// captureSettings are what WithCapture was given.
type captureSettings struct {
	directory string // absolute
	lag       time.Duration
	cooldown  time.Duration
	budget    int64

	goroutines int // above which no trace is kept
}

// capture writes evidence. A nil one captures nothing.
type capture struct {
	captureSettings
	failed   func(cause string, err error)
	recorder traceRecorder // nil where there is no trace
	write    func(c *capture, now time.Time, reason string, diagnosis Diagnosis, files ...evidence.File) error

	busy      atomic.Bool
	adjusting atomic.Bool
	last      atomic.Int64 // when the last capture began, on the monotonic clock; 0 before the first
	writing   sync.WaitGroup

	mu    sync.Mutex // guards ended, and additions to writing
	ended bool       // nothing begins any more
}

// traceRecorder is an [evidence.Recorder]. Called by its own name, it would be in
// every binary, and runtime/trace with it.
type traceRecorder interface {
	Adjust() error
	Recording() bool
	File(name string) evidence.File
	Stop()
}

// startCapture starts to record. An error says why there is no trace; the rest
// will be captured.
//
// WithCapture alone leads here, and here alone to the recording and the writing:
// what those take, runtime/pprof above all, is in no binary without WithCapture.
func startCapture(settings *captureSettings, failed func(cause string, err error)) (*capture, error) {
	c := newCapture(settings, failed)
	recorder, err := evidence.Record(settings.goroutines)
	if err == nil {
		c.recorder = recorder
	}
	return c, err
}

// newCapture returns one that has no trace.
func newCapture(settings *captureSettings, failed func(cause string, err error)) *capture {
	return &capture{captureSettings: *settings, failed: failed, write: (*capture).writeFolder}
}

// begin captures in the background, unless a capture is under way or the last
// was too short a time ago. The files are what the folder has beside the trace, the
// goroutines and the diagnosis.
func (c *capture) begin(reason string, diagnosis Diagnosis, files ...evidence.File) {
	if c == nil {
		return
	}
	now := monotonic.Now()
	last := time.Duration(c.last.Load())
	if last != 0 && now-last < c.cooldown || !c.busy.CompareAndSwap(false, true) {
		return
	}
	c.last.Store(int64(now))
	c.work(func() {
		defer c.busy.Store(false)
		var err error
		defer func() { c.failed("capturing evidence", err) }()
		defer catch(&err)
		err = c.write(c, time.Now(), reason, diagnosis, files...)
	})
}

// watch sees to it that there is a trace as long as there are few enough
// goroutines. It works in the background: to stop a trace of 200,000 goroutines
// takes a while.
func (c *capture) watch() {
	if c == nil || c.recorder == nil || !c.adjusting.CompareAndSwap(false, true) {
		return
	}
	c.work(func() {
		defer c.adjusting.Store(false)
		var err error
		defer func() { c.failed("recording a trace", err) }()
		defer catch(&err)
		err = c.recorder.Adjust()
	})
}

// work works in the background, unless the end has come: a sampler that Stop could
// not wait for may still want to.
func (c *capture) work(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.writing.Go(do)
	}
}

// end stops to record when a capture under way is done, and closes the channel
// that it returns.
func (c *capture) end() (ended <-chan struct{}) {
	done := make(chan struct{})
	if c == nil {
		close(done)
		return done
	}
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	go func() {
		defer close(done)
		c.writing.Wait()
		if c.recorder != nil {
			c.recorder.Stop()
		}
	}()
	return done
}

// writeFolder writes one folder and removes those past the budget.
func (c *capture) writeFolder(now time.Time, reason string, diagnosis Diagnosis, files ...evidence.File) error {
	var all []evidence.File
	if c.recorder != nil && c.recorder.Recording() {
		all = append(all, c.recorder.File("trace.out"))
	}
	all = append(all, evidence.Goroutines("goroutines.txt"), evidence.JSON("diagnosis.json", diagnosis))
	if len(diagnosis.Sites) > 0 {
		all = append(all, evidence.JSON("sites.json", diagnosis.Sites))
	}
	name := evidence.Name{At: now, Reason: reason, Process: os.Getpid()}
	return errors.Join(
		evidence.Write(c.directory, name, append(all, files...)...),
		evidence.Prune(c.directory, c.budget),
	)
}
