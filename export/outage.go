package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
)

// outageExporter exports, and logs the first failure of an outage and its end.
// The SDK would hand each failure to the global error handler, which by default
// writes a line to stderr at every interval that a collector is away.
type outageExporter struct {
	sdkmetric.Exporter
	release  func() // frees what the exporter's own Shutdown leaves
	resource *resource.Resource
	logger   *slog.Logger

	failing bool    // touched by Export alone, as remarks are;
	remarks remarks // a periodic reader never runs two at a time
}

// Export always returns nil. It survives a panic of the exporter, which would
// end the process, as it runs on the reader's goroutine.
func (e *outageExporter) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	// The SDK mixes its own reading of the environment into the resource, where a
	// key that is not UTF-8 would make every export fail.
	valid := *data
	valid.Resource = e.resource

	err := e.attempt(ctx, &valid)
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil // by the reader's Shutdown, which exports once more
	}
	err = e.remarks.takeFrom(err, e.logger)
	failed := err != nil
	if failed != e.failing {
		e.failing = failed
		e.report(err)
	}
	return nil
}

func (e *outageExporter) attempt(ctx context.Context, data *metricdata.ResourceMetrics) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v\n%s", reason, debug.Stack())
		}
	}()
	return e.Exporter.Export(ctx, data)
}

// report logs a change. The error is cut: it holds what the collector answered.
func (e *outageExporter) report(err error) {
	defer func() { _ = recover() }() // of the logger: there is nowhere left to report it
	if err != nil {
		e.logger.Warn("observer: an export failed; it will be tried at every interval, and logged when it works again",
			slog.String("error", fmt.Sprintf("%.1000s", err)))
		return
	}
	e.logger.Info("observer: exports work again")
}

// Shutdown also frees the connections.
func (e *outageExporter) Shutdown(ctx context.Context) error {
	defer e.release()
	return e.Exporter.Shutdown(ctx)
}
