// Package observer shows what is slowing a Go server down. It measures how late
// the scheduler runs goroutines, the collector's pauses, the process, the
// requests that the server serves and makes, and the rollouts that a driver
// admits, and exports them over OpenTelemetry under the names of NeMo Gym's
// Python processes, so that both show on one dashboard.
//
// One line in main begins it:
//
//	defer observer.Start(context.Background(), "server", export.FromEnv()).Stop()
//
// Three wrappers feed it. They may be made before Start, and pass through while
// nothing observes:
//
//	server := &http.Server{Handler: observer.Middleware(mux)}
//	client := &http.Client{Transport: observer.Transport(nil)}
//	admission := observer.NewMeteredAdmission(semaphore.NewWeighted(64))
//
// # Turning it on
//
// Telemetry is on where [WithMeterProvider] is given, where the environment
// names an exporter and [WithProvider] (which package export implements) is
// given, or where the application has installed a global provider. Otherwise
// Start does nothing but log how to turn it on. OTEL_SDK_DISABLED=true and
// NEMO_GYM_OTEL_ENABLED=false turn it off whatever the code says.
//
// # What it promises
//
// It never stops or slows the server: no function here panics, blocks or takes
// a lock on a request's path. What goes wrong is logged, once per cause, and
// swallowed. And every number is true: what cannot be read is left out, never
// replaced by a zero, and totals never go down while the process lives.
//
// # Finding your way
//
// The catalogue in internal/catalogue lists every signal with its unit, meaning and
// advice. Each is observed in one place: collection.go for what the exporter
// reads, scheduler.go and gc.go for what is sampled, driver.go and admission.go
// for what is recorded as it happens.
package observer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/diagnosis"
)

const (
	// setUpPatience is how long Start waits for the provider to make instruments.
	// The SDK makes none while a callback runs, and another's may hang; the work
	// then goes on in the background.
	setUpPatience = 100 * time.Millisecond

	// A Stop returns within 3 s whatever the provider does. The provider is told
	// to be done a little earlier, so that one which obeys can clean up.
	stopPatience  = 2800 * time.Millisecond
	flushPatience = 2500 * time.Millisecond

	// startPatience is how long a Start waits for another one.
	startPatience = 3 * time.Second

	// loopPatience is the part of it that a stuck sampler may use up.
	loopPatience = 500 * time.Millisecond
)

var (
	// running is what observes this process; nil while nothing does. It is the
	// one thing that a request or a rollout looks at.
	running atomic.Pointer[process]

	// starting holds a token while a Start or Acquire looks for the process-wide
	// state or sets it up, which calls the application's code: one at a time.
	starting = make(chan struct{}, 1)

	// mu guards the changes of running, and closing. No request, no callback and no
	// code of the application's runs with it.
	mu      sync.Mutex
	closing []*process // those that flush and have not been unregistered
)

// errBusy is the error of a Start that another one keeps waiting: that hangs
// while it opens its provider, or its log handler calls Start.
var errBusy = errors.New("observer: another Start is still opening its provider")

// errGoexit stands for the outcome of application code that ended its goroutine.
var errGoexit = errors.New("runtime.Goexit was called")

// Observer is what [Start] returns: one event loop's claim on the process-wide
// state. Its methods are safe for concurrent use and on a nil pointer.
type Observer struct{ handle *handle }

// Start observes this process, and the scheduler under the name loop, until
// [Observer.Stop] or the end of ctx. The name becomes an attribute, so it must
// come from a fixed set, such as "server" or "driver"; it may be empty. A nil
// ctx counts as context.Background(), and a nil option as not given.
//
// The context that a signal ends is the wrong one for main: the drain after the
// signal is worth observing.
//
// Start never returns nil, never blocks and never panics. Where telemetry is
// off, or its provider could not be opened, it logs one line, and
// [Observer.Err] says why. It may be called for several loops: they share the
// process-wide state, whose provider and logger are the first one's.
func Start(ctx context.Context, loop string, opts ...Option) *Observer {
	return &Observer{acquire(ctx, &loop, opts)}
}

