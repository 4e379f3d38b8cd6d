// Package export turns package observer on in a program that has no
// OpenTelemetry provider of its own:
//
//	defer observer.Start(context.Background(), "server", export.FromEnv()).Stop()
//
// It builds an SDK provider, with the exporter that the environment names and
// the readers that the code gives, and shuts it down at the last Stop. It is
// apart from package observer because the SDK and gRPC double the size of a
// small binary; a program that has a provider passes that to
// [observer.WithMeterProvider] and needs nothing from here but [NewProducer].
//
// A provider belongs to one copy of package observer. Two in one binary, say the
// module and a fork of it under another path, do not know of each other: on one
// provider, every count, total and gauge is there twice and added up, also in the
// histograms, and no error tells. Let one of them start, or give each a provider.
//
// The README lists the environment's variables.
package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
)

// FromEnv exports through the given readers and, where the environment turns it
// on, through the exporter that it names: OTLP over gRPC, OTLP over HTTP, or the
// console. Without a reader, and with nothing in the environment, telemetry is off.
//
// The environment turns its exporter on with NEMO_GYM_OTEL_ENABLED=true, with
// NEMO_GYM_OTEL_EXPORTER or OTEL_METRICS_EXPORTER set to otlp or console, or
// with OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_METRICS_ENDPOINT. Without
// an endpoint, OTLP goes to localhost, over TLS unless OTEL_EXPORTER_OTLP_INSECURE
// is true. The environment is read when the observer starts. What cannot be used
// there is replaced by its default, with a warning that names the variable. So is
// the protocol http/json, which the SDK does not speak: the exporter goes back to
// gRPC, and as a collector takes that on another port, most likely 4317 where the
// endpoint says 4318, set the protocol to http/protobuf instead.
//
// Certificates have no default. One that cannot be read, or a client's certificate
// without its key, leaves the exporter out, as a part that cannot be used: the
// system's authorities never stand in for the one that was named. Beside an
// endpoint in plain text they are not read, with a warning.
//
// Nothing is dialled before the first export, and a collector that cannot be
// reached costs one warning an outage. What a collector remarks of an export that
// it accepted is logged once. An export that fails is not kept: the next
// one carries the totals anyway, unless deltas are preferred.
//
// A nil reader counts as not given. A reader belongs to one provider for life,
// that is from one Start to its Stop: one that has been used is left out with a
// warning, or is the error of Start if there is nothing else to export through.
func FromEnv(readers ...sdkmetric.Reader) observer.Option {
	return observer.WithProvider(source{given: notNil(readers), environment: true}.open)
}

// WithReader exports through one reader alone, such as Prometheus's or a test's,
// whatever exporter the environment names; the environment's off switches still
// win. It is otherwise like [FromEnv].
func WithReader(r sdkmetric.Reader) observer.Option {
	return observer.WithProvider(source{given: notNil([]sdkmetric.Reader{r})}.open)
}

func notNil(readers []sdkmetric.Reader) []sdkmetric.Reader {
	return slices.DeleteFunc(slices.Clone(readers), func(r sdkmetric.Reader) bool {
		value := reflect.ValueOf(r)
		return r == nil || value.Kind() == reflect.Pointer && value.IsNil()
	})
}

// source is where a provider's readers come from.
type source struct {
	given       []sdkmetric.Reader
	environment bool // look for an exporter there too
}

// open makes the provider, or none if nothing turns it on. It dials nothing, and reads
// the files of certificates that the environment names.
func (s source) open(ctx context.Context, loop string, settings observer.Settings) (metric.MeterProvider, func(context.Context) error, error) {
	logger := settings.Logger
	exporter := off
	if s.environment {
		exporter = exporterFromEnv(logger)
	}
	if exporter == off && len(s.given) == 0 {
		return nil, nil, nil
	}

	res, err := newResource(ctx, loop, logger)
	if err != nil {
		return nil, nil, err
	}
	var failed []error
	options := []sdkmetric.Option{sdkmetric.WithResource(res)}
	for _, reader := range s.given {
		if err := unused(reader); err != nil {
			failed = append(failed, err)
			continue
		}
		options = append(options, sdkmetric.WithReader(reader))
	}
	if exporter != off {
		reader, err := newPeriodicReader(ctx, exporter, res, logger)
		if err != nil {
			failed = append(failed, err)
		} else {
			options = append(options, sdkmetric.WithReader(reader))
		}
	}
	if len(options) == 1 { // the resource
		return nil, nil, errors.Join(failed...)
	}
	for _, err := range failed {
		warn(logger, "observer: exporting without a part that cannot be used", err)
	}
	provider := sdkmetric.NewMeterProvider(options...)
	return provider, provider.Shutdown, nil
}

// unused returns an error for a reader that is, or was, another provider's. The
// SDK would only log that, and the reader would go on collecting nothing.
func unused(reader sdkmetric.Reader) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("reader %T: panic: %v", reader, reason)
		}
	}()
	// A collection that is cancelled before it starts tells the state of the
	// reader and takes nothing from the provider that it may belong to.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	switch err := reader.Collect(ctx, new(metricdata.ResourceMetrics)); {
	case errors.Is(err, sdkmetric.ErrReaderNotRegistered):
		return nil
	case errors.Is(err, sdkmetric.ErrReaderShutdown):
		return fmt.Errorf("reader %T was already used and is shut down: make a new one for each Start", reader)
	default:
		return fmt.Errorf("reader %T already belongs to another provider", reader)
	}
}

// warn writes one line to the application's logger and survives a panic in it.
func warn(logger *slog.Logger, message string, err error) {
	defer func() { _ = recover() }() // there is nowhere left to report it
	logger.Warn(message, slog.Any("error", err))
}
