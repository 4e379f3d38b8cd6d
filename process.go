package observer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/env"
	"github.com/gym-observer/observer/internal/examine"
	"github.com/gym-observer/observer/internal/observable"
	"github.com/gym-observer/observer/internal/page"
	"github.com/gym-observer/observer/internal/reading"
	"github.com/gym-observer/observer/internal/sites"
	"github.com/gym-observer/observer/internal/survive"
)

// session is the process-wide state: what runs between the first Start and the
// last Stop. Counters are not in it, since they outlive it: see totals.go.
type session struct {
	provider metric.MeterProvider
	shutdown func(context.Context) error // nil for a provider of the application's own
	failures *survive.Failures
	process  reading.Process

	loops     loops
	sampler   sampler
	collector collector

	instrumented chan struct{}       // closed when the instruments are made and the callback is registered, or that has failed
	registration metric.Registration // may be nil

	holders  int           // guarded by changing
	deadline time.Time     // of the last handle's release; set before ended
	ended    atomic.Bool   // the last handle has left
	closed   chan struct{} // closed when flushed, unregistered and shut down
}

var (
	// running is the session that observes this process; nil while none does.
	running atomic.Pointer[session]

	// starting holds a token while a Start or Acquire looks for the process-wide
	// state or sets it up, which calls the application's code: one at a time.
	starting = make(chan struct{}, 1)

	// changing guards the changes of running, and closing. No request, no callback
	// and no code of the application's runs with it.
	changing sync.Mutex
	closing  []*session // those that flush and have not been unregistered
)

// errBusy is the error of a Start that another one keeps waiting: that hangs
// while it opens its provider, or its log handler calls Start.
var errBusy = errors.New("observer: another Start is still opening its provider")

// enter has claim take hold of the session that runs, or of the one that setUp
// makes.
func enter(c *config, setUp func() (*session, error), claim func(*session)) (_ *session, err error) {
	select {
	case starting <- struct{}{}:
		defer func() { <-starting }()
	case <-time.After(startPatience):
		return nil, errBusy
	}
	changing.Lock()
	defer changing.Unlock()
	s := running.Load()
	if s != nil {
		c.noteIgnored(s)
	} else if s, err = unlocked(setUp); err != nil {
		return nil, err
	}
	s.holders++
	claim(s)
	running.Store(s)
	totals.driver.recorder.Store(s.sampler.recorder.Load())
	totals.observing.Store(true)
	return s, nil
}

// unlocked calls f without the lock, and takes it again also where f calls Goexit.
func unlocked(f func() (*session, error)) (*session, error) {
	changing.Unlock() // a Stop need not wait for the application's code
	defer changing.Lock()
	return f()
}

// noteIgnored notes what was given to a later handle and comes from the first.
func (c *config) noteIgnored(s *session) {
	var ignored []string
	if c.open != nil || c.provider != nil && !sameProvider(c.provider, s.provider) {
		ignored = append(ignored, "provider")
	}
	if c.windowGiven && c.window != s.sampler.windows.Every {
		ignored = append(ignored, "window")
	}
	if c.capture != nil {
		ignored = append(ignored, "capture")
	}
	if c.loggerGiven && c.settings.Logger != s.failures.Logger {
		ignored = append(ignored, "logger of the process")
	}
	if len(ignored) > 0 {
		c.notes.Add(slog.LevelInfo, "observer: already running, these options of a later handle are ignored", slog.Any("options", ignored))
	}
}

// setUp makes a session; the token of starting is held, the lock is not.
func setUp(ctx context.Context, loopName string, c *config) (*session, error) {
	provider, shutdown, err := c.findProvider(ctx, loopName)
	if err != nil {
		return nil, err
	}
	s := newSession(provider, shutdown, c)
	if c.capture != nil {
		if s.sampler.capture, err = c.startCapture(c.capture, s.failures.Report); err != nil {
			c.notes.Add(slog.LevelWarn, "observer: captures will have no trace", slog.Any("error", err))
		}
	}
	before := flushingOver(provider)
	_, late, err := survive.Within(setUpPatience, func() (struct{}, error) { return struct{}{}, s.instrument(before) })
	switch {
	case late != nil:
		go func() { s.failures.Report("making instruments", (<-late).Err) }()
	case s.sampler.recorder.Load() == nil:
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushPatience)
			defer cancel()
			s.close(ctx)
		}()
		return nil, fmt.Errorf("observer: making instruments: %w", err)
	case err != nil:
		c.notes.Add(slog.LevelWarn, "observer: some instruments could not be made, the others are", slog.Any("error", err))
	}
	return s, nil
}

// newSession makes a session that does nothing yet.
func newSession(provider metric.MeterProvider, shutdown func(context.Context) error, c *config) *session {
	s := &session{
		provider:     provider,
		shutdown:     shutdown,
		failures:     &survive.Failures{Logger: c.settings.Logger},
		process:      reading.NewProcess(),
		instrumented: make(chan struct{}),
		closed:       make(chan struct{}),
	}
	s.sampler.failures = s.failures
	s.sampler.windows = windowsOf(c.window, s.process, s.failures.Report)
	s.sampler.history = page.NewRecorder(lagEdges)
	s.sampler.examiner = examine.Examiner{Off: c.withoutSites, Marks: sites.MarksOf(scopeName)}
	if c.profiles != nil && !c.withoutSites {
		s.sampler.examiner.Profiles = c.profiles(s.sampler.examiner.Marks, cpuTimeOf(s.process))
	}
	s.sampler.gc.noticeCollection()
	s.collector.failures, s.collector.process = s.failures, s.process
	s.collector.loops, s.collector.sampler = &s.loops, &s.sampler
	return s
}

