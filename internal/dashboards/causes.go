package main

import (
	"log/slog"
	"strings"

	"github.com/gym-observer/observer/internal/diagnosis"
)

// The causes that are treated apart, each as a regular expression of Prometheus.
// They come from the rows of the diagnosis, so that a new cause is in the right
// pictures and alerts by itself.
var (
	// shares have a load that is no mean of what waits, and no place in a stack.
	shares = causesThat(diagnosis.Cause.IsShare)
	// information is how many programs live: it alarms nobody.
	information = causesThat(func(c diagnosis.Cause) bool { return c.Level() < slog.LevelWarn })
)

func causesThat(belong func(diagnosis.Cause) bool) string {
	var names []string
	for cause := range diagnosis.All() {
		if belong(cause) {
			names = append(names, cause.Name())
		}
	}
	return strings.Join(names, "|")
}
