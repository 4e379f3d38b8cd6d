// Package e2e_test runs the example programs beside a real OpenTelemetry
// Collector and a real Prometheus, and asks Prometheus what they did.
package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/e2e/internal/backend"
)

func TestMain(m *testing.M) { os.Exit(backend.Main(m)) }

// stack is a collector, and the Prometheus that scrapes it.
type stack struct {
	collector  *backend.Collector
	prometheus *backend.Prometheus
}

func startStack(t *testing.T) stack {
	t.Helper()
	collector := backend.StartCollector(t)
	return stack{collector, backend.StartPrometheus(t, backend.Scraping(time.Second, collector.Scrape))}
}

// settings let a program export to the stack every half second.
func (s stack) settings(protocol string) []string {
	return []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + s.collector.Endpoint(protocol),
		"OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol,
		"OTEL_METRIC_EXPORT_INTERVAL=500",
		"NEMO_GYM_OTEL_EVENT_LOOP_TASK_COUNT=true",
	}
}

// values is the answer to a query, by the labels that it left; a query that
// leaves none has its value under "".
type values map[string]float64

// sumOf returns a query for the total of a metric of some processes.
func sumOf(metric, processes string) string { return fmt.Sprintf("sum(%s%s)", metric, processes) }

// ask queries Prometheus. The values of the labels stand in the order of the
// labels' names, with a space between them.
func (s stack) ask(query string) (values, error) {
	ctx, cancel := context.WithTimeout(context.Background(), backend.Patience)
	defer cancel()
	answer, _, _, err := s.prometheus.Query(ctx, query, time.Now())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	vector, ok := answer.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("%s: the answer is a %s", query, answer.Type())
	}
	found := make(values)
	for _, sample := range vector {
		var labels []string
		for _, name := range slices.Sorted(maps.Keys(sample.Metric)) {
			labels = append(labels, string(sample.Metric[name]))
		}
		found[strings.Join(labels, " ")] = float64(sample.Value)
	}
	return found, nil
}

// await waits until the answer to a query is the one that is wanted.
func (s stack) await(t *testing.T, query string, want values) {
	t.Helper()
	s.awaitThat(t, query, fmt.Sprint(want), func(found values) bool { return maps.Equal(found, want) })
}

// awaitOne waits until the answer is one value, without labels.
func (s stack) awaitOne(t *testing.T, query string, want float64) {
	t.Helper()
	s.await(t, query, values{"": want})
}

// awaitAtLeast waits until the answer is one value that is large enough, and
// returns it.
func (s stack) awaitAtLeast(t *testing.T, query string, least float64) float64 {
	t.Helper()
	return s.awaitThat(t, query, fmt.Sprintf("at least %v", least), func(found values) bool {
		value, ok := found[""]
		return ok && value >= least
	})[""]
}

// awaitPositive waits until the answer is one value above 0.
func (s stack) awaitPositive(t *testing.T, query string) {
	t.Helper()
	s.awaitAtLeast(t, query, math.SmallestNonzeroFloat64)
}

// mustAsk is ask where there is no reason for a query to fail.
func (s stack) mustAsk(t *testing.T, query string) values {
	t.Helper()
	found, err := s.ask(query)
	require.NoError(t, err)
	return found
}

// awaitThat waits until the answer is as it should be, which want describes, and
// returns it.
func (s stack) awaitThat(t *testing.T, query, want string, holds func(values) bool) (found values) {
	t.Helper()
	backend.Await(t, func() (err error) {
		if found, err = s.ask(query); err == nil && !holds(found) {
			err = fmt.Errorf("%s is %v, want %s", query, found, want)
		}
		return err
	})
	return found
}

// sum returns what the values add up to.
func sum(v values) (total float64) {
	for _, value := range v {
		total += value
	}
	return total
}
