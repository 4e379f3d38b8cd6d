package export_test

import (
	"context"
	"fmt"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
)

func ExampleFromEnv() {
	defer observer.Start(context.Background(), "server", export.FromEnv()).Stop()
	// Serve, and drain when told to end.
}

func ExampleWithReader() {
	// A test reads what was counted, whatever the environment names.
	reader := sdkmetric.NewManualReader()
	defer observer.Start(context.Background(), "server", export.WithReader(reader)).Stop()

	var data metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &data); err != nil {
		fmt.Println(err)
	}
	fmt.Println(data.ScopeMetrics[0].Scope.Name)
	// Output: github.com/gym-observer/observer
}

func ExampleNewProducer() {
	// A reader of one's own gets the runtime's scheduling latencies as well.
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(export.NewProducer()))
	defer observer.Start(context.Background(), "server", export.WithReader(reader)).Stop()
}