// Stop takes a last sample and, if this is the last handle of the process, asks
// the provider to flush, unregisters from it, and shuts it down if it was
// opened for [WithProvider]. It returns within 3 s whatever the provider does.
//
// It may be called again: while a Stop is under way, also the one that the end
// of the context began, it waits for that one within the same 3 s, so that main
// does not exit before the last export; afterwards it returns at once. Totals
// survive it: they go on from where they were after another Start. Only a delta
// reader that collects in between is given the whole of them once more: the SDK
// forgets what has no point.
func (o *Observer) Stop() {
	if o != nil {
		o.handle.release()
	}
}

// Err returns nil while this handle observes, also where a part of it failed,
// which is logged. Otherwise it wraps [ErrOff] where telemetry is off, the
// cause where the provider could not be opened, or [ErrStopped] after Stop and
// after the end of the context. On nil it is ErrOff.
func (o *Observer) Err() error {
	if o == nil {
		return ErrOff
	}
	return o.handle.status()
}

// Settings returns what this handle observes with: options over the environment
// over the defaults. On nil it is the zero value.
func (o *Observer) Settings() Settings {
	if o == nil || o.handle == nil {
		return Settings{}
	}
	return o.handle.settings
}

// Process is what [Acquire] returns: a claim on the process-wide state.
type Process struct{ handle *handle }

// Acquire observes this process without a sampler, hence without lag, run queue
// and pauses, until [Process.Release] or the end of ctx. It is for a program
// that has counters to export and no loop to watch. A nil Process comes with
// the error that [Observer.Err] would return; telemetry that is off is one.
func Acquire(ctx context.Context, opts ...Option) (*Process, error) {
	h := acquire(ctx, nil, opts)
	if err := h.status(); err != nil {
		h.release()
		return nil, err
	}
	return &Process{h}, nil
}

// Release does what [Observer.Stop] does. It may be called again, and on nil.
func (p *Process) Release() {
	if p != nil {
		p.handle.release()
	}
}

// handle is one claim on the process-wide state.
type handle struct {
	ctx      context.Context
	settings Settings
	refused  error // why it never observed; the fields below are then unset

	process  *process
	loop     *loop // nil for Acquire
	unwatch  func() bool
	deadline atomic.Pointer[time.Time] // of the first release; nil before it
	left     chan struct{}             // closed when it has left the process
}

// acquire makes a handle, with a sampler unless loopName is nil.
func acquire(ctx context.Context, loopName *string, options []Option) *handle {
	c := resolve(options)
	h := &handle{ctx: contextOrBackground(ctx), settings: c.settings, left: make(chan struct{})}
	h.refused = h.join(c, loopName)
	switch {
	case errors.Is(h.refused, ErrOff):
		c.note(slog.LevelInfo, "observer is off. To turn it on, pass observer.WithMeterProvider, or export.FromEnv() with NEMO_GYM_OTEL_ENABLED=true or OTEL_EXPORTER_OTLP_ENDPOINT set, or install a provider with otel.SetMeterProvider before Start",
			slog.Any("reason", h.refused))
	case h.refused != nil:
		c.note(slog.LevelWarn, "observer does not observe", slog.Any("error", h.refused))
	default:
		watching := make(chan struct{})
		h.unwatch = context.AfterFunc(h.ctx, func() {
			<-watching // the line above has ended
			h.release()
		})
		close(watching)
	}
	c.say()
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
	select {
	case starting <- struct{}{}:
		defer func() { <-starting }()
	case <-time.After(startPatience):
		return errBusy
	}
	mu.Lock()
	defer mu.Unlock()
	p := running.Load()
	if p != nil {
		c.noteIgnored(p)
	} else {
		p, err = unlocked(func() (*process, error) { return setUp(h.ctx, name, c) })
		if err != nil {
			return err
		}
	}
	h.process = p
	p.holders++
	if loopName != nil {
		h.loop = newLoop(p, name, c.settings)
		p.addLoop(h.loop)
		h.loop.start()
	}
	running.Store(p)
	return nil
}

