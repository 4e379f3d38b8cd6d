package diagnosis

import "time"

// The thresholds of the rules. Each stands in a gap that was measured between
// processes that do not suffer from the cause (the most that they read) and
// processes that do (the least), on two noisy processors.
const (
	throttledAtLeast = 0.1  // s/s: a quota that is never reached throttles 0, one that is 0.48
	stoppedAtLeast   = 0.1  // of P: no program stops the world so much by accident; 0 against 0.46
	gcAtLeast        = 0.35 // of P: the collector takes a quarter by design, and its limiter caps it at half; 0.22 against 0.49
	delayAtLeast     = 0.25 // of C: less than a quarter of a thread waiting is noise
	delayShare       = 0.5  // of own CPU + run delay: from here on, waiting outweighs running; 0.51 against 0.75
	queueAtLeast     = 1.5  // of P, the median: P busy goroutines leave a queue of up to P; 1.0 against 2.5
	busyAtLeast      = 0.75 // of C, own CPU: a queue without busy processors is a herd of timers; 0.67 against 0.96
	wantedAtLeast    = 0.95 // of C, own CPU + run delay: who has no idle processor wants all of them; 0.91 against 0.99
	writeAtLeast     = 0.9  // writes under way, nearly all the time: from here on a single writer is a queue; 0 against 1 to 3
	lockAtLeast      = 2    // goroutines: the runtime samples one wait in eight, so 0.6 can read as 1.6; 1.6 against 37
	outboundAtLeast  = 8    // requests: a few calls out are how services work; 1 against 32
	admissionAtLeast = 1    // rollouts waiting, all the time; 0.05 against 28
	blockedAtLeast   = 8    // goroutines in system calls or C; 0.15 against 30
	shareAtLeast     = 0.9  // of a hard limit; 0.2 against 0.92
	lagAtLeast       = 0.1  // of the window, past lagAllowance; 0.02 against 0.33

	outboundWaitAtLeast = 100 * time.Millisecond // below it, eight calls are a quick downstream at a high rate
	lagAllowance        = 20 * time.Millisecond  // of each sample: what noisy neighbours and the kernel's timer take

	throttledBarely = 0.01 // s/s: so little throttling leaves the run delay readable
)
