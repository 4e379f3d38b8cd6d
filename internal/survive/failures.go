// Package survive has what lets telemetry call an application's code, or read what
// may not be readable, without its server noticing: a failure is logged once a cause,
// and swallowed, and a call that hangs, panics or ends its goroutine keeps nobody. It
// knows nothing of what is called.
package survive

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

// Failures logs what went wrong and was survived, once per cause: a reading
// that fails at every export must not fill the log. Causes are fixed words, so
// that the memory is bounded. Methods are safe for concurrent use and on nil.
type Failures struct {
	Logger *slog.Logger
	logged sync.Map // cause
}

// Report logs err unless one of the same cause has been logged.
func (f *Failures) Report(cause string, err error) {
	if f == nil || err == nil {
		return
	}
	if _, again := f.logged.LoadOrStore(cause, true); !again {
		Log(f.Logger, slog.LevelWarn, "observer survived a failure; later ones of this cause are not logged",
			slog.String("cause", cause), slog.Any("error", err))
	}
}

// Survive recovers a panic and reports it. It must be deferred directly.
func (f *Failures) Survive(cause string) {
	if reason := recover(); reason != nil {
		f.Report(cause, panicError(reason))
	}
}

// Catch recovers a panic into err. It must be deferred directly.
func Catch(err *error) {
	if reason := recover(); reason != nil {
		*err = panicError(reason)
	}
}

// panicError turns a recovered panic into an error with the stack, which is all
// that its author will have to find it.
func panicError(reason any) error {
	return fmt.Errorf("panic: %v\n%s", reason, debug.Stack())
}

// Log writes one line to the application's logger and survives a panic in it.
// It is never called with a lock held: the handler may call this package.
func Log(logger *slog.Logger, level slog.Level, message string, attributes ...slog.Attr) {
	defer func() { _ = recover() }() // there is nowhere left to report it
	logger.LogAttrs(context.Background(), level, message, attributes...)
}
