package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"golang.org/x/sys/cpu"

	"github.com/gym-observer/observer"
)

// recordsPerRollout are a materialization, an output write's duration and size,
// and four counts.
const recordsPerRollout = 7

func records() *family {
	return recordFamily(&family{
		name:  rollout,
		about: "A materialization, an output write's duration and bytes, and the four sizes: 32 rollouts, then what waits to be exported is passed on with the clock stopped.",
		unit:  "ns",
	}, pacedBatch/8)
}

func tightRecords() *family {
	return recordFamily(&family{
		name:  rolloutLoop,
		about: "The same without a pause, as no rollout does it.",
		unit:  "ns",
	}, 0)
}

func recordFamily(f *family, batch int) *family {
	for _, c := range []struct {
		name     string
		role     role
		observed bool
		record   func() func()
	}{
		{"seven atomic additions", floor, false, countRollout},
		{withObserver, ours, true, recordRollout},
		{notRunning, ours, false, recordRollout},
		{otelByHand, peer, false, otelRollout},
		{promByHand, peer, false, promRollout},
	} {
		run := func(o *observed, e effort) (sample, error) {
			record := c.record()
			return operation{
				repeat: func(n int) {
					for range n {
						record()
					}
				},
				batch:   batch,
				between: o.collectIfAny,
			}.time(e), nil
		}
		f.cases = append(f.cases, &testCase{c.name, c.role, observedOrNot(c.observed, run)})
	}
	return f
}

func countRollout() func() {
	var counters [recordsPerRollout]struct {
		atomic.Int64
		_ cpu.CacheLinePad
	}
	return func() {
		for i := range counters {
			counters[i].Add(1)
		}
	}
}

func recordRollout() func() {
	ctx := context.Background()
	observer.Driver().Offer(1)
	return func() {
		driver := observer.Driver()
		driver.RecordMaterialize(ctx, 3*time.Millisecond)
		driver.RecordOutputWrite(ctx, 2*time.Millisecond, 4096)
		driver.RecordRollout(ctx, observer.RolloutSize{InputItems: 4, OutputItems: 3, Turns: 2, ToolCalls: 5})
	}
}

func otelRollout() func() {
	ctx := context.Background()
	meter := providerOf(sdkmetric.NewManualReader()).Meter("bench")
	materialize, _ := meter.Float64Histogram("materialize") // the names are constants
	duration, _ := meter.Float64Histogram("duration")
	bytes, _ := meter.Int64Histogram("bytes")
	input, _ := meter.Int64Histogram("input")
	output, _ := meter.Int64Histogram("output")
	turns, _ := meter.Int64Histogram("turns")
	toolCalls, _ := meter.Int64Histogram("tool_calls")
	return func() {
		materialize.Record(ctx, 3)
		duration.Record(ctx, 2)
		bytes.Record(ctx, 4096)
		input.Record(ctx, 4)
		output.Record(ctx, 3)
		turns.Record(ctx, 2)
		toolCalls.Record(ctx, 5)
	}
}

func promRollout() func() {
	var histograms [recordsPerRollout]prometheus.Histogram
	for i := range histograms {
		histograms[i] = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "record"})
	}
	values := [recordsPerRollout]float64{3, 2, 4096, 4, 3, 2, 5}
	return func() {
		for i, value := range values {
			histograms[i].Observe(value)
		}
	}
}
