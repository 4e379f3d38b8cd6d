package main

// families lists everything that is measured, in the order of the table.
func families() []*family {
	return []*family{
		liveMiddleware(),
		fakeMiddleware(),
		transports(),
		admissions(),
		tightAdmissions(),
		contendedAdmissions(),
		records(),
		tightRecords(),
		collections("collection", 0),
		collections("collection with 10,000 descriptors", 10_000),
		throughputs(),
		cpuPerRequest(),
		idleProcesses(),
		importCosts(),
		scaling(),
		growth(),
	}
}
