// Package testlog catches what is logged, for tests.
package testlog

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Log keeps each line that is logged: its level, its message and its attributes,
// in the form "WARN message key=value". The zero value is empty and ready; its
// methods may be called from any goroutine.
type Log struct {
	// On, if set, is called after each line has been kept, without a lock: it may
	// log, or panic, as a handler of the application's may. It is set before use.
	On func()

	mu     sync.Mutex
	lines  []string
	causes map[string]int
}

// Logger returns a logger that writes here.
func (l *Log) Logger() *slog.Logger { return slog.New(l) }

// Enabled says that every level is kept.
func (*Log) Enabled(context.Context, slog.Level) bool { return true }

// Handle keeps a line.
func (l *Log) Handle(_ context.Context, record slog.Record) error {
	line, cause := record.Level.String()+" "+record.Message, record.Message
	record.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		if a.Key == "cause" {
			cause = a.Value.String()
		}
		return true
	})
	l.keep(line, cause)
	if l.On != nil {
		l.On()
	}
	return nil
}

func (l *Log) keep(line, cause string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	if l.causes == nil {
		l.causes = make(map[string]int)
	}
	l.causes[cause]++
}

// WithAttrs returns the log itself: the observer gives its loggers none.
func (l *Log) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup returns the log itself, as WithAttrs does.
func (l *Log) WithGroup(string) slog.Handler { return l }

// Of returns the lines that contain all of the words, in their order; without
// words it returns all lines.
func (l *Log) Of(words ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			found = append(found, line)
		}
	}
	return found
}

// Causes returns how many lines there were of each cause: a line's attribute
// "cause", or its message where it has none.
func (l *Log) Causes() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.causes)
}
