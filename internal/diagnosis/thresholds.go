package diagnosis

import "time"

// The thresholds of the rules. Each stands in a gap that was measured between
// processes that do not suffer from the cause (the most that they read) and
// processes that do (the least), on two noisy processors. P is GOMAXPROCS, C the
// CPUs that the process may use, at most P.
const (
	throttledAtLeast = 0.1  // s/s: a quota that is never reached throttles 0, one that is 0.48
	throttledBarely  = 0.01 // s/s: so little throttling leaves the run delay readable

	stoppedAtLeast = 0.1 // of P: no program stops the world so much by accident; 0 against 0.46

	gcAtLeast        = 0.35 // of P: the collector takes a quarter by design, and its limiter caps it at half; 0.22 against 0.49
	gcLimitedAtLeast = 0.2  // of P, with the limiter on: one that was on once in 10 s hid a lock of 27 at 0.14
	gcGoesOn         = 0.2  // of P, in the window before: from here on a collection may last for a window

	delayAtLeast = 0.25 // of C: less than a quarter of a thread waiting is noise
	delayShare   = 0.5  // of own CPU + run delay: from here on, waiting outweighs running; 0.51 against 0.75
	idleAtLeast  = 0.5  // of the CPUs' time: beside so much idle time nobody waits for a CPU, but for a quota that is not seen; 0 under real starvation against 0.82
	lagHurts     = 0.01 // lag share from which on threads that wait are felt; 0 to 0.004 in healthy proxies
	starvedBelow = 0.6  // of C, own CPU: who gets less is starved, if its threads wait long each time; 0.57 starved against 0.61 of a storm of its own

	queueAtLeast  = 1.5  // of P, the median: P busy goroutines leave a queue of up to P; 1.0 against 2.5
	busyAtLeast   = 0.75 // of C, own CPU: a queue without busy processors is a herd of timers; 0.67 against 0.96
	wantedAtLeast = 0.95 // of C, own CPU + run delay: who has no idle processor wants all of them; 0.91 against 0.99
	windowsOfCPU  = 3    // in which each sample has the CPU time, after one that was late: bursts may miss a window or two
	burstLag      = 0.1  // lag share of bursts: a herd that wakes at once reads a mean queue of 18 and up to 0.03, bursts of 300 ms from 0.11 on

	writeAtLeast = 0.9 // writes under way, nearly all the time: from here on a single writer is a queue; 0 against 1 to 3
	writeShare   = 0.5 // of the active rollouts, in writes: 128 rollouts with short writes read 0.9 to 3.3 under way and suffer nothing

	lockAtLeast = 2 // goroutines: the runtime samples one wait in eight, so 0.6 can read as 1.6; 1.6 against 37

	shareAtLeast = 0.9 // of a hard limit; 0.2 against 0.92

	outboundAtLeast = 8   // requests: a few calls out are how services work; 1 against 32
	drivenAtLeast   = 0.5 // requests, beside active rollouts: a driver of one rollout that waits half of the time; a limit of 4 reads 4
	outboundShare   = 0.5 // of the active rollouts, in outbound requests: the others do something else

	admissionAtLeast = 1 // rollouts waiting, all the time; 0.05 against 28

	blockedAtLeast = 8 // goroutines in system calls or C; 0.15 against 30

	// The rule of wait, measured:
	//
	//	                                          waiting       mean
	//	sick, 27 programs                         11.7 to 20    0.126 to 2.5 s
	//	half-used pool                            6.2 to 7.2    0.024 s
	//	long poll, 100 events a second, 300 owed  5.6           3.0 s
	//	worker pool, fan-out, batch               3.0 to 5.6    0.013 to 2.5 s
	//	streams, downloads, uploads, other polls  0 to 0.5      2 s and more
	requestsAtLeast = 8   // requests that wait: between 7.2 and 11.7
	owedShare       = 0.5 // of the requests that somebody waits for: between 5.6 of 300 and 11.7 of 12

	lagAtLeast   = 0.1                   // of the window, past lagAllowance; 0.02 against 0.33
	lagAllowance = 20 * time.Millisecond // of each sample: what noisy neighbours and the kernel's timer take

	// A mean wait. Below it, eight calls are a quick downstream at a high rate, and
	// what waits for a limit or in a request is the coming and going of a system
	// that is used to 80 %: 11 to 24 ms, where sick ones read 126 and more.
	waitAtLeast = 100 * time.Millisecond

	// Run delay each time that a thread is given a processor. 8,500 time slices a
	// second add up to a load of 0.55 that nobody feels: 0.06 to 0.19 ms each.
	// Starved processes read 1.7 to 4.8 ms, and from 0.23 ms on where they have
	// nearly enough.
	sliceHurts   = 500 * time.Microsecond
	sliceStarves = 200 * time.Microsecond
)
