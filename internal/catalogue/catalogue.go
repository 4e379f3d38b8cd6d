// Package catalogue describes every signal that the observer exports: what it
// is, and what to do when it rises. The instruments, the table in the README and
// the dashboards are made from it.
package catalogue

// Kind is a kind of instrument, in OpenTelemetry's terms. All but histograms are
// observables.
type Kind string

// The kinds of instruments.
const (
	Histogram     Kind = "histogram"
	Counter       Kind = "counter"
	UpDownCounter Kind = "up-down counter"
	Gauge         Kind = "gauge"
)

// Signal is one row of the catalogue.
type Signal struct {
	Name        string
	Kind        Kind
	Unit        string // in UCUM's notation
	Fractional  bool   // its values are float64, not int64
	Attributes  []string
	Boundaries  []float64 // of a histogram's buckets, sorted; advice that a View of the application overrides
	Description string    // a sentence, exported with the instrument
	Advice      string    // what to do about it, for the reader of a dashboard
}

// The keys of the attributes.
const (
	EventLoop    = "nemo.gym.event_loop"
	Generation   = "nemo.gym.gc.generation"
	CPUMode      = "cpu.mode"
	Route        = "http.route"
	StatusCode   = "http.response.status_code"
	RequestPhase = "nemo.gym.request.phase"
	Cause        = "nemo.gym.cause"
)

// Bucket boundaries. The SDK answers a list that is not sorted with its own
// defaults, silently. Lag and pauses keep the original's boundaries, so that Go
// and Python processes share a heat map, and add finer ones below, where Go's
// values lie.
var (
	lagBoundaries            = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000}
	pauseBoundaries          = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000}
	driverDurationBoundaries = []float64{0.1, 1, 10, 100, 500, 1000, 5000, 10000, 30000, 60000, 300000, 1800000}
	writeBytesBoundaries     = []float64{1e3, 1e4, 1e5, 1e6, 1e7, 1e8}
	rolloutCountBoundaries   = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096}
	runQueueBoundaries       = []float64{0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096}
)