// unlocked calls f without mu, and takes it again also where f calls Goexit.
func unlocked(f func() (*process, error)) (*process, error) {
	mu.Unlock() // a Stop need not wait for the application's code
	defer mu.Lock()
	return f()
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

// release gives the claim up, once, and waits until that is done.
func (h *handle) release() {
	if h == nil || h.refused != nil {
		return
	}
	deadline := time.Now().Add(stopPatience)
	if h.deadline.CompareAndSwap(nil, &deadline) {
		h.unwatch()
		go h.leave()
	}
	await(h.left, *h.deadline.Load())
	p := h.process
	if !p.ended.Load() {
		return // others hold on to it
	}
	// The handle that left last, and flushes, may be another: its time counts, so
	// that a late call neither cuts its export short nor returns before it.
	if p.deadline.Before(deadline) {
		deadline = p.deadline
	}
	if !await(p.closed, deadline) && deadline.Equal(p.deadline) {
		// The provider is stuck. What it still collects is not for Stop's past.
		p.silent.Store(true)
	}
}

// await waits for done until deadline, and reports whether it is done.
func await(done <-chan struct{}, deadline time.Time) bool {
	timeout := time.NewTimer(time.Until(deadline))
	defer timeout.Stop()
	select {
	case <-done:
		return true
	case <-timeout.C:
	}
	select {
	case <-done: // both have come
		return true
	default:
		return false
	}
}

// leave gives the claim up. The last one closes the process-wide state.
func (h *handle) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), flushPatience)
	defer cancel()
	if h.loop != nil {
		h.loop.stop(loopPatience)
	}
	last := h.process.drop(h)
	close(h.left)
	if last {
		h.process.close(ctx)
	}
}

// process is the process-wide state: what runs between the first Start and the
// last Stop. Counters are not in it, since they outlive it.
type process struct {
	provider metric.MeterProvider
	shutdown func(context.Context) error // nil for a provider of the application's own
	failures *failures
	source   processSource

	holders int                     // guarded by mu
	loops   atomic.Pointer[[]*loop] // in the order of their Start; replaced, never changed

	instrumented chan struct{} // closed when instruments and registration are set, or have failed
	instruments  atomic.Pointer[instruments]
	registration metric.Registration // may be nil
	collections  sync.Pool           // of *collection
	recordings   recordings
	leaving      chan struct{} // closed when recordings need no flushing any more

	pauses    pauseRecorder
	allocated sinceCollection

	loads     loads
	judge     diagnosis.Judge // belongs to whoever samples for the process
	diagnosed atomic.Pointer[diagnosis.Outcome]
	history   *history // what the page shows
	capture   *capture // nil where there is none

	deadline time.Time     // of the last handle's release; set before ended
	ended    atomic.Bool   // the last handle has left
	silent   atomic.Bool   // the callback observes nothing any more
	closed   chan struct{} // closed when flushed, unregistered and shut down
}

