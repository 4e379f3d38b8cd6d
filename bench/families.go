package main

// families lists everything that is measured, in the order of the table.
func families() []*family {
	return []*family{
		liveMiddleware(),
		fakeMiddleware(),
		writingMiddleware(),
		realMiddleware(),
		streamingMiddleware(),
		proxyingMiddleware(),
		transports(),
		admissions(),
		tightAdmissions(),
		contendedAdmissions(),
		records(),
		tightRecords(),
		collections(collected, 0),
		collections(collected10, 10_000),
		throughputs(),
		cpuPerRequest(),
		idleProcesses(),
		importCosts(),
		scaling(),
		growth(),
	}
}
