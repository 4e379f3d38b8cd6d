package observer

import (
	"context"
	"fmt"
	"reflect"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/gym-observer/observer/internal/env"
	"github.com/gym-observer/observer/internal/survive"
)

// findProvider decides whether telemetry is on and where it goes. Shutdown is
// not nil where the provider is this package's to shut down.
func (c *config) findProvider(ctx context.Context, loopName string) (_ metric.MeterProvider, shutdown func(context.Context) error, err error) {
	if c.provider != nil {
		return c.provider, nil, nil
	}
	if c.open != nil {
		provider, shutdown, err := c.callOpen(ctx, loopName)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("observer: opening the provider: %w", err)
		case provider != nil:
			if shutdown == nil {
				shutdown = func(context.Context) error { return nil }
			}
			return provider, shutdown, nil
		}
	}
	global := otel.GetMeterProvider()
	switch {
	case enabled(global):
		return global, nil, nil
	case c.open != nil:
		return nil, nil, fmt.Errorf("%w: the environment leaves the given provider off, and none is installed", ErrOff)
	}
	return nil, nil, fmt.Errorf("%w: no provider is given and none is installed", ErrOff)
}

func (c *config) callOpen(ctx context.Context, loopName string) (provider metric.MeterProvider, shutdown func(context.Context) error, err error) {
	defer survive.Catch(&err)
	provider, shutdown, err = c.open(ctx, loopName, c.settings)
	if survive.IsNil(provider) {
		provider = nil
	}
	return provider, shutdown, err
}

// enabled reports whether a provider would take what is recorded: the global
// one that nobody has set, the API's no-op, and an SDK without a reader would
// not. It asks all histograms, since a View may drop some.
func enabled(provider metric.MeterProvider) bool {
	on, _, err := survive.Within(setUpPatience, func() (bool, error) {
		made, _ := newHistograms(provider.Meter(scopeName, metric.WithInstrumentationVersion(env.VersionOf(scopeName))), nil)
		return made.enabled(), nil
	})
	// Only one that is collecting makes its callers wait. One that panics is none to
	// use.
	return on || err == survive.ErrSlow
}

// sameProvider reports whether two providers are one. Comparable types are not
// enough: == panics where an interface inside holds a value that is not.
func sameProvider(a, b metric.MeterProvider) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}