// cpuTimeOf is how much CPU time the process has used; what cannot be read is none.
func cpuTimeOf(process reading.Process) func() time.Duration {
	return func() time.Duration {
		user, system, _ := process.CPUTime()
		return time.Duration((user + system) * float64(time.Second))
	}
}

// flushingOver returns the sessions that still flush over a provider.
func flushingOver(provider metric.MeterProvider) (before []*session) {
	changing.Lock()
	defer changing.Unlock()
	for _, other := range closing {
		if sameProvider(other.provider, provider) {
			before = append(before, other)
		}
	}
	return before
}

// instrument makes the instruments and registers the callback, in the place of
// those before, which still flush over the same provider. It blocks while the
// provider runs other callbacks.
func (s *session) instrument(before []*session) (err error) {
	defer close(s.instrumented)
	defer survive.Catch(&err)
	meter := s.provider.Meter(scopeName, metric.WithInstrumentationVersion(env.VersionOf(scopeName)))
	histograms, err1 := newHistograms(meter, s.failures)
	s.recordTo(newRecorder(histograms))
	observables, err2 := observable.Rows(meter, sources)
	s.collector.observables = observables
	var registered []metric.Observable
	for _, row := range observables {
		registered = append(registered, row.Instrument())
	}
	// Two callbacks on one provider would add their totals up. But none at all, for
	// one collection, would give a delta reader the whole totals again.
	for _, other := range before {
		other.collector.silent.Store(true)
	}
	// A callback for all: with one each, every one would fetch the runtime's
	// metrics anew.
	registration, err3 := meter.RegisterCallback(s.collector.collect, registered...)
	s.registration = registration
	return errors.Join(err1, err2, err3)
}

// recordTo has samplers and rollouts record, as long as the session runs.
func (s *session) recordTo(to *recorder) {
	changing.Lock()
	defer changing.Unlock()
	s.sampler.recorder.Store(to)
	if running.Load() == s {
		totals.driver.recorder.Store(to)
	}
}

// drop gives one claim up, with its loop if it has one, and reports whether it was
// the last. The deadline is that of the release.
func (s *session) drop(l *loop, deadline time.Time) (last bool) {
	changing.Lock()
	defer changing.Unlock()
	seeWork(false) // the next oldest loop will look often, if there is one
	s.holders--
	if s.holders == 0 {
		totals.observing.Store(false)
		totals.driver.recorder.Store(nil)
		running.Store(nil)
		closing = append(closing, s)
		s.deadline = deadline
		s.loops.End()
		s.ended.Store(true)
		return true // the loop stays listed: its task count belongs to the last export
	}
	if l != nil && s.loops.Remove(l) {
		s.sampler.diagnosed.Store(nil)
	}
	return false
}

// current is what Diagnose returns of this process.
func (s *session) current() Diagnosis {
	if len(s.loops.All()) == 0 {
		return Diagnosis{Summary: "nothing samples this process: the diagnosis needs an observer.Start"}
	}
	return s.sampler.current()
}

// close hands the last export to the provider and lets go of it. Each step is
// taken whatever became of the one before. No lock is held: a provider may take
// its time, or call this package.
func (s *session) close(ctx context.Context) {
	defer close(s.closed)
	s.sampler.examiner.Stop(s.deadline)
	captured := s.sampler.capture.End() // before the flush: a Start that does not wait for it wants to record
	<-s.instrumented
	to := s.sampler.recorder.Load()
	if to != nil {
		to.PassOn(passOnPatience)
	}
	if provider, ok := s.provider.(interface{ ForceFlush(context.Context) error }); ok {
		s.attempt("flushing the provider", func() error { return provider.ForceFlush(ctx) })
	}

	select {
	case <-captured:
	case <-ctx.Done():
	}

	changing.Lock()
	closing = slices.DeleteFunc(closing, func(other *session) bool { return other == s })
	s.collector.silent.Store(true) // before another Start can register on the same provider
	changing.Unlock()

	if to != nil { // what the flush collected has been passed on
		to.Stop(s.deadline)
	}
	s.process.Close()
	if s.registration != nil {
		s.attempt("unregistering", s.registration.Unregister)
	}
	if s.shutdown != nil {
		s.attempt("shutting the provider down", func() error { return s.shutdown(ctx) })
	}
}

// attempt calls into the provider and reports what comes of it: a panic, a Goexit
// and a call that does not return, too, none of which leaves out the next steps. A
// flush that hangs for ever must not keep the callback registered.
func (s *session) attempt(what string, call func() error) {
	patience := max(time.Until(s.deadline), stepPatience)
	_, _, err := survive.Within(patience, func() (struct{}, error) { return struct{}{}, call() })
	s.failures.Report(what, err)
}
