package observer

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

// failures logs what went wrong and was survived, once per cause: a reading
// that fails at every export must not fill the log. Causes are fixed words, so
// that the memory is bounded. Methods are safe for concurrent use and on nil.
type failures struct {
	logger *slog.Logger
	logged sync.Map // cause
}

// report logs err unless one of the same cause has been logged.
func (f *failures) report(cause string, err error) {
	if f == nil || err == nil {
		return
	}
	if _, again := f.logged.LoadOrStore(cause, true); !again {
		log(f.logger, slog.LevelWarn, "observer survived a failure; later ones of this cause are not logged",
			slog.String("cause", cause), slog.Any("error", err))
	}
}

// survive recovers a panic and reports it. It must be deferred directly.
func (f *failures) survive(cause string) {
	if reason := recover(); reason != nil {
		f.report(cause, panicError(reason))
	}
}

// catch recovers a panic into err. It must be deferred directly.
func catch(err *error) {
	if reason := recover(); reason != nil {
		*err = panicError(reason)
	}
}

// panicError turns a recovered panic into an error with the stack, which is all
// that its author will have to find it.
func panicError(reason any) error {
	return fmt.Errorf("panic: %v\n%s", reason, debug.Stack())
}

// log writes one line to the application's logger and survives a panic in it.
// It is never called with a lock held: the handler may call this package.
func log(logger *slog.Logger, level slog.Level, message string, attributes ...slog.Attr) {
	defer func() { _ = recover() }() // there is nowhere left to report it
	logger.LogAttrs(context.Background(), level, message, attributes...)
}
