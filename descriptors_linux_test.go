package observer_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
)

func init() {
	observer.ChildModes["descriptors"] = func() error {
		run := func() error {
			o := observer.Start(context.Background(), "test", observer.WithMeterProvider(providerOf(sdkmetric.NewManualReader())),
				observer.WithSampleInterval(time.Millisecond))
			defer o.Stop()
			time.Sleep(20 * time.Millisecond) // some samples
			return o.Err()
		}
		open := func() (int, error) {
			entries, err := os.ReadDir("/proc/self/fd")
			return len(entries), err
		}
		if err := run(); err != nil { // the first makes descriptors of the runtime's own
			return err
		}
		before, err := open()
		if err != nil {
			return err
		}
		for range 5 {
			if err := run(); err != nil {
				return err
			}
		}
		after, err := open()
		fmt.Println(before, after)
		return err
	}
}

// In a process of its own, where no other test opens files.
func TestNoDescriptorStaysOpenAfterStop(t *testing.T) {
	output, err := observer.Child(t, "descriptors").Output()
	require.NoError(t, err)
	var before, after int
	_, err = fmt.Sscan(string(output), &before, &after)
	require.NoError(t, err, "%s", output)
	assert.Positive(t, before)
	assert.Equal(t, before, after)
}