// Signals are all signals, in the order in which they are explained and read.
var Signals = []Signal{
	{
		Name: "gym.event_loop.lag_ms", Kind: Histogram, Unit: "ms", Fractional: true, Attributes: []string{EventLoop},
		Boundaries:  lagBoundaries,
		Description: "How late a sleeping goroutine runs after its wake-up time, behind those that waited before it.",
		Advice:      "Everything in the process waits this long. Read run_queue, GC pauses and CPU beside it: they name the cause.",
	},
	{
		Name: "gym.event_loop.tasks", Kind: Gauge, Unit: "{task}", Attributes: []string{EventLoop},
		Description: "Goroutines that exist: resident work, not a queue. Exported when the task count is on.",
		Advice:      "A steady climb is a leak: compare two goroutine profiles.",
	},
	{
		Name: "gym.event_loop.run_queue", Kind: Histogram, Unit: "{goroutine}", Attributes: []string{EventLoop},
		Boundaries:  runQueueBoundaries,
		Description: "Goroutines ready to run but not running, at each sample.",
		Advice:      "Above the number of processors, work queues for CPU: take a CPU profile, add processors, or admit less.",
	},
	{
		Name: "gym.gc.pause_duration_ms", Kind: Histogram, Unit: "ms", Fractional: true, Attributes: []string{Generation},
		Boundaries:  pauseBoundaries,
		Description: "One stop-the-world pause of the garbage collector; a cycle has two. To 12.5 %, from the runtime's histogram.",
		Advice:      "Long pauses are mostly time to stop the world: look for CPU starvation before the heap.",
	},
	{
		Name: "gym.gc.collections_total", Kind: Counter, Unit: "{collection}", Attributes: []string{Generation},
		Description: "Finished garbage collection cycles.",
		Advice:      "Many a second burn CPU: allocate less, or raise GOGC or GOMEMLIMIT.",
	},
	{
		Name: "gym.gc.collected_total", Kind: Counter, Unit: "{object}", Attributes: []string{Generation},
		Description: "Heap objects freed.",
		Advice:      "Its rate is the rate of short-lived allocations: take an allocation profile.",
	},
	{
		Name: "gym.gc.uncollectable_total", Kind: Counter, Unit: "{object}", Attributes: []string{Generation},
		Description: "Objects found unreachable but kept for one more cycle, because their finalizer must run first.",
		Advice:      "A high rate means many finalizers: close files and connections explicitly.",
	},
	{
		Name: "gym.gc.count", Kind: Gauge, Unit: "{object}", Attributes: []string{Generation},
		Description: "Heap objects allocated since the last collection, to the resolution of one sample interval.",
		Advice:      "A saw-tooth is healthy; its slope is the allocation rate.",
	},
	{
		Name: "process.cpu.time", Kind: Counter, Unit: "s", Fractional: true, Attributes: []string{CPUMode},
		Description: "CPU time of this process, children excluded.",
		Advice:      "At the number of processors the process is full: take a CPU profile. Much system time points to system calls.",
	},
	{
		Name: "process.memory.usage", Kind: UpDownCounter, Unit: "By",
		Description: "Resident memory of this process.",
		Advice:      "Near the container's limit, set GOMEMLIMIT and take a heap profile.",
	},
	{
		Name: "process.thread.count", Kind: UpDownCounter, Unit: "{thread}",
		Description: "Operating system threads of this process.",
		Advice:      "Far above the processors, goroutines block in system calls or C code.",
	},
	{
		Name: "process.open_file_descriptor.count", Kind: UpDownCounter, Unit: "{file_descriptor}",
		Description: "Open file descriptors of this process, under the name before semantic conventions 1.39.",
		Advice:      "A climb is a leak: a body or a file that nobody closes. At the limit, accept and open fail.",
	},
	{
		Name: "process.unix.file_descriptor.count", Kind: UpDownCounter, Unit: "{file_descriptor}",
		Description: "Open file descriptors of this process.",
		Advice:      "The same number under its newer name.",
	},
	{
		Name: "gym.server.requests.in_flight", Kind: UpDownCounter, Unit: "{request}",
		Description: "Requests inside the middleware.",
		Advice:      "A climb at a steady rate of responses means that each takes longer; one that stays up means stuck handlers.",
	},
	{
		Name: "gym.server.requests.unhandled_exceptions_total", Kind: Counter, Unit: "{exception}",
		Description: "Panics that left a handler.",
		Advice:      "Any increase is a bug: the stack is in the server's log.",
	},
	{
		Name: "gym.server.responses_total", Kind: Counter, Unit: "{response}", Attributes: []string{StatusCode},
		Description: "Responses by final HTTP status.",
		Advice:      "Look at the share of 5xx.",
	},
	{
		Name: "gym.server.requests.cancelled_total", Kind: Counter, Unit: "{request}", Attributes: []string{Route, RequestPhase},
		Description: "Requests whose client went away before the response was complete.",
		Advice:      "Before the response, clients ran out of patience: compare with the lag and with their timeouts.",
	},
	{
		Name: "gym.http.client.requests.in_flight", Kind: UpDownCounter, Unit: "{request}",
		Description: "Outbound requests still waiting for their response headers.",
		Advice:      "A high level means that the process waits for another server.",
	},
	{
		Name: "gym.driver.rollouts.offered_total", Kind: Counter, Unit: "{rollout}",
		Description: "Rollouts handed to dispatch.",
		Advice:      "Its rate is the demand.",
	},
	{
		Name: "gym.driver.rollouts.resident", Kind: UpDownCounter, Unit: "{rollout}",
		Description: "Rollouts that exist and have not finished.",
		Advice:      "Resident less active is the backlog at the limit.",
	},
	{
		Name: "gym.driver.rollouts.active", Kind: UpDownCounter, Unit: "{rollout}",
		Description: "Rollouts admitted past the limit and running.",
		Advice:      "At the limit all the time, the limit or what is behind it decides the throughput.",
	},
	{
		Name: "gym.driver.admission_duration_ms", Kind: Histogram, Unit: "ms", Fractional: true,
		Boundaries:  driverDurationBoundaries,
		Description: "An admitted rollout's wait for the limit.",
		Advice:      "Long waits with idle processors: the limit is too low, or a downstream too slow.",
	},
	{
		Name: "gym.driver.admission_abandoned_total", Kind: Counter, Unit: "{rollout}",
		Description: "Waits for the limit that ended by cancellation, not by admission.",
		Advice:      "Rollouts give up in the queue: their deadline is shorter than the backlog.",
	},
	{
		Name: "gym.driver.output_write_duration_ms", Kind: Histogram, Unit: "ms", Fractional: true,
		Boundaries:  driverDurationBoundaries,
		Description: "One output write.",
		Advice:      "Long writes hold rollouts resident: look at the disk, or write in larger pieces.",
	},
	{
		Name: "gym.driver.output_write_bytes", Kind: Histogram, Unit: "By",
		Boundaries:  writeBytesBoundaries,
		Description: "The size of one output write.",
		Advice:      "Read it beside the write's duration.",
	},
	{
		Name: "gym.driver.materialize_duration_ms", Kind: Histogram, Unit: "ms", Fractional: true,
		Boundaries:  driverDurationBoundaries,
		Description: "Materializing one input.",
		Advice:      "Long ones starve dispatch: offered falls behind what the limit could take.",
	},
	{
		Name: "gym.driver.rollout.input_items", Kind: Histogram, Unit: "{item}",
		Boundaries:  rolloutCountBoundaries,
		Description: "Input items of one completed rollout.",
		Advice:      "Larger rollouts explain slower ones.",
	},
	{
		Name: "gym.driver.rollout.output_items", Kind: Histogram, Unit: "{item}",
		Boundaries:  rolloutCountBoundaries,
		Description: "Output items of one completed rollout.",
		Advice:      "Larger rollouts explain slower ones.",
	},
	{
		Name: "gym.driver.rollout.turns", Kind: Histogram, Unit: "{turn}",
		Boundaries:  rolloutCountBoundaries,
		Description: "Turns of one completed rollout.",
		Advice:      "Each turn is a round trip to the model.",
	},
	{
		Name: "gym.driver.rollout.tool_calls", Kind: Histogram, Unit: "{call}",
		Boundaries:  rolloutCountBoundaries,
		Description: "Tool calls of one completed rollout.",
		Advice:      "Each call is work for a resources server.",
	},
	{
		Name: "gym.load", Kind: Gauge, Unit: "{unit}", Fractional: true, Attributes: []string{Cause},
		Description: "The load of each cause over the last complete window: the mean number of units waiting for it; for descriptors and memory the share in use.",
		Advice:      "Stack the causes beside the number of processors. The verdict, not the largest, is the first to look at: a cause has victims.",
	},
	{
		Name: "gym.slow_time", Kind: Counter, Unit: "s", Fractional: true, Attributes: []string{Cause},
		Description: "Time for which a cause was the verdict.",
		Advice:      "Its increase over five minutes tells what it was at that time. See docs/DIAGNOSIS.md.",
	},
	{
		Name: "gym.server.requests.oldest_age", Kind: Gauge, Unit: "s", Fractional: true,
		Description: "The age of the oldest request in flight.",
		Advice:      "A steady climb is one stuck request: observer.Diagnose names its route.",
	},
	{
		Name: "gym.http.client.requests.oldest_age", Kind: Gauge, Unit: "s", Fractional: true,
		Description: "The age of the oldest outbound request that waits for its response headers.",
		Advice:      "A steady climb is one server that does not answer: observer.Diagnose names those that are waited for.",
	},
	{
		Name: "gym.driver.rollouts.oldest_age", Kind: Gauge, Unit: "s", Fractional: true,
		Description: "The age of the oldest rollout in flight.",
		Advice:      "A steady climb is one stuck rollout: take a goroutine profile.",
	},
	{
		Name: "process.cpu.throttled_time", Kind: Counter, Unit: "s", Fractional: true,
		Description: "Time for which the cgroup's CPU quota stopped the process, summed over processors, read once a window. Linux.",
		Advice:      "Any steady increase: raise the CPU limit, or set GOMAXPROCS to it.",
	},
	{
		Name: "process.cpu.run_delay", Kind: Counter, Unit: "s", Fractional: true,
		Description: "Time for which threads of the process were ready without a processor, summed over threads, read once a window. Linux.",
		Advice:      "Rising faster than the CPU time, others have the processors.",
	},
}
