package observer

// The names of the instruments, as NeMo Gym's Python processes export them.
const (
	EventLoopLagInstrument      = "gym.event_loop.lag_ms"
	EventLoopTasksInstrument    = "gym.event_loop.tasks"
	EventLoopRunQueueInstrument = "gym.event_loop.run_queue"

	GCPauseInstrument         = "gym.gc.pause_duration_ms"
	GCCollectionsInstrument   = "gym.gc.collections_total"
	GCCollectedInstrument     = "gym.gc.collected_total"
	GCUncollectableInstrument = "gym.gc.uncollectable_total"
	GCCountInstrument         = "gym.gc.count"

	ProcessCPUTimeInstrument     = "process.cpu.time"
	ProcessMemoryUsageInstrument = "process.memory.usage"
	ProcessThreadCountInstrument = "process.thread.count"
	ProcessOpenFDsInstrument     = "process.open_file_descriptor.count"
	ProcessUnixFDsInstrument     = "process.unix.file_descriptor.count"

	RequestsInFlightInstrument            = "gym.server.requests.in_flight"
	RequestsUnhandledExceptionsInstrument = "gym.server.requests.unhandled_exceptions_total"
	ResponsesInstrument                   = "gym.server.responses_total"
	RequestsCancelledInstrument           = "gym.server.requests.cancelled_total"
	OutboundInFlightInstrument            = "gym.http.client.requests.in_flight"
	OutboundOldestAgeInstrument           = "gym.http.client.requests.oldest_age"

	DriverOfferedInstrument       = "gym.driver.rollouts.offered_total"
	DriverResidentInstrument      = "gym.driver.rollouts.resident"
	DriverActiveInstrument        = "gym.driver.rollouts.active"
	DriverAdmissionInstrument     = "gym.driver.admission_duration_ms"
	DriverAbandonedInstrument     = "gym.driver.admission_abandoned_total"
	DriverWriteDurationInstrument = "gym.driver.output_write_duration_ms"
	DriverWriteBytesInstrument    = "gym.driver.output_write_bytes"
	DriverMaterializeInstrument   = "gym.driver.materialize_duration_ms"

	RolloutInputItemsInstrument  = "gym.driver.rollout.input_items"
	RolloutOutputItemsInstrument = "gym.driver.rollout.output_items"
	RolloutTurnsInstrument       = "gym.driver.rollout.turns"
	RolloutToolCallsInstrument   = "gym.driver.rollout.tool_calls"
)

// The names of the diagnosis's instruments.
const (
	LoadInstrument              = "gym.load"
	SlowTimeInstrument          = "gym.slow_time"
	RequestsOldestAgeInstrument = "gym.server.requests.oldest_age"
	RolloutsOldestAgeInstrument = "gym.driver.rollouts.oldest_age"
	CPUThrottledTimeInstrument  = "process.cpu.throttled_time"
	CPURunDelayInstrument       = "process.cpu.run_delay"
)

// The keys of the attributes.
const (
	EventLoopAttribute      = "nemo.gym.event_loop"       // the loop name given to Start
	GCGenerationAttribute   = "nemo.gym.gc.generation"    // always 0: Go's collector has no generations
	CPUModeAttribute        = "cpu.mode"                  // "user" or "system"
	HTTPRouteAttribute      = "http.route"                // a registered template, "unmatched" or "overflow"
	HTTPStatusCodeAttribute = "http.response.status_code" // an integer
	RequestPhaseAttribute   = "nemo.gym.request.phase"    // "before_response" or "response_started"
	CauseAttribute          = "nemo.gym.cause"            // a Cause
)

// scopeName is the instrumentation scope of every instrument.
const scopeName = "github.com/gym-observer/observer"
