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
	realHandler = "middleware, a real handler"
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
	loadedCPU   = "CPU time of a request at full load"
	idle        = "idle process"
	size        = "import cost"
	scaled      = "scaling"
)

// windowOf5000Threads is a row of what grows.
var windowOf5000Threads = grownName(growing{what: "threads", cost: ofWindow}, 5000)

// sickWindow is a row of what grows, too.
func sickWindow(requests int) string {
	return grownName(growing{what: "requests", cost: ofSickWindow}, requests)
}

func targets() []target {
	all := []target{
		{what: "middleware, real handler, of what the floor wrapper adds", values: share(added(realHandler, withObserver, bareHandler), added(realHandler, floorWrapper, bareHandler)), atMost: 3.5},
		{what: "middleware, real handler, of what promhttp's chain adds", values: share(added(realHandler, withObserver, bareHandler), added(realHandler, promChain, bareHandler)), atMost: 0.25},
		{what: "middleware, not running, of what the floor wrapper adds", values: share(added(realHandler, notRunning, bareHandler), added(realHandler, floorWrapper, bareHandler)), atMost: 0.1},
		{what: "middleware, allocations", values: allocations(live, withObserver), unit: "an operation", atMost: 1},
		{what: "middleware, allocated", values: allocated(live, withObserver), unit: "B", atMost: 64},
		{what: "middleware, allocations, not running", values: allocations(live, notRunning), unit: "an operation"},
		{what: "server CPU of a request at full load, of bare", values: values(loadedCPU, withObserver), atMost: 1.02},
		{what: "throughput at full load, of bare", values: values(loaded, withObserver), atLeast: 0.985},
		{what: "transport, of what otelhttp adds", values: share(added(outbound, withObserver, bareTransport), added(outbound, withOtelhttp, bareTransport)), atMost: 0.012},
		{what: "transport, allocations", values: allocations(outbound, withObserver), unit: "an operation", atMost: 1},
		{what: "transport, allocated", values: allocated(outbound, withObserver), unit: "B", atMost: 64},
		{what: "admission, of what the SDK by hand adds", values: share(added(admission, withObserver, bareSemaphore), added(admission, otelByHand, bareSemaphore)), atMost: 0.8},
		{what: "admission, allocations", values: allocations(admission, withObserver), unit: "an operation"},
		{what: "admission, 16,000 over 64, of the bare throughput", values: share(values(crowd, withObserver), values(crowd, bareSemaphore)), atLeast: 0.85},
		{what: "a rollout's records in a tight loop, of the SDK by hand", values: share(values(rolloutLoop, withObserver), values(rolloutLoop, otelByHand)), atMost: 1},
		{what: "a rollout's records, allocations", values: allocations(rollout, withObserver), unit: "an operation"},
		{what: "collection, the observer's own part", values: values(collected, callbackAlone), unit: "ns", atMost: 15_000},
		{what: "collection, allocations of the observer's own part", values: allocations(collected, callbackAlone), unit: "an operation"},
		{what: "idle process, of the bare timer", values: share(values(idle, idleObserver), values(idle, idleTimer)), atMost: 1.5},
		{what: "import adds to net/http, the OpenTelemetry API and httpsnoop", values: added(size, rootImport, withSnoop), unit: "MB", atMost: 1.2},
		{what: "a window while 1,000 requests wait, more than a healthy one: 1 % of a core, of 10 s", values: added("growth", sickWindow(1000), sickWindow(1)), unit: "µs", atMost: 100_000},
		{what: "a window while 10,000 requests wait, more than a healthy one", values: added("growth", sickWindow(10_000), sickWindow(1)), unit: "µs", atMost: 100_000},
		{what: "a window beside 5,000 threads", values: values("growth", windowOf5000Threads), unit: "µs", atMost: 35_000},
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
