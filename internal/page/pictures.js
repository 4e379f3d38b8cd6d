// The pictures of the page, in their order. A picture is one row here: where it
// stands, what it says of itself, and which values of the history it shows how.
// What a picture says comes from the catalogue of signals, where it shows one.

const rate = (row, n) => n / row.length_seconds;
const signal = (name) => (all) => `${all[name].description} ${all[name].advice}`;
const ofDriver = (value) => (row) => (row.driver ? value(row.driver, row) : null);

const pictures = {
	load: {
		section: 'load', title: 'What work waits for: load by cause', wide: true,
		caption: () => 'What work waits for: the mean number of goroutines, threads, requests and rollouts that wait for each cause. ' +
			'Above the processors, more waits than could run. The verdict, not the largest, is the first to look at: a cause has victims. ' +
			'In a gray band the process did not get to run, and nothing was sampled.',
		draw: drawStack, rows: () => state.windows, unit: count, verdicts: true,
		series: () => state.causes.filter((c) => !c.share).map(({cause}) => ({name: cause, value: (w) => w.load[cause]})),
		limit: {name: 'processors', value: (w) => w.processors},
	},
	lag: {
		section: 'scheduler', title: 'Lag: how late goroutines run', wide: true,
		caption: signal('gym.event_loop.lag_ms'),
		draw: drawHeat, rows: () => state.seconds, unit: duration,
	},
	requests: {
		section: 'requests', title: 'Requests in flight',
		caption: signal('gym.server.requests.in_flight'),
		draw: drawLines, rows: () => state.seconds, unit: count,
		series: () => [
			{name: 'served here', color: 'first', value: (s) => s.in_flight},
			{name: 'outbound, waiting for an answer', color: 'second', dash: 'dashed', value: (s) => s.outbound},
		],
	},
	responses: {
		section: 'requests', title: 'Responses',
		caption: signal('gym.server.responses_total'),
		draw: drawStack, rows: () => state.seconds, unit: count, axis: '/s',
		series: () => ['5xx', '4xx', '3xx', '1xx', 'other', '2xx'].map((name) => ({name, value: (s) => rate(s, s.responses[name])})),
	},
	cpu: {
		section: 'process', title: 'CPU',
		caption: signal('process.cpu.time'),
		draw: drawLines, rows: () => state.windows, unit: count,
		series: () => [
			{name: 'processors used', color: 'first', value: (w) => w.cpu},
			{name: 'may be used', color: 'cpus', dash: 'dashed', value: (w) => w.cpus},
		],
	},
	memory: {
		section: 'process', title: 'Resident memory',
		caption: signal('process.memory.usage'),
		draw: drawLines, rows: () => state.windows, unit: bytes, binary: true,
		series: () => [{name: 'resident', color: 'first', value: (w) => w.memory_bytes}],
	},
	pauses: {
		section: 'process', title: 'Collector\'s pauses',
		caption: signal('gym.gc.pause_duration_ms'),
		draw: drawLines, rows: () => state.seconds, unit: duration, least: 0.001,
		series: () => [
			{name: 'longest in each second', color: 'first', value: (s) => s.longest_pause_seconds},
			{name: 'all of them, a second', color: 'second', dash: 'dashed', value: (s) => rate(s, s.paused_seconds)},
		],
	},
	collector: {
		section: 'process', title: 'Collector\'s share of the processors',
		caption: () => 'The part of the processors that the garbage collector uses. ' +
			'A quarter is what it takes by design while it works; far above that, allocate less, or raise GOGC or GOMEMLIMIT.',
		draw: drawLines, rows: () => state.windows, unit: percent, least: 0.25,
		series: () => [{name: 'collector', color: 'gc', value: (w) => (w.load.gc === null ? null : w.load.gc / w.processors)}],
	},
	threads: {
		section: 'process', title: 'Threads',
		caption: signal('process.thread.count'),
		draw: drawLines, rows: () => state.windows, unit: count,
		series: () => [{name: 'threads', color: 'first', value: (w) => w.threads}],
	},
	descriptors: {
		section: 'process', title: 'Open descriptors',
		caption: (all) => `${all['process.unix.file_descriptor.count'].description} ${all['process.open_file_descriptor.count'].advice}`,
		draw: drawLines, rows: () => state.windows, unit: count,
		series: () => [{name: 'descriptors', color: 'first', value: (w) => w.descriptors}],
	},
	rollouts: {
		section: 'driver', title: 'Rollouts',
		caption: signal('gym.driver.rollouts.resident'),
		draw: drawLines, rows: () => state.seconds, unit: count,
		series: () => [
			{name: 'resident', color: 'first', value: ofDriver((d) => d.resident)},
			{name: 'active', color: 'third', dash: 'dashed', value: ofDriver((d) => d.active)},
			{name: 'waiting for admission', color: 'second', dash: 'dotted', value: ofDriver((d) => d.waiting)},
		],
	},
	offered: {
		section: 'driver', title: 'Demand',
		caption: signal('gym.driver.rollouts.offered_total'),
		draw: drawLines, rows: () => state.seconds, unit: count, axis: '/s',
		series: () => [
			{name: 'offered', color: 'first', value: ofDriver((d, s) => rate(s, d.offered))},
			{name: 'admitted', color: 'third', dash: 'dashed', value: ofDriver((d, s) => rate(s, d.admissions))},
		],
	},
	admission: {
		section: 'driver', title: 'Wait for admission',
		caption: signal('gym.driver.admission_duration_ms'),
		draw: drawLines, rows: () => state.seconds, unit: duration, least: 0.001,
		series: () => [{
			name: 'mean wait of those admitted', color: 'second',
			value: ofDriver((d) => (d.admissions === 0 ? null : d.waited_seconds / d.admissions)),
		}],
	},
};
