package survive

import "log/slog"

// Notes are log lines that wait until the application's handler may be called.
type Notes []note

type note struct {
	level      slog.Level
	message    string
	attributes []slog.Attr
}

// Add adds a line.
func (n *Notes) Add(level slog.Level, message string, attributes ...slog.Attr) {
	*n = append(*n, note{level, message, attributes})
}

// Say logs the lines, in their order.
func (n Notes) Say(logger *slog.Logger) {
	for _, line := range n {
		Log(logger, line.level, line.message, line.attributes...)
	}
}
