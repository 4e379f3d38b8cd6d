package observer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/env"
	"github.com/gym-observer/observer/internal/evidence"
	"github.com/gym-observer/observer/internal/examine"
	"github.com/gym-observer/observer/internal/sites"
	"github.com/gym-observer/observer/internal/survive"
)

const (
	defaultSampleInterval = 100 * time.Millisecond
	minSampleInterval     = time.Millisecond // below it, sampling would be a load of its own
	maxSampleInterval     = time.Hour

	defaultWindow = 10 * time.Second
	minWindow     = time.Second // below it, a handful of samples would decide
	maxWindow     = time.Hour
)

// Settings are what a handle observes with: options over the environment over
// the defaults.
type Settings struct {
	SampleInterval time.Duration // between two samples, on average; 100 ms by default
	TaskCount      bool          // count goroutines at each sample; off by default
	Logger         *slog.Logger  // receives the failures that are survived; slog.Default() by default
}

// Option changes what [Start] and [Acquire] do. A nil Option counts as not given.
type Option func(*config)

// openProvider is the argument of WithProvider.
type openProvider func(ctx context.Context, loop string, s Settings) (metric.MeterProvider, func(context.Context) error, error)

// config is what the options and the environment come to.
type config struct {
	settings Settings
	provider metric.MeterProvider // of WithMeterProvider
	open     openProvider         // of the last WithProvider
	window   time.Duration        // of the diagnosis

	withoutSites bool
	profiles     func(sites.Marks, func() time.Duration) *examine.Profiles // nil without WithProfiles and WithCapture

	capture      *evidence.Settings // nil for no capture
	startCapture func(*evidence.Settings, func(cause string, err error)) (*evidence.Capture, error)

	// What was given, for the log lines about what is ignored.
	providerOptions int
	windowGiven     bool
	loggerGiven     bool

	notes survive.Notes // wait until the handle is made: the log handler may call this package
}

// resolve puts the options over the environment over the defaults. It does not
// fail: what cannot be used is replaced by its default, with a note.
func resolve(options []Option) *config {
	c := &config{settings: Settings{Logger: slog.Default()}, window: defaultWindow}
	interval, err := env.Gym("EVENT_LOOP_SAMPLE_INTERVAL_SECONDS").Seconds(minSampleInterval, maxSampleInterval, defaultSampleInterval)
	c.noteUnusable(err)
	c.settings.SampleInterval = interval
	taskCount, err := env.Gym("EVENT_LOOP_TASK_COUNT").Bool(false)
	c.noteUnusable(err)
	c.settings.TaskCount = taskCount
	for _, option := range options {
		if option != nil {
			option(c)
		}
	}
	if c.providerOptions > 1 {
		c.notes.Add(slog.LevelInfo, "observer: several providers are given; WithMeterProvider holds over the others, else the last one",
			slog.Int("given", c.providerOptions))
	}
	return c
}

// switchedOff returns an error that wraps ErrOff where the environment switches
// telemetry off, whatever the code says.
func (c *config) switchedOff() error {
	if v := env.Standard("OTEL_SDK_DISABLED"); strings.EqualFold(v.Text, "true") {
		return fmt.Errorf("%w: %s is true", ErrOff, v.Name)
	} else if v.Set() && !strings.EqualFold(v.Text, "false") {
		// OpenTelemetry knows no other word, and leaves the SDK on.
		c.noteUnusable(fmt.Errorf("%s is %.100q, want true or false", v.Name, v.Text))
	}
	for _, suffix := range []string{"ENABLED", "METRICS_ENABLED"} {
		v := env.Gym(suffix)
		on, err := v.Bool(true)
		c.noteUnusable(err)
		if !on {
			return fmt.Errorf("%w: %s is %s", ErrOff, v.Name, v.Text)
		}
	}
	return nil
}

// noteUnusable notes a variable that could not be used; err names it and its
// value.
func (c *config) noteUnusable(err error) {
	if err != nil {
		c.notes.Add(slog.LevelWarn, "observer: a setting cannot be used, using its default", slog.Any("error", err))
	}
}

var (
	// ErrOff is why a handle does not observe when telemetry is off.
	ErrOff = errors.New("observer: telemetry is off")

	// ErrStopped is why a handle does not observe after Stop, or after the end
	// of its context.
	ErrStopped = errors.New("observer: stopped")
)
