package export

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer/internal/otlptest"
)

// PartialSuccess looks like the SDK's, whose tests with a collector are in
// outages_test.go.
type PartialSuccess struct {
	ErrorMessage  string
	RejectedItems int64
	RejectedKind  string
}

func (p PartialSuccess) Error() string { return "OTLP partial success: " + p.ErrorMessage }

func TestH79RemarksAreToldFromFailures(t *testing.T) {
	said := PartialSuccess{ErrorMessage: "a"}
	rejected := PartialSuccess{ErrorMessage: "b", RejectedItems: 1}
	for _, test := range []struct {
		name    string
		err     error
		remarks []string // nil for a failure
	}{
		{"remark", said, []string{"a"}},
		{"wrapped", fmt.Errorf("uploading: %w", errors.Join(said, nil)), []string{"a"}},
		{"two of a retried export", errors.Join(said, said), []string{"a", "a"}},
		{"rejected", rejected, nil},
		{"rejected beside a remark", errors.Join(said, rejected), nil},
		{"failure beside a remark", fmt.Errorf("%w: %w", errors.New("no route"), said), nil},
		{"failure", errors.New("OTLP partial success: x (0 metric data points rejected)"), nil},
		{"wraps nothing", errors.Join(fmt.Errorf("%w", error(nil))), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			found, only := remarksIn(test.err)
			assert.Equal(t, test.remarks != nil, only)
			if only {
				assert.Equal(t, test.remarks, found)
			}
		})
	}
}

func TestH79RemarksAreBounded(t *testing.T) {
	journal := otlptest.NewJournal()
	n := 0
	remarking := func() error {
		n++
		return PartialSuccess{ErrorMessage: fmt.Sprint(n, strings.Repeat(" late", 1e6))}
	}
	e := &outageExporter{Exporter: &scriptedExporter{export: remarking}, logger: journal.Logger}
	for range 2 * maxRemarks {
		require.NoError(t, e.Export(t.Context(), new(metricdata.ResourceMetrics)))
	}
	require.Len(t, journal.Lines("remark"), maxRemarks)
	for _, line := range journal.Lines() {
		assert.Less(t, len(line), 1500)
	}
}
