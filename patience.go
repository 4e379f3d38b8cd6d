package observer

import "time"

// How long the application's code is waited for: its provider, its log handler, its
// routers. None of it runs with a lock held.
const (
	// setUpPatience is how long Start waits for the provider to make instruments.
	// The SDK makes none while a callback runs, and another's may hang; the work
	// then goes on in the background.
	setUpPatience = 100 * time.Millisecond

	// A Stop returns within 3 s whatever the provider does, on a crowded machine as
	// well: 2.8 s once took 3.04 beside six busy processes on two processors. The
	// provider is told to be done a little earlier, so that one which obeys can
	// clean up.
	stopPatience  = 2600 * time.Millisecond
	flushPatience = 2300 * time.Millisecond

	// stepPatience is what each step of a close has when Stop has returned: the
	// provider may still come round, and nobody waits for it.
	stepPatience = 5 * time.Second

	// startPatience is how long a Start waits for another one.
	startPatience = 3 * time.Second

	// loopPatience is the part of a Stop that a stuck sampler may use up.
	loopPatience = 500 * time.Millisecond

	// namePatience is how long a diagnosis waits for the application to name routes.
	namePatience = 100 * time.Millisecond

	// passOnPatience is how long a collection waits for what is recorded to reach
	// the provider, should that hang in a histogram. What the collection goes on
	// without is in the next.
	passOnPatience = time.Second
)