// setUp makes the process-wide state; the token of starting is held, mu is not.
func setUp(ctx context.Context, loopName string, c *config) (*process, error) {
	provider, shutdown, err := c.findProvider(ctx, loopName)
	if err != nil {
		return nil, err
	}
	p := &process{
		provider:     provider,
		shutdown:     shutdown,
		failures:     &failures{logger: c.settings.Logger},
		source:       newProcessSource(),
		instrumented: make(chan struct{}),
		leaving:      make(chan struct{}),
		closed:       make(chan struct{}),
		pauses:       pauseRecorder{sample: [1]metrics.Sample{{Name: gcPausesMetric}}},
	}
	p.loops.Store(new([]*loop))
	p.loads = loads{every: c.window, process: p.source, machine: thisMachine, failed: p.failures.report}
	p.history = historyOf(p)
	if c.capture != nil {
		if p.capture, err = c.startCapture(c.capture, p.failures.report); err != nil {
			c.note(slog.LevelWarn, "observer: captures will have no trace", slog.Any("error", err))
		}
	}
	p.recordings.wake, p.recordings.asked = make(chan struct{}, 1), make(chan chan<- bool)
	p.recordings.passedAt.Store(int64(sinceBase()))
	go p.recordings.run(p.leaving)
	p.collections.New = func() any { return newCollection() }
	var heap heapTotals
	heap.read()
	_, _ = p.allocated.notice(&heap) // its error comes back at each export, which reports it

	var before []*process
	mu.Lock()
	for _, other := range closing {
		if sameProvider(other.provider, provider) {
			before = append(before, other)
		}
	}
	mu.Unlock()
	made := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() { made <- err }()
		err = p.instrument(before)
	}()
	timeout := time.NewTimer(setUpPatience)
	defer timeout.Stop()
	select {
	case err = <-made:
	case <-timeout.C:
		go func() { p.failures.report("making instruments", <-made) }()
		return p, nil
	}
	if p.instruments.Load() == nil {
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushPatience)
			defer cancel()
			p.close(ctx)
		}()
		return nil, fmt.Errorf("observer: making instruments: %w", err)
	}
	if err != nil {
		c.note(slog.LevelWarn, "observer: some instruments could not be made, the others are", slog.Any("error", err))
	}
	return p, nil
}

// instrument makes the instruments and registers the callback, in the place of
// those before, which still flush over the same provider. It blocks while the
// provider runs other callbacks.
func (p *process) instrument(before []*process) (err error) {
	defer close(p.instrumented)
	defer catch(&err)
	meter := p.provider.Meter(scopeName, metric.WithInstrumentationVersion(scopeVersion()))
	made, err := newInstruments(meter, p.failures)
	p.instruments.Store(made)
	var registered []metric.Observable
	for _, row := range made.observables {
		registered = append(registered, row.instrument())
	}
	// Two callbacks on one provider would add their totals up. But none at all, for
	// one collection, would give a delta reader the whole totals again.
	for _, other := range before {
		other.silent.Store(true)
	}
	// A callback for all: with one each, every one would fetch the runtime's
	// metrics anew.
	registration, failed := meter.RegisterCallback(p.collect, registered...)
	p.registration = registration
	return errors.Join(err, failed)
}

// addLoop adds a loop; mu is held. The oldest samples what is the process's.
func (p *process) addLoop(l *loop) {
	loops := *p.loops.Load()
	if len(loops) == 0 {
		p.pauses.begin() // what happened while nobody sampled is not reported
		l.first = true
	}
	loops = append(slices.Clone(loops), l)
	p.loops.Store(&loops)
}

// drop gives one claim up, with its loop, and reports whether it was the last.
func (p *process) drop(h *handle) (last bool) {
	mu.Lock()
	defer mu.Unlock()
	coarseClock.nanos.Store(0) // the next oldest loop will advance it, if there is one
	p.holders--
	if p.holders == 0 {
		running.Store(nil)
		closing = append(closing, p)
		p.deadline = *h.deadline.Load()
		p.ended.Store(true)
		return true // the loop stays listed: its task count belongs to the last export
	}
	loops := slices.DeleteFunc(slices.Clone(*p.loops.Load()), func(other *loop) bool { return other == h.loop })
	p.loops.Store(&loops)
	if len(loops) == 0 {
		p.diagnosed.Store(nil)
	}
	return false
}

// isOldest reports whether a loop is the one that samples for the process.
func (p *process) isOldest(l *loop) bool {
	loops := *p.loops.Load()
	return len(loops) > 0 && loops[0] == l && !p.ended.Load()
}

