package observer

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/evidence"
	"github.com/gym-observer/observer/internal/examine"
	"github.com/gym-observer/observer/internal/survive"
)

// WithMeterProvider exports through a provider of the application's own, which
// stays the application's to shut down; the last Stop only asks it to flush. It
// turns telemetry on, unless the environment switches it off. A nil provider
// counts as not given.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) {
		if survive.IsNil(p) {
			return
		}
		c.provider = p
		c.providerOptions++
	}
}

// WithProvider opens a provider when the first [Start] or [Acquire] of the
// process needs one, with its context, its loop name ("" for Acquire) and its
// settings, whose Logger is never nil. The last Stop calls shutdown, which may
// be nil. Open is called synchronously while other Starts wait, so it must
// neither block nor call Start.
//
// A nil provider with a nil error means that the environment leaves it off. An
// error, or a panic, is logged and kept in [Observer.Err]. Package export builds
// its options on this one. A nil function counts as not given.
func WithProvider(open func(ctx context.Context, loop string, s Settings) (p metric.MeterProvider, shutdown func(context.Context) error, err error)) Option {
	return func(c *config) {
		if open == nil {
			return
		}
		c.open = open
		c.providerOptions++
	}
}

// WithSampleInterval sets the mean time between two samples, from 1 ms to 1 h.
// Outside that, the default holds and a warning is logged.
func WithSampleInterval(d time.Duration) Option {
	return func(c *config) {
		if d < minSampleInterval || d > maxSampleInterval {
			c.notes.Add(slog.LevelWarn, "observer: the sample interval given in code is out of range, using the default",
				slog.Duration("given", d), slog.Duration("default", defaultSampleInterval))
			d = defaultSampleInterval
		}
		c.settings.SampleInterval = d
	}
}

// WithWindow sets the time over which [Diagnose] takes the load of each cause,
// 10 s by default, from 1 s to 1 h. Outside that, the default holds and a
// warning is logged. The first handle's holds for the process.
func WithWindow(d time.Duration) Option {
	return func(c *config) {
		if d < minWindow || d > maxWindow {
			c.notes.Add(slog.LevelWarn, "observer: the window given in code is out of range, using the default",
				slog.Duration("given", d), slog.Duration("default", defaultWindow))
			d = defaultWindow
		}
		c.window = d
		c.windowGiven = true
	}
}

// WithTaskCount exports the number of goroutines, counted at each sample.
func WithTaskCount(on bool) Option {
	return func(c *config) { c.settings.TaskCount = on }
}

// WithLogger sets where failures that are survived are logged. A nil logger
// counts as not given.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) {
		if l != nil {
			c.settings.Logger = l
			c.loggerGiven = true
		}
	}
}

// WithSites says whether snapshots of the goroutines are taken while a cause holds,
// so that [Diagnosis.Sites] names the lines of code where goroutines wait, and the
// verdict [CauseWait] can be given. It is on by default, and costs a process in which
// no cause holds nothing; a sick one up to 100 ms of CPU a window. The first
// handle's holds for the process.
func WithSites(on bool) Option {
	return func(c *config) { c.withoutSites = !on }
}

// WithProfiles has the profiles of the heap and of the processor taken, too, so that
// gc, memory and the causes of the processor have [Diagnosis.Sites]. [WithCapture]
// implies it. It turns the runtime's sampling of the heap on, as net/http/pprof does,
// and while a profile of the processor is taken, for at most 5 s and at most once in
// ten minutes, /debug/pprof/profile answers 500. Without it neither is in the binary. The first
// handle's holds for the process.
func WithProfiles() Option {
	return func(c *config) { c.profiles = examine.NewProfiles }
}

// captureSettings are what [WithCapture] was given.
type captureSettings evidence.Settings

// CaptureOption changes what [WithCapture] does. A nil one counts as not given.
type CaptureOption func(*captureSettings)

// WithCapture writes evidence into directory when the verdict becomes a cause that
// is logged as a warning (not downstream, admission, or a wait for another server or
// process, which are information), or when a sample's lag passes a threshold: a folder
// with the execution trace of the last seconds (trace.out, for go tool trace),
// the goroutines grouped by stack (goroutines.txt), the diagnosis (diagnosis.json)
// and its sites (sites.json), with the profile of the processor that they come from,
// where that is finished (cpu.pprof, for go tool pprof). Folders are named by time and cause, and are complete or
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
		c.startCapture = evidence.Start
		c.profiles = examine.NewProfiles
		// Here, which is in Start: a program that changes its working directory later
		// would leave its captures in two places. Where it has none, each capture says so.
		if absolute, err := filepath.Abs(directory); err == nil {
			directory = absolute
		}
		c.capture = evidence.DefaultsFor(directory)
		for _, option := range opts {
			if option != nil {
				option((*captureSettings)(c.capture))
			}
		}
	}
}

// WithCaptureLag sets the lag of one sample past which evidence is captured, 1 s
// by default. One that is not positive counts as not given.
func WithCaptureLag(d time.Duration) CaptureOption {
	return func(s *captureSettings) {
		if d > 0 {
			s.Lag = d
		}
	}
}

// WithCaptureCooldown sets the least time between two captures, 10 minutes by
// default. A negative one counts as not given.
func WithCaptureCooldown(d time.Duration) CaptureOption {
	return func(s *captureSettings) {
		if d >= 0 {
			s.Cooldown = d
		}
	}
}

// WithCaptureBudget sets how many bytes of captures are kept, 256 MiB by
// default: the oldest folder goes first, the newest stays in any case. One that
// is not positive counts as not given.
func WithCaptureBudget(bytes int64) CaptureOption {
	return func(s *captureSettings) {
		if bytes > 0 {
			s.Budget = bytes
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
			s.Goroutines = most
		}
	}
}
