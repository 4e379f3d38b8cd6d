package main

// row is a row of the dashboard, under a heading.
type row struct {
	title  string
	panels []panel
}

// panel is one picture. Its description has what the catalogue says of each
// signal in it.
type panel struct {
	title   string
	note    string // how to read the picture, where that is not plain
	drawn   drawing
	unit    string // in Grafana's words
	width   uint32 // of 24
	queries []query
}

// query is one or more lines of a panel.
type query struct {
	legend string
	expr   expression
}

// Legends and grouping. A line belongs to a process, not to one of its loops or
// to a scope, so that a new version does not begin a new line.
const (
	each  = "by (job, instance)"
	named = "{{job}} {{instance}}"
)

// rows are in the order of the live page.
var rows = []row{
	{"What is slow", []panel{
		{
			title: "Verdict",
			note: "A coloured stretch is time for which the cause was the verdict of some process; the value is of how many at once, " +
				"0.5 for one process half of the time. Without colour nothing was slow.",
			drawn: timeline, unit: "none", width: 24,
			queries: []query{{"{{nemo_gym_cause}}", `sum by (nemo_gym_cause) (rate(<gym.slow_time>[$__rate_interval]))`}},
		},
		{
			title: "What it was",
			note:  "The time of each cause in the range that the dashboard shows, summed over the processes.",
			drawn: bars, unit: "s", width: 12,
			queries: []query{{"{{nemo_gym_cause}}", `sort_desc(sum by (nemo_gym_cause) (increase(<gym.slow_time>[$__range])))`}},
		},
		{
			title: "Which process it was",
			note:  "The processes that were slow for longest in the range that the dashboard shows, with the cause. Choose one above to see its signals alone.",
			drawn: bars, unit: "s", width: 12,
			queries: []query{{"{{nemo_gym_cause}}, " + named, `sort_desc(topk(10, sum by (job, instance, nemo_gym_cause) (increase(<gym.slow_time>[$__range]))))`}},
		},
	}},
	{"What everything waits for", []panel{
		{
			title: "Load by cause",
			note: "Summed over the processes, and so are the processors. That line is there where the processes export it beside the observer's signals, " +
				"as OpenTelemetry's runtime instrumentation and the Go collector of Prometheus's client do. " +
				"Descriptors and memory are shares, and have a panel of their own.",
			drawn: stack, unit: "none", width: 24,
			queries: []query{
				{"{{nemo_gym_cause}}", expression(`sum by (nemo_gym_cause) (<gym.load>{nemo_gym_cause!~"` + shares + `"})`)},
				{processors, `sum(go_processor_limit{` + selection + `} or on (job, instance) go_sched_gomaxprocs_threads{` + selection + `})`},
			},
		},
	}},
	{"Lag", []panel{
		{
			title: "Lag, every sample",
			note:  "The stronger the colour, the more samples were this late. Two bands are two groups of processes, or two phases of one.",
			drawn: heat, unit: "ms", width: 12,
			queries: []query{{"{{le}}", `sum by (le) (increase(<gym.event_loop.lag_ms>_bucket[$__rate_interval]))`}},
		},
		{title: "Lag", note: ofBuckets, drawn: lines, unit: "ms", width: 12, queries: quantiles("gym.event_loop.lag_ms")},
		{title: "Run queue", note: ofBuckets, drawn: lines, unit: "none", width: 12, queries: quantiles("gym.event_loop.run_queue")},
		{title: "Goroutines", drawn: lines, unit: "none", width: 12, queries: levels("gym.event_loop.tasks")},
	}},
	{"Requests", []panel{
		{title: "Requests in flight", drawn: lines, unit: "none", width: 12, queries: levels("gym.server.requests.in_flight")},
		{title: "Outbound requests in flight", drawn: lines, unit: "none", width: 12, queries: levels("gym.http.client.requests.in_flight")},
		{
			title: "Responses by class", drawn: stack, unit: "cps", width: 8,
			queries: []query{{"{{class}}xx", `sum by (class) (label_replace(rate(<gym.server.responses_total>[$__rate_interval]), "class", "$1", "http_response_status_code", "(.).."))`}},
		},
		{
			title: "Cancelled requests",
			note:  "The routes are in the label http_route.",
			drawn: stack, unit: "cps", width: 8,
			queries: []query{{"{{nemo_gym_request_phase}}", `sum by (nemo_gym_request_phase) (rate(<gym.server.requests.cancelled_total>[$__rate_interval]))`}},
		},
		{title: "Unhandled exceptions", drawn: lines, unit: "cps", width: 8, queries: rates("gym.server.requests.unhandled_exceptions_total")},
	}},
	{"Garbage collection", []panel{
		{title: "Pauses", note: ofBuckets, drawn: lines, unit: "ms", width: 12, queries: quantiles("gym.gc.pause_duration_ms")},
		{
			title: "What the collector takes",
			note:  "Stopped is the share of the time in which pauses stopped the process. CPU is the collector's share of the CPU time that the process used.",
			drawn: lines, unit: "percentunit", width: 12,
			queries: []query{
				{"stopped, " + named, `sum ` + each + ` (rate(<gym.gc.pause_duration_ms>_sum[$__rate_interval])) / 1000`},
				{"CPU, " + named, `sum ` + each + ` (<gym.load>{nemo_gym_cause="gc"}) / sum ` + each + ` (rate(<process.cpu.time>[$__rate_interval]))`},
			},
		},
		{title: "Collections", drawn: lines, unit: "cps", width: 6, queries: rates("gym.gc.collections_total")},
		{title: "Objects freed", drawn: lines, unit: "cps", width: 6, queries: rates("gym.gc.collected_total")},
		{title: "Objects with finalizers", drawn: lines, unit: "cps", width: 6, queries: rates("gym.gc.uncollectable_total")},
		{title: "Objects since the last collection", drawn: lines, unit: "short", width: 6, queries: levels("gym.gc.count")},
	}},
	{"Process", []panel{
		{
			title: "CPU", note: "In processors: 1 is one of them, all the time.", drawn: stack, unit: "none", width: 8,
			queries: []query{{named + " {{cpu_mode}}", `sum by (job, instance, cpu_mode) (rate(<process.cpu.time>[$__rate_interval]))`}},
		},
		{title: "Memory", drawn: lines, unit: "bytes", width: 8, queries: levels("process.memory.usage")},
		{
			title: "Hard limits", note: "The share of RLIMIT_NOFILE that is in use, and of GOMEMLIMIT or the container's memory: at 1, calls fail or the process is killed.",
			drawn: lines, unit: "percentunit", width: 8,
			queries: []query{{"{{nemo_gym_cause}}, " + named, expression(`max by (job, instance, nemo_gym_cause) (<gym.load>{nemo_gym_cause=~"` + shares + `"})`)}},
		},
		{title: "Threads", drawn: lines, unit: "none", width: 12, queries: levels("process.thread.count")},
		{title: "Descriptors", drawn: lines, unit: "none", width: 12, queries: levels("process.unix.file_descriptor.count")},
	}},
	{"Rollout driver", []panel{
		{title: "Offered", drawn: lines, unit: "cps", width: 8, queries: rates("gym.driver.rollouts.offered_total")},
		{title: "Resident", drawn: lines, unit: "none", width: 8, queries: levels("gym.driver.rollouts.resident")},
		{title: "Active", drawn: lines, unit: "none", width: 8, queries: levels("gym.driver.rollouts.active")},
		{title: "Wait for admission", note: ofBuckets, drawn: lines, unit: "ms", width: 12, queries: quantiles("gym.driver.admission_duration_ms")},
		{title: "Abandoned waits", drawn: lines, unit: "cps", width: 12, queries: rates("gym.driver.admission_abandoned_total")},
		{title: "Output write", note: ofBuckets, drawn: lines, unit: "ms", width: 8, queries: quantiles("gym.driver.output_write_duration_ms")},
		{title: "Size of an output write", note: ofBuckets, drawn: lines, unit: "bytes", width: 8, queries: quantiles("gym.driver.output_write_bytes")},
		{title: "Materializing an input", note: ofBuckets, drawn: lines, unit: "ms", width: 8, queries: quantiles("gym.driver.materialize_duration_ms")},
		{title: "Input items of a rollout", note: ofBuckets, drawn: lines, unit: "none", width: 6, queries: quantiles("gym.driver.rollout.input_items")},
		{title: "Output items of a rollout", note: ofBuckets, drawn: lines, unit: "none", width: 6, queries: quantiles("gym.driver.rollout.output_items")},
		{title: "Turns of a rollout", note: ofBuckets, drawn: lines, unit: "none", width: 6, queries: quantiles("gym.driver.rollout.turns")},
		{title: "Tool calls of a rollout", note: ofBuckets, drawn: lines, unit: "none", width: 6, queries: quantiles("gym.driver.rollout.tool_calls")},
	}},
	{"Oldest work, and time taken away", []panel{
		{title: "Oldest request", drawn: lines, unit: "s", width: 8, queries: levels("gym.server.requests.oldest_age")},
		{title: "Oldest outbound request", drawn: lines, unit: "s", width: 8, queries: levels("gym.http.client.requests.oldest_age")},
		{title: "Oldest rollout", drawn: lines, unit: "s", width: 8, queries: levels("gym.driver.rollouts.oldest_age")},
		{title: "Throttled", note: "In seconds per second.", drawn: lines, unit: "none", width: 12, queries: rates("process.cpu.throttled_time")},
		{title: "Run delay", note: "In threads: 1 is one of them waiting all the time.", drawn: lines, unit: "none", width: 12, queries: rates("process.cpu.run_delay")},
	}},
}

// processors is the line beside the load.
const processors = "processors"

// ofBuckets is what a classic histogram can tell.
const ofBuckets = "Of all the processes together, interpolated in buckets; max is the upper edge of the highest bucket with a value."

// quantiles reads a histogram.
func quantiles(signal string) []query {
	buckets := expression("sum by (le) (rate(<" + signal + ">_bucket[$__rate_interval]))")
	return []query{
		{"p50", "histogram_quantile(0.5, " + buckets + ")"},
		{"p99", "histogram_quantile(0.99, " + buckets + ")"},
		{"max", "histogram_quantile(1, " + buckets + ")"},
	}
}

// levels reads a gauge or an up-down counter.
func levels(signal string) []query {
	return []query{{named, expression("sum " + each + " (<" + signal + ">)")}}
}

// rates reads a counter.
func rates(signal string) []query {
	return []query{{named, expression("sum " + each + " (rate(<" + signal + ">[$__rate_interval]))")}}
}