// tick takes what is sampled once for the process. Only the oldest loop does.
func (p *process) tick(l *loop) {
	if !p.isOldest(l) {
		return
	}
	instruments := p.instruments.Load()
	if instruments == nil {
		return
	}
	err := p.pauses.poll(func(seconds float64) {
		instruments.gcPause.record(context.Background(), seconds*1000, generationRecord...)
		p.history.pause(seconds)
	})
	p.failures.report(GCPauseInstrument, err)
	l.heap.readAllocated()
	_, _ = p.allocated.notice(&l.heap) // its error comes back at each export, which reports it
}

// beginWindow opens the first window of the diagnosis. It runs on the sampler's
// goroutine, since it reads files, which Start does not wait for.
func (p *process) beginWindow(l *loop) {
	defer p.failures.survive("diagnosis")
	if l.first {
		p.diagnosed.Store(nil)
		p.judge = diagnosis.Judge{}
		p.loads.begin(l.now())
		p.history.begin(l.now())
	}
}

// addToWindow gives the diagnosis one sample, and publishes what a window that
// it completes comes to.
func (p *process) addToWindow(l *loop, s *diagnosis.Sample) {
	if !p.isOldest(l) {
		return
	}
	if l.settings.SampleInterval <= coarseEnough {
		advanceCoarseClock(s.At.Sub(clockBase))
	}
	p.history.add(s, l.settings.SampleInterval)
	if w := p.loads.add(s); w != nil {
		p.capture.watch()
		p.publish(w)
	}
	if p.capture != nil && s.Lag > p.capture.lag {
		p.capture.begin("lag", p.current())
	}
}

// publish takes the verdict of a window, counts its time, and says when it
// changed.
func (p *process) publish(w *diagnosis.Window) {
	outcome := p.judge.Next(w, p.loads.every)
	verdict := outcome.Verdict
	p.diagnosed.Store(outcome)
	slowTime[verdict].Add(int64(w.Length))
	p.history.addWindow(w, verdict)
	if !outcome.Changed {
		return
	}
	current := p.current()
	log(p.failures.logger, verdict.Level(), "observer: verdict changed",
		slog.String("verdict", verdict.Name()), slog.String("summary", current.Summary))
	if verdict.Captures() {
		p.capture.begin(verdict.Name(), current)
	}
}

// current is what Diagnose returns of this process.
func (p *process) current() Diagnosis {
	latest := p.diagnosed.Load()
	if latest != nil {
		return diagnosisOf(latest, time.Now(), inFlightWork.oldest(maxOldest))
	}
	if len(*p.loops.Load()) == 0 {
		return Diagnosis{Summary: "nothing samples this process: the diagnosis needs an observer.Start"}
	}
	return Diagnosis{Summary: "the first window is not complete yet"}
}

// close hands the last export to the provider and lets go of it. Each step is
// taken whatever became of the one before. No lock is held: a provider may take
// its time, or call this package.
func (p *process) close(ctx context.Context) {
	defer close(p.closed)
	captured := p.capture.end() // before the flush: a Start that does not wait for it wants to record
	<-p.instrumented
	p.recordings.passOnAll()
	if provider, ok := p.provider.(interface{ ForceFlush(context.Context) error }); ok {
		p.attempt("flushing the provider", func() error { return provider.ForceFlush(ctx) })
	}

	select {
	case <-captured:
	case <-ctx.Done():
	}

	mu.Lock()
	closing = slices.DeleteFunc(closing, func(other *process) bool { return other == p })
	p.silent.Store(true) // before another Start can register on the same provider
	mu.Unlock()

	close(p.leaving) // what the flush collected has been passed on
	p.source.close()
	if p.registration != nil {
		p.attempt("unregistering", p.registration.Unregister)
	}
	if p.shutdown != nil {
		p.attempt("shutting the provider down", func() error { return p.shutdown(ctx) })
	}
}

// attempt calls into the provider and reports what comes of it, a panic too.
func (p *process) attempt(what string, call func() error) {
	done := make(chan error, 1)
	go func() { // so that a Goexit in it does not leave out the next steps
		err := errGoexit
		defer func() { done <- err }()
		defer catch(&err)
		err = call()
	}()
	p.failures.report(what, <-done)
}
