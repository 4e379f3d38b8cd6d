package main

import (
	"context"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
)

// observed is this process under observation, as an application would have it:
// the default settings and the SDK's provider.
type observed struct {
	*observer.Observer
	reader *sdkmetric.ManualReader
	buffer metricdata.ResourceMetrics // what every collection reuses
}

// observe starts the observer and waits for its first sample: until then it
// looks at a clock where it later has the sample's time.
func observe(options ...observer.Option) (*observed, error) {
	o := &observed{reader: sdkmetric.NewManualReader()}
	o.Observer = observer.Start(context.Background(), "server",
		append(options, observer.WithMeterProvider(providerOf(o.reader)))...)
	if err := o.Err(); err != nil {
		return nil, err
	}
	for o.samples() == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	return o, nil
}

func providerOf(reader sdkmetric.Reader) *sdkmetric.MeterProvider {
	return sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
}

// samples returns how many samples the loops have taken.
func (o *observed) samples() (n uint64) {
	o.collect()
	for _, scope := range o.buffer.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == observer.EventLoopLagInstrument {
				for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
					n += p.Count
				}
			}
		}
	}
	return n
}

// collect reads everything. The reader is open and the buffer is not nil: these
// are its only failures.
func (o *observed) collect() { _ = o.reader.Collect(context.Background(), &o.buffer) }

// whileObserved measures with the observer running.
func whileObserved(run func(*observed, effort) (sample, error), options ...observer.Option) func(effort) (sample, error) {
	return func(e effort) (sample, error) {
		o, err := observe(options...)
		if err != nil {
			return sample{}, err
		}
		defer o.Stop()
		return run(o, e)
	}
}

// observedOrNot measures with the observer running, or with a nil one.
func observedOrNot(on bool, run func(*observed, effort) (sample, error)) func(effort) (sample, error) {
	if on {
		return whileObserved(run)
	}
	return func(e effort) (sample, error) { return run(nil, e) }
}

// collectIfAny is collect, or nothing for a nil one.
func (o *observed) collectIfAny() {
	if o != nil {
		o.collect()
	}
}
