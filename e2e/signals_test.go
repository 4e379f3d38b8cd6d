package e2e_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/otlptranslator"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/catalogue"
)

// TestEverySignalArrives lets a server and a driver do what raises each signal,
// and asks for all of them.
func TestEverySignalArrives(t *testing.T) {
	t.Parallel()
	s := startStack(t)
	t.Run("server", func(t *testing.T) { testServer(t, s) })
	t.Run("driver", func(t *testing.T) { testDriver(t, s) })
	t.Run("no other, and none is missing", func(t *testing.T) {
		assert.Equal(t, wantedLabels(t), labelsInPrometheus(t, s), "labels by metric")
	})
}

// wantedLabels returns the labels of each metric in Prometheus, as the catalogue
// has them.
func wantedLabels(t *testing.T) map[string][]string {
	t.Helper()
	names := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	types := map[catalogue.Kind]otlptranslator.MetricType{
		catalogue.Counter:       otlptranslator.MetricTypeMonotonicCounter,
		catalogue.UpDownCounter: otlptranslator.MetricTypeNonMonotonicCounter,
		catalogue.Gauge:         otlptranslator.MetricTypeGauge,
		catalogue.Histogram:     otlptranslator.MetricTypeHistogram,
	}
	scheduling := catalogue.Signal{Name: "go.schedule.duration", Kind: catalogue.Histogram, Unit: "s"} // of export.NewProducer
	wanted := make(map[string][]string)
	for _, signal := range append(slices.Clone(catalogue.Signals), scheduling) {
		name, err := names.Build(otlptranslator.Metric{Name: signal.Name, Unit: signal.Unit, Type: types[signal.Kind]})
		require.NoError(t, err)
		labels := []string{}
		for _, key := range signal.Attributes {
			labels = append(labels, strings.ReplaceAll(key, ".", "_"))
		}
		slices.Sort(labels)
		if signal.Kind == catalogue.Histogram {
			wanted[name+"_bucket"], wanted[name+"_count"], wanted[name+"_sum"] = labels, labels, labels
		} else {
			wanted[name] = labels
		}
	}
	return wanted
}

// labelsInPrometheus returns the labels of each metric there, less those that all
// metrics have.
func labelsInPrometheus(t *testing.T, s stack) map[string][]string {
	t.Helper()
	answer, _, _, err := s.prometheus.Query(context.Background(), `{job=~"nemo-gym/.*",__name__!="target_info"}`, time.Now())
	require.NoError(t, err)
	found := make(map[string][]string)
	for _, sample := range answer.(model.Vector) {
		labels := []string{}
		for label := range sample.Metric {
			switch name := string(label); {
			case slices.Contains([]string{"__name__", "job", "instance", "le"}, name), strings.HasPrefix(name, "otel_scope_"):
			default:
				labels = append(labels, name)
			}
		}
		slices.Sort(labels)
		found[string(sample.Metric[model.MetricNameLabel])] = labels
	}
	return found
}
