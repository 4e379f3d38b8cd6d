package export

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/gym-observer/observer/internal/otlptest"
)

func TestH41ExportIntervalFallsBackToTenSeconds(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       time.Duration
		warned     bool
	}{
		{"unset", "", 10 * time.Second, false},
		{"blank", " ", 10 * time.Second, false},
		{"milliseconds", "100", 100 * time.Millisecond, false},
		{"white space around", " 250\t", 250 * time.Millisecond, false},
		{"with a unit", "5s", 10 * time.Second, true},
		{"zero", "0", 10 * time.Second, true},
		{"negative", "-1", 10 * time.Second, true},
		{"fraction", "0.5", 10 * time.Second, true},
		{"overflow", "9223372036854775807", 10 * time.Second, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			otlptest.ClearEnvironment(t)
			t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", test.text)
			journal := otlptest.NewJournal()
			reader, err := newPeriodicReader(t.Context(), console, resource.Empty(), journal.Logger)
			require.NoError(t, err)
			defer func() { _ = reader.Shutdown(context.Background()) }()
			// What a reader tells a logger is the only place where it tells its interval.
			described := reflect.ValueOf(reader.(*sdkmetric.PeriodicReader).MarshalLog())
			assert.Equal(t, test.want, described.FieldByName("Interval").Interface())
			if test.warned {
				assert.Len(t, journal.Lines("level=WARN", "OTEL_METRIC_EXPORT_INTERVAL", test.text), 1)
			} else {
				assert.Empty(t, journal.Lines())
			}
		})
	}
}
