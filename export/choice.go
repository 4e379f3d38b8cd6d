package export

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/gym-observer/observer/internal/env"
)

// exporter is what the environment can name.
type exporter string

const (
	off     exporter = "none"
	otlp    exporter = "otlp"
	console exporter = "console"
)

// exporterFromEnv returns the exporter that the environment turns on, or off.
func exporterFromEnv(logger *slog.Logger) exporter {
	named := env.Gym("EXPORTER")
	if !named.Set() {
		named = env.Standard("OTEL_METRICS_EXPORTER")
	}
	switch name := exporter(strings.ToLower(named.Text)); name {
	case off, otlp, console:
		return name
	case "":
	default:
		// A name of another SDK's, or a list, says nothing about this program: the
		// variable may be meant for all programs on the machine.
		warn(logger, unusable, fmt.Errorf("%s is %.100q, want otlp, console or none", named.Name, named.Text))
	}
	if masterSwitch() || env.Standard(generalEndpoint).Set() || env.Standard(metricsEndpoint).Set() {
		return otlp
	}
	return off
}

// masterSwitch reports whether the environment asks for telemetry as such. The
// observer itself warns of a value that cannot be used.
func masterSwitch() bool {
	on, _ := env.Gym("ENABLED").Bool(false)
	return on
}

// unusable is the message of each warning of a variable; its error has the name
// and the value.
const unusable = "observer: a setting cannot be used, using its default"
