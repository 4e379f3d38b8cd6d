package export

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/otlptest"
)

func TestEnvironmentChoosesTheExporter(t *testing.T) {
	const (
		master       = "NEMO_GYM_OTEL_ENABLED"
		lensMaster   = "NEMO_LENS_ENABLED"
		gymNamed     = "NEMO_GYM_OTEL_EXPORTER"
		lensNamed    = "NEMO_LENS_EXPORTER"
		named        = "OTEL_METRICS_EXPORTER"
		somewhere    = "http://127.0.0.1:1"
		anotherPlace = "http://127.0.0.1:2"
	)
	type variables map[string]string
	for _, test := range []struct {
		name        string
		environment variables
		want        exporter
		warned      string // the variable that one warning names
	}{
		{"nothing", nil, off, ""},
		{"blank", variables{master: " ", gymNamed: "\t", named: " ", generalEndpoint: " ", metricsEndpoint: " "}, off, ""},

		{"master switch", variables{master: "true"}, otlp, ""},
		{"master switch in words", variables{master: " YES "}, otlp, ""},
		{"master switch of Lens", variables{lensMaster: "on"}, otlp, ""},
		{"master switch of Lens behind a blank one", variables{master: " ", lensMaster: "1"}, otlp, ""},
		{"master switch off", variables{master: "false"}, off, ""},
		{"master switch off over Lens", variables{master: "false", lensMaster: "true"}, off, ""},
		{"master switch that cannot be used", variables{master: "maybe"}, off, ""}, // the observer warns of it

		{"gym names otlp", variables{gymNamed: "otlp"}, otlp, ""},
		{"gym names console", variables{gymNamed: "console"}, console, ""},
		{"any letter case", variables{gymNamed: " Console "}, console, ""},
		{"lens names console", variables{lensNamed: "console"}, console, ""},
		{"otel names otlp", variables{named: "otlp"}, otlp, ""},
		{"otel names console", variables{named: "console"}, console, ""},
		{"gym over otel", variables{gymNamed: "console", named: "otlp"}, console, ""},
		{"lens over otel", variables{lensNamed: "console", named: "otlp"}, console, ""},
		{"otel where gym is blank", variables{gymNamed: " ", named: "console"}, console, ""},

		{"none", variables{gymNamed: "none"}, off, ""},
		{"none over the master switch", variables{gymNamed: "none", master: "true"}, off, ""},
		{"none over an endpoint", variables{gymNamed: "none", generalEndpoint: somewhere}, off, ""},
		{"none of gym over otel", variables{gymNamed: "none", named: "otlp"}, off, ""},
		{"none of otel over the master switch", variables{named: "none", master: "true"}, off, ""},
		{"gym over none of otel", variables{gymNamed: "otlp", named: "none"}, otlp, ""},

		{"unknown", variables{gymNamed: "prometheus"}, off, gymNamed},
		{"unknown of otel", variables{named: "logging"}, off, named},
		{"list", variables{named: "otlp,console"}, off, named},
		{"unknown with the master switch", variables{named: "prometheus", master: "true"}, otlp, named},
		{"list with the master switch", variables{gymNamed: "console,otlp", master: "1"}, otlp, gymNamed},
		{"unknown with an endpoint", variables{named: "prometheus", generalEndpoint: somewhere}, otlp, named},

		{"general endpoint", variables{generalEndpoint: somewhere}, otlp, ""},
		{"metrics endpoint", variables{metricsEndpoint: somewhere}, otlp, ""},
		{"both endpoints", variables{generalEndpoint: somewhere, metricsEndpoint: anotherPlace}, otlp, ""},
		{"console with an endpoint", variables{gymNamed: "console", generalEndpoint: somewhere}, console, ""},
		{"console with the master switch", variables{gymNamed: "console", master: "true"}, console, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			otlptest.ClearEnvironment(t)
			for name, value := range test.environment {
				t.Setenv(name, value)
			}
			journal := otlptest.NewJournal()
			assert.Equal(t, test.want, exporterFromEnv(journal.Logger))
			if test.warned == "" {
				assert.Empty(t, journal.Lines())
				return
			}
			assert.Len(t, journal.Lines(), 1)
			assert.Len(t, journal.Lines("level=WARN", test.warned, test.environment[test.warned]), 1)
		})
	}
}
