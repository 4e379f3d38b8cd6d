package demo

import (
	"context"
	"fmt"
	"runtime"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
)

// Readout reads what the observer exports, in the process itself.
type Readout struct {
	// Reader is for export.FromEnv.
	Reader *sdkmetric.ManualReader

	last time.Time
}

// NewReadout returns a readout whose readings are differences.
func NewReadout() *Readout {
	reader := sdkmetric.NewManualReader(sdkmetric.WithTemporalitySelector(sdkmetric.DeltaTemporalitySelector))
	return &Readout{Reader: reader, last: time.Now()}
}

// Report prints a line about each reading until ctx ends. It prints none where
// every is 0, or where nothing observes the process.
func (r *Readout) Report(ctx context.Context, every time.Duration, line func(Reading) string) {
	var tick <-chan time.Time
	if every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick:
			if reading, err := r.Read(); err == nil {
				fmt.Printf("%s  %s\n", now.Format(time.TimeOnly), line(reading))
			}
		}
	}
}

// Reading is what was exported since the one before.
type Reading struct {
	Took   time.Duration
	values map[string]Value
}

// Value is one metric, the points of its attributes added up.
type Value struct {
	Sum   float64 // of a histogram's values; the value itself of any other metric
	Count uint64  // of a histogram's values
	Max   float64 // the largest of them
}

// Read collects, as an exporter does.
func (r *Readout) Read() (Reading, error) {
	var collected metricdata.ResourceMetrics
	if err := r.Reader.Collect(context.Background(), &collected); err != nil {
		return Reading{}, err
	}
	now := time.Now()
	reading := Reading{now.Sub(r.last), make(map[string]Value)}
	r.last = now
	for _, scope := range collected.ScopeMetrics {
		for _, metric := range scope.Metrics {
			reading.values[metric.Name] = valueOf(metric.Data)
		}
	}
	return reading, nil
}

// Value returns a metric by its name; the zero value for one without a point.
func (r Reading) Value(name string) Value { return r.values[name] }

// Mean returns the mean of a histogram's values, 0 if there are none.
func (v Value) Mean() float64 {
	if v.Count == 0 {
		return 0
	}
	return v.Sum / float64(v.Count)
}

// Lag says how late goroutines ran.
func (r Reading) Lag() string {
	lag := r.Value(observer.EventLoopLagInstrument)
	return fmt.Sprintf("%.2f ms (worst %.1f)", lag.Mean(), lag.Max)
}

// GC says how often the collector ran, and how long it stopped the program.
func (r Reading) GC() string {
	return fmt.Sprintf("%.0f (%.1f ms)",
		r.Value(observer.GCCollectionsInstrument).Sum, r.Value(observer.GCPauseInstrument).Sum)
}

// CPU says how many processors were in use.
func (r Reading) CPU() string {
	return fmt.Sprintf("%.2f of %d",
		r.Value(observer.ProcessCPUTimeInstrument).Sum/r.Took.Seconds(), runtime.GOMAXPROCS(0))
}

func valueOf(data metricdata.Aggregation) Value {
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		return add(data.DataPoints)
	case metricdata.Sum[float64]:
		return add(data.DataPoints)
	case metricdata.Gauge[int64]:
		return add(data.DataPoints)
	case metricdata.Histogram[int64]:
		return addHistograms(data.DataPoints)
	case metricdata.Histogram[float64]:
		return addHistograms(data.DataPoints)
	}
	return Value{}
}

func add[N int64 | float64](points []metricdata.DataPoint[N]) (v Value) {
	for _, point := range points {
		v.Sum += float64(point.Value)
	}
	return v
}

func addHistograms[N int64 | float64](points []metricdata.HistogramDataPoint[N]) (v Value) {
	for _, point := range points {
		v.Sum += float64(point.Sum)
		v.Count += point.Count
		if highest, ok := point.Max.Value(); ok {
			v.Max = max(v.Max, float64(highest))
		}
	}
	return v
}
