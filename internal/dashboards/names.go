package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/otlptranslator"

	"github.com/gym-observer/observer/internal/catalogue"
)

// names are the names of the signals in Prometheus, by those in OpenTelemetry.
type names map[string]string

// namesAs translates with the library that OpenTelemetry's exporter and
// Prometheus's own receiver use.
func namesAs(strategy otlptranslator.TranslationStrategyOption) (names, error) {
	namer := otlptranslator.NewMetricNamer("", strategy)
	translated := make(names)
	for _, s := range catalogue.Signals {
		name, err := namer.Build(otlptranslator.Metric{Name: s.Name, Unit: s.Unit, Type: types[s.Kind]})
		if err != nil {
			return nil, err
		}
		translated[s.Name] = name
	}
	return translated, nil
}

var types = map[catalogue.Kind]otlptranslator.MetricType{
	catalogue.Histogram:     otlptranslator.MetricTypeHistogram,
	catalogue.Counter:       otlptranslator.MetricTypeMonotonicCounter,
	catalogue.UpDownCounter: otlptranslator.MetricTypeNonMonotonicCounter,
	catalogue.Gauge:         otlptranslator.MetricTypeGauge,
}

// expression is PromQL in which a metric has its name in OpenTelemetry, between
// angle brackets: rate(<process.cpu.time>{cpu_mode="user"}[5m]).
type expression string

// selector is a metric in an expression, with what a histogram's series end in
// and with its matchers.
var selector = regexp.MustCompile(`<([a-z0-9_.]+)>(_bucket|_sum|_count)?(?:\{([^}]*)\})?`)

// translate puts the names of Prometheus into an expression, and adds a matcher,
// which may be empty, to each metric.
func (n names) translate(e expression, matcher string) (string, error) {
	var unknown error
	text := selector.ReplaceAllStringFunc(string(e), func(metric string) string {
		parts := selector.FindStringSubmatch(metric)
		name, ok := n[parts[1]]
		if !ok {
			unknown = fmt.Errorf("%s is not in the catalogue", parts[1])
		}
		matchers := slices.DeleteFunc([]string{matcher, parts[3]}, func(s string) bool { return s == "" })
		if len(matchers) > 0 {
			return name + parts[2] + "{" + strings.Join(matchers, ", ") + "}"
		}
		return name + parts[2]
	})
	return text, unknown
}

// signals returns the rows of the catalogue that an expression reads.
func (e expression) signals() []catalogue.Signal {
	var read []catalogue.Signal
	for _, parts := range selector.FindAllStringSubmatch(string(e), -1) {
		for _, s := range catalogue.Signals {
			if s.Name == parts[1] {
				read = append(read, s)
			}
		}
	}
	return read
}
