package export

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/gym-observer/observer/internal/env"
)

// defaultInterval is between two exports. The SDK's own minute would hide most
// of what slows a server down.
const defaultInterval = 10 * time.Second

// newPeriodicReader makes the reader that exports at an interval. Its goroutine
// ends with the provider that it is given to.
func newPeriodicReader(ctx context.Context, to exporter, res *resource.Resource, logger *slog.Logger) (sdkmetric.Reader, error) {
	made, release, err := newExporter(ctx, to, logger)
	if err != nil {
		return nil, fmt.Errorf("making the %s exporter: %w", to, err)
	}
	interval, err := env.Standard("OTEL_METRIC_EXPORT_INTERVAL").Milliseconds(defaultInterval)
	if err != nil {
		warn(logger, unusable, err)
	}
	return sdkmetric.NewPeriodicReader(
		&outageExporter{Exporter: made, release: release, resource: res, logger: logger},
		sdkmetric.WithInterval(interval),
		sdkmetric.WithProducer(NewProducer()),
	), nil
}

func newExporter(ctx context.Context, to exporter, logger *slog.Logger) (sdkmetric.Exporter, func(), error) {
	if to == console {
		exporter, err := stdoutmetric.New(stdoutmetric.WithWriter(os.Stdout)) // one line of JSON an export
		return exporter, func() {}, err
	}
	return newOTLPExporter(ctx, logger)
}
