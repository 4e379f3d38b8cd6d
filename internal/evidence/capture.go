package evidence

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gym-observer/observer/internal/monotonic"
	"github.com/gym-observer/observer/internal/survive"
)

// Settings are where, when and how much is captured.
type Settings struct {
	Directory  string        // absolute
	Lag        time.Duration // of one sample, past which it is worth a capture
	Cooldown   time.Duration // between the beginnings of two captures
	Budget     int64         // bytes, of all captures
	Goroutines int           // above which no trace is kept
}

// DefaultsFor are the settings of a capture into a directory that says no more.
func DefaultsFor(directory string) *Settings {
	return &Settings{
		Directory: directory,
		Lag:       time.Second,
		Cooldown:  10 * time.Minute,
		Budget:    256 << 20,
		// Up to here a trace costs at most 2 % of a core where goroutines are idle: see
		// observer.WithCaptureGoroutines.
		Goroutines: 20_000,
	}
}

// Capture writes evidence in the background, one folder at a time. A nil one captures
// nothing. Its methods are safe for concurrent use.
type Capture struct {
	settings Settings
	failed   func(cause string, err error) // called with each outcome, also with no error
	recorder recorder                      // nil where there is no trace
	write    func(c *Capture, now time.Time, reason string, files []File) error

	busy      atomic.Bool
	adjusting atomic.Bool
	last      atomic.Int64 // when the last capture began, on the monotonic clock; 0 before the first
	writing   sync.WaitGroup

	mu    sync.Mutex // guards ended, and additions to writing
	ended bool       // nothing begins any more
}

// recorder is a [Recorder]. Called by its own name, it would be in every binary that
// may capture, and runtime/trace with it.
type recorder interface {
	Adjust() error
	Recording() bool
	File(name string) File
	Stop()
}

// Start starts to record, until [Capture.End]. An error says why there is no trace; the
// rest will be captured. What goes wrong later is told to failed, which may be called
// from any goroutine, and with a nil error where a capture went well.
//
// Start alone leads to the recording and the writing: what those take, runtime/pprof
// above all, is in no binary that does not call it.
func Start(settings *Settings, failed func(cause string, err error)) (*Capture, error) {
	c := newCapture(settings, failed)
	recorder, err := Record(settings.Goroutines)
	if err == nil {
		c.recorder = recorder
	}
	return c, err
}

// newCapture returns one that has no trace.
func newCapture(settings *Settings, failed func(cause string, err error)) *Capture {
	return &Capture{settings: *settings, failed: failed, write: (*Capture).writeFolder}
}

// Directory is where captures are, or nothing where there are none.
func (c *Capture) Directory() string {
	if c == nil {
		return ""
	}
	return c.settings.Directory
}

// IsLate reports whether the lag of a sample is worth a capture.
func (c *Capture) IsLate(lag time.Duration) bool { return c != nil && lag > c.settings.Lag }

// Begin captures in the background, unless a capture is under way or the last
// was too short a time ago. The files are what the folder has beside the trace and
// the goroutines.
func (c *Capture) Begin(reason string, files ...File) {
	if c == nil {
		return
	}
	now := monotonic.Now()
	last := time.Duration(c.last.Load())
	if last != 0 && now-last < c.settings.Cooldown || !c.busy.CompareAndSwap(false, true) {
		return
	}
	c.last.Store(int64(now))
	c.work(func() {
		defer c.busy.Store(false)
		var err error
		defer func() { c.failed("capturing evidence", err) }()
		defer survive.Catch(&err)
		err = c.write(c, time.Now(), reason, files)
	})
}

// Watch sees to it that there is a trace as long as there are few enough
// goroutines. It works in the background: to stop a trace of 200,000 goroutines
// takes a while.
func (c *Capture) Watch() {
	if c == nil || c.recorder == nil || !c.adjusting.CompareAndSwap(false, true) {
		return
	}
	c.work(func() {
		defer c.adjusting.Store(false)
		var err error
		defer func() { c.failed("recording a trace", err) }()
		defer survive.Catch(&err)
		err = c.recorder.Adjust()
	})
}

// work works in the background, unless the end has come: a sampler that Stop could
// not wait for may still want to.
func (c *Capture) work(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.writing.Go(do)
	}
}

// End stops to record when a capture under way is done, and closes the channel
// that it returns.
func (c *Capture) End() (ended <-chan struct{}) {
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

// Wait waits until nothing is captured. Nobody may begin meanwhile.
func (c *Capture) Wait() { c.writing.Wait() }

// writeFolder writes one folder and removes those past the budget.
func (c *Capture) writeFolder(now time.Time, reason string, files []File) error {
	var all []File
	if c.recorder != nil && c.recorder.Recording() {
		all = append(all, c.recorder.File("trace.out"))
	}
	all = append(all, Goroutines("goroutines.txt"))
	name := Name{At: now, Reason: reason, Process: os.Getpid()}
	return errors.Join(
		Write(c.settings.Directory, name, append(all, files...)...),
		Prune(c.settings.Directory, c.settings.Budget),
	)
}
