package integrations_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/gym-observer/observer/internal/otlptest"
)

// exports is all that one process has exported.
type exports struct {
	*testing.T
	requests []otlptest.Request
}

// last returns the values of a metric in the last export that has it. The very
// last one may be of a provider that shuts down, when the observer has left it.
func (e exports) last(name string) map[string]float64 {
	e.Helper()
	for _, request := range slices.Backward(e.requests) {
		if metric := request.Metric(name); metric != nil {
			return values(metric)
		}
	}
	require.Fail(e, "no export has "+name, "of %d exports", len(e.requests))
	return nil
}

// values returns the points of a metric by the values of their attributes, in
// the order of the keys. The value of a histogram is its count.
func values(metric *metricspb.Metric) map[string]float64 {
	all := make(map[string]float64)
	for _, p := range append(metric.GetSum().GetDataPoints(), metric.GetGauge().GetDataPoints()...) {
		all[join(p.GetAttributes())] = p.GetAsDouble() + float64(p.GetAsInt()) // one of them is 0
	}
	for _, p := range metric.GetHistogram().GetDataPoints() {
		all[join(p.GetAttributes())] = float64(p.GetCount())
	}
	return all
}

func join(attributes []*commonpb.KeyValue) string {
	slices.SortFunc(attributes, func(a, b *commonpb.KeyValue) int { return strings.Compare(a.GetKey(), b.GetKey()) })
	var texts []string
	for _, attribute := range attributes {
		text := attribute.GetValue().GetStringValue()
		if integer, ok := attribute.GetValue().GetValue().(*commonpb.AnyValue_IntValue); ok {
			text = strconv.FormatInt(integer.IntValue, 10)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ",")
}
