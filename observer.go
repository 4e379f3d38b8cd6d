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
// It never stops or slows the server: no function here panics by itself, and a
// request waits for nothing but a few atomic operations, and the functions that the
// application gave (such as that of [WithExpectedWait]). One lock lies on its path,
// taken the first time that a client leaves a route. What goes wrong is logged, once
// per cause, and swallowed. And every number is true: what cannot be read is left out, never
// replaced by a zero, and totals never go down while the process lives.
//
// # Finding your way
//
// A request or a rollout touches middleware.go, transport.go, driver.go and
// admission.go, which count into the one value of totals.go. The exporter reads
// that in collection.go. A loop of scheduler.go wakes at each interval, and sampler.go
// hands what it saw to the window, the page and the capture; when a window is
// complete, internal/diagnosis judges it, internal/examine has looked for the lines,
// and diagnose.go puts both into words. handle.go and process.go hold the life cycle
// together.
//
// The catalogue in internal/catalogue lists every signal with its unit, meaning and
// advice; instruments.go and sources.go have one place for each.
package observer

import (
	"context"
)

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
// Start never returns nil, never panics, and never stops the server: it waits for
// another Start that is opening a provider for at most 3 s, and for its own provider
// as long as that takes to open; a tenth of a second for its instruments, and for the
// handler of the logger. Where telemetry is off, or its provider could not
// be opened, it logs one line, and [Observer.Err] says why. It may be called for several loops: they share the
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
		o.handle.end()
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
		h.end()
		return nil, err
	}
	return &Process{h}, nil
}

// Release does what [Observer.Stop] does. It may be called again, and on nil.
func (p *Process) Release() {
	if p != nil {
		p.handle.end()
	}
}

// Diagnose returns what slows this process down, over the last complete window.
// It is zero while nothing observes, and has only a Summary until the first
// window is complete. It may be called from any goroutine, as often as wanted:
// it measures nothing, it reads what the sampler has measured.
func Diagnose() Diagnosis {
	if s := running.Load(); s != nil {
		return s.current()
	}
	return Diagnosis{}
}
