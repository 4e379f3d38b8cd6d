package observer

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gym-observer/observer/internal/evidence"
	"github.com/gym-observer/observer/internal/monotonic"
)

const (
	defaultCaptureLag      = time.Second
	defaultCaptureCooldown = 10 * time.Minute
	defaultCaptureBudget   = 256 << 20

	// Up to here a trace costs at most 2 % of a core where goroutines are idle: see
	// WithCaptureGoroutines.
	defaultCaptureGoroutines = 20_000
)

// captureSettings are what WithCapture was given.
type captureSettings struct {
	directory string // absolute
	lag       time.Duration
	cooldown  time.Duration
	budget    int64

	goroutines int // above which no trace is kept
}

// CaptureOption changes what [WithCapture] does. A nil one counts as not given.
type CaptureOption func(*captureSettings)

// WithCapture writes evidence into directory when the verdict becomes a cause
// other than downstream, or when a sample's lag passes a threshold: a folder
// with the execution trace of the last seconds (trace.out, for go tool trace),
// the goroutines grouped by stack (goroutines.txt) and the diagnosis
// (diagnosis.json). Folders are named by time and cause, and are complete or
// absent. Only the user of the process may read them, whatever the umask: a trace
// holds the names of the application's functions and files, and the texts that it
// gives to package runtime/trace; goroutines are listed without their pprof labels.
// A directory that is not absolute is below the working directory of [Start].
//
// It keeps a [runtime/trace.FlightRecorder] running, which costs a server that
// does nothing else about a tenth of its throughput, and far less one that
// works. An application that records already is left alone: the folders then
// have no trace. Go runs one recorder at a time, so that an application that
// wants its own has to start that first. With many goroutines a trace costs too
// much, and none is kept: see [WithCaptureGoroutines].
//
// Nothing is captured twice within the cooldown, the oldest folders are removed
// past the budget, and a disk that fails is logged once. Whatever in the directory
// does not have exactly the name of a folder of ours is left alone: one that is
// renamed stays.
//
// It is off by default. An empty directory counts as not given; the first
// handle's holds for the process.
func WithCapture(directory string, opts ...CaptureOption) Option {
	return func(c *config) {
		if directory == "" {
			return
		}
		c.startCapture = startCapture
		c.profiles = newProfiles
		// Here, which is in Start: a program that changes its working directory later
		// would leave its captures in two places. Where it has none, each capture says so.
		if absolute, err := filepath.Abs(directory); err == nil {
			directory = absolute
		}
		c.capture = &captureSettings{
			directory:  directory,
			lag:        defaultCaptureLag,
			cooldown:   defaultCaptureCooldown,
			budget:     defaultCaptureBudget,
			goroutines: defaultCaptureGoroutines,
		}
		for _, option := range opts {
			if option != nil {
				option(c.capture)
			}
		}
	}
}

// WithCaptureLag sets the lag of one sample past which evidence is captured, 1 s
// by default. One that is not positive counts as not given.
func WithCaptureLag(d time.Duration) CaptureOption {
	return func(s *captureSettings) {
		if d > 0 {
			s.lag = d
		}
	}
}

// WithCaptureCooldown sets the least time between two captures, 10 minutes by
// default. A negative one counts as not given.
func WithCaptureCooldown(d time.Duration) CaptureOption {
	return func(s *captureSettings) {
		if d >= 0 {
			s.cooldown = d
		}
	}
}

// WithCaptureBudget sets how many bytes of captures are kept, 256 MiB by
// default: the oldest folder goes first, the newest stays in any case. One that
// is not positive counts as not given.
func WithCaptureBudget(bytes int64) CaptureOption {
	return func(s *captureSettings) {
		if bytes > 0 {
			s.budget = bytes
		}
	}
}

// WithCaptureGoroutines sets the number of goroutines above which no trace is
// kept, 20,000 by default: it starts again when half of them are gone. One that is
// not positive counts as not given.
//
// Each second of a trace begins with the state of every goroutine, also of those
// that do nothing. Idle goroutines, on two cores: 20,000 cost 1.6 % of a core and
// 24 MiB, 50,000 cost 4 % and 64 MiB, 200,000 cost 15 % and 240 MiB, and nothing
// above the bound.
func WithCaptureGoroutines(most int) CaptureOption {
	return func(s *captureSettings) {
		if most > 0 {
			s.goroutines = most
		}
	}
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
	c.writing.Go(func() {
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
	c.writing.Go(func() {
		defer c.adjusting.Store(false)
		var err error
		defer func() { c.failed("recording a trace", err) }()
		defer catch(&err)
		err = c.recorder.Adjust()
	})
}

// end stops to record when a capture under way is done, and closes the channel
// that it returns.
func (c *capture) end() (ended <-chan struct{}) {
	done := make(chan struct{})
	if c == nil {
		close(done)
		return done
	}
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
