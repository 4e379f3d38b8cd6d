package main

import "fmt"

// target is what a measurement should come to. Its values are one a round; the
// median decides.
type target struct {
	what    string
	values  func(results) []float64
	unit    string
	atMost  float64
	atLeast float64 // where atMost is 0 and this is not
}

// The families that targets speak of.
const (
	live        = "middleware, live HTTP/1"
	fake        = "middleware, fake writer"
	outbound    = "transport"
	admission   = "admission"
	tight       = "admission, tight loop"
	crowd       = "admission, 16,000 goroutines over 64 slots"
	rollout     = "one rollout's records"
	rolloutLoop = "one rollout's records, tight loop"
	collected   = "collection"
	collected10 = "collection with 10,000 descriptors"
	loaded      = "throughput of a loopback server at full load"
	idle        = "idle process"
	size        = "import cost"
	scaled      = "scaling"
)

func targets() []target {
	all := []target{
		{what: "middleware adds", values: added(live, withObserver, bareHandler), unit: "ns", atMost: 110},
		{what: "middleware, allocations", values: allocations(live, withObserver), unit: "an operation", atMost: 1},
		{what: "middleware, allocated", values: allocated(live, withObserver), unit: "B", atMost: 64},
		{what: "middleware adds, of what promhttp adds", values: share(added(live, withObserver, bareHandler), added(live, withPromhttp, bareHandler)), atMost: 1. / 5},
		{what: "middleware adds, of what otelhttp adds", values: share(added(live, withObserver, bareHandler), added(live, withOtelhttp, bareHandler)), atMost: 1. / 40},
		{what: "middleware adds, not running", values: added(live, notRunning, bareHandler), unit: "ns", atMost: 3},
		{what: "middleware, allocations, not running", values: allocations(live, notRunning), unit: "an operation"},
		{what: "middleware adds, fake writer", values: added(fake, withObserver, bareHandler), unit: "ns", atMost: 110},
		{what: "middleware adds, not running, fake writer", values: added(fake, notRunning, bareHandler), unit: "ns", atMost: 3},
		{what: "transport adds", values: added(outbound, withObserver, bareTransport), unit: "ns", atMost: 10},
		{what: "transport, allocations", values: allocations(outbound, withObserver), unit: "an operation"},
		{what: "admission adds", values: added(admission, withObserver, bareSemaphore), unit: "ns", atMost: 160},
		{what: "admission, allocations", values: allocations(admission, withObserver), unit: "an operation"},
		{what: "admission adds, tight loop", values: added(tight, withObserver, bareSemaphore), unit: "ns", atMost: 160},
		{what: "admission, 16,000 over 64, of the bare throughput", values: share(values(crowd, withObserver), values(crowd, bareSemaphore)), atLeast: 0.85},
		{what: "one rollout's records", values: values(rollout, withObserver), unit: "ns", atMost: 700},
		{what: "one rollout's records, allocations", values: allocations(rollout, withObserver), unit: "an operation"},
		{what: "one rollout's records, tight loop", values: values(rolloutLoop, withObserver), unit: "ns", atMost: 700},
		{what: "collection", values: values(collected, withObserver), unit: "ns", atMost: 40_000},
		{what: "collection, allocations", values: allocations(collected, withObserver), unit: "an operation", atMost: 150},
		{what: "collection, allocations of the observer's own", values: allocations(collected, callbackAlone), unit: "an operation"},
		{what: "collection with 10,000 descriptors", values: values(collected10, withObserver), unit: "ns", atMost: 40_000},
		{what: "collection with 10,000 descriptors, allocations", values: allocations(collected10, withObserver), unit: "an operation", atMost: 150},
		{what: "throughput at full load, of bare", values: values(loaded, withObserver), atLeast: 0.99},
		{what: "idle process, of one core", values: values(idle, idleObserver), unit: "%", atMost: 0.3},
		{what: "import adds", values: added(size, rootImport, apiAlone), unit: "MB", atMost: 0.6},
	}
	for _, c := range []struct {
		what, with, without, machines string
	}{
		{"middleware", scaledMiddleware, bareHandler, shareOfMiddleware},
		{"transport", scaledTransport, bareTransport, shareOfTransport},
		{"admission", scaledAdmission, bareSemaphore, shareOfAdmission},
	} {
		for _, processors := range processorCounts[1:] {
			expected := sum(
				added(scaled, onProcessors(c.with, 1), onProcessors(c.without, 1)),
				added(scaled, onProcessors(c.machines, processors), onProcessors(c.machines, 1)))
			all = append(all, target{
				what:   fmt.Sprintf("%s adds with GOMAXPROCS=%d, of what it adds with 1 and the machine's share", c.what, processors),
				values: share(added(scaled, onProcessors(c.with, processors), onProcessors(c.without, processors)), expected),
				atMost: 1.25,
			})
		}
	}
	return all
}

// values are those of one case.
func values(family, name string) func(results) []float64 {
	return ofSamples(family, name, func(s sample) float64 { return s.value })
}

func allocations(family, name string) func(results) []float64 {
	return ofSamples(family, name, func(s sample) float64 { return s.allocs })
}

func allocated(family, name string) func(results) []float64 {
	return ofSamples(family, name, func(s sample) float64 { return s.bytes })
}

func ofSamples(family, name string, of func(sample) float64) func(results) []float64 {
	return func(all results) (found []float64) {
		s, measured := all[[2]string{family, name}]
		if !measured {
			return nil
		}
		for _, sample := range s.samples {
			found = append(found, of(sample))
		}
		return found
	}
}

// added is what a case costs more than another in the same round.
func added(family, name, without string) func(results) []float64 {
	return difference(values(family, name), values(family, without))
}

func difference(a, b func(results) []float64) func(results) []float64 {
	return byRound(a, b, func(a, b float64) float64 { return a - b })
}

func sum(a, b func(results) []float64) func(results) []float64 {
	return byRound(a, b, func(a, b float64) float64 { return a + b })
}

func share(a, b func(results) []float64) func(results) []float64 {
	return byRound(a, b, func(a, b float64) float64 { return a / b })
}

func byRound(a, b func(results) []float64, of func(a, b float64) float64) func(results) []float64 {
	return func(all results) (found []float64) {
		others := b(all)
		for round, value := range a(all) {
			if round < len(others) {
				found = append(found, of(value, others[round]))
			}
		}
		return found
	}
}
