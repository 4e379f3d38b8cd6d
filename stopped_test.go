package observer_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/testlog"
)

// Tests that look for goroutines that are left behind, as those of
// coder/websocket do, look right after Stop.
func TestH86StopHasStopped(t *testing.T) {
	for name, options := range map[string]func() []observer.Option{
		"as it is": func() []observer.Option { return nil },
		"with all that can be asked for": func() []observer.Option {
			return []observer.Option{observer.WithCapture(t.TempDir()), observer.WithProfiles(), observer.WithSampleInterval(time.Millisecond)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			left := 0
			for range 200 {
				provider := providerOf(sdkmetric.NewManualReader())
				before := runtime.NumGoroutine()
				o := observer.Start(context.Background(), "server", append(options(), observer.WithMeterProvider(provider), observer.WithLogger(new(testlog.Log).Logger()))...)
				require.NoError(t, o.Err())
				began := time.Now()
				o.Stop()
				after := runtime.NumGoroutine()
				if after > before {
					left++
				}
				require.Less(t, time.Since(began), 3*time.Second)
			}
			assert.Zero(t, left, "of 200 left a goroutine behind")
		})
	}
}
