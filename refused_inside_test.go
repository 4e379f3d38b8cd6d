package observer

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// refusing is a provider that makes all instruments but one.
type refusing struct {
	metric.MeterProvider
	name string
}

type refusingMeter struct {
	metric.Meter
	name string
}

func (p refusing) Meter(name string, options ...metric.MeterOption) metric.Meter {
	return refusingMeter{p.MeterProvider.Meter(name, options...), p.name}
}

func (m refusingMeter) Int64ObservableUpDownCounter(name string, options ...metric.Int64ObservableUpDownCounterOption) (metric.Int64ObservableUpDownCounter, error) {
	if name == m.name {
		return nil, errors.New("refused by the test")
	}
	return m.Meter.Int64ObservableUpDownCounter(name, options...)
}

// Of the two names of the descriptors each has the truth, or nothing, also where the
// other has no instrument.
func TestDescriptorsHaveNoInventedZeroWhereOneNameIsRefused(t *testing.T) {
	for refused, other := range map[string]string{
		ProcessOpenFDsInstrument: ProcessUnixFDsInstrument,
		ProcessUnixFDsInstrument: ProcessOpenFDsInstrument,
	} {
		t.Run(refused, func(t *testing.T) {
			reader := sdkmetric.NewManualReader()
			i := &inside{source: &settableSource{openFiles: 16}}
			i.manual = manuallyOver(t, refusing{sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), refused})
			i.session.collector.process = i.source
			for range 2 {
				now := i.collect(t, reader)
				assert.NotContains(t, now, refused)
				assert.Equal(t, 16.0, now[other])
			}
			i.source.descriptorsFail = errors.New("not to be read")
			assert.NotContains(t, i.collect(t, reader), other)
		})
	}
}
