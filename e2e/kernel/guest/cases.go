package main

// cases are all, in the order in which they run. The last one takes the cpu
// controller away from the v2 hierarchy.
var cases = []aCase{
	{"own-quota", true, ownQuota},
	{"parents-quota", true, parentsQuota},
	{"grandparents-quota", false, grandparentsQuota},
	{"siblings-quota", true, siblingsQuota},
	{"quota-changes", true, quotaChanges},
	{"burst", false, burst},
	{"weight-against-a-neighbour", true, weight},
	{"cpu-controller-absent", true, controllerAbsent},
	{"threaded-groups", true, threadedGroups},
	{"cpuset", true, cpuset},
	{"throttling-test", true, throttlingTest},

	{"namespace-old-mount", true, namespaceOldMount},
	{"namespace-fresh-mount", true, namespaceFreshMount},
	{"namespace-hidden-quota", true, namespaceHiddenQuota},
	{"odd-names", true, oddNames},
	{"process-moved", true, processMoved},
	{"group-made-again", true, groupMadeAgain},
	{"hidepid", true, hidepid},
	{"subset-pid", true, subsetPID},
	{"no-proc", true, noProc},

	{"memory-max", true, memoryMax},
	{"parents-memory-max", true, parentsMemoryMax},
	{"memory-high", true, memoryHigh},
	{"warm-cache", true, warmCache},

	{"threads-250", true, func(c *check) { manyThreads(c, 250) }},
	{"threads-1006", false, func(c *check) { manyThreads(c, 1_006) }},
	{"threads-4000", false, func(c *check) { manyThreads(c, 4_000) }},
	{"children", true, children},

	{"verdict-own-quota", false, verdictOwnQuota},
	{"verdict-hidden-quota", false, verdictHiddenQuota},
	{"verdict-memory-high", false, verdictMemoryHigh},
	{"verdict-warm-cache", false, verdictWarmCache},

	{"hybrid", false, hybrid},
}
