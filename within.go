package observer

import (
	"errors"
	"runtime"
	"time"

	"github.com/gym-observer/observer/internal/monotonic"
)

// How long the application's code is waited for: its provider, its log handler, its
// routers. None of it runs on a request's path, and none with a lock held.
const (
	// setUpPatience is how long Start waits for the provider to make instruments.
	// The SDK makes none while a callback runs, and another's may hang; the work
	// then goes on in the background.
	setUpPatience = 100 * time.Millisecond

	// A Stop returns within 3 s whatever the provider does. The provider is told
	// to be done a little earlier, so that one which obeys can clean up.
	stopPatience  = 2800 * time.Millisecond
	flushPatience = 2500 * time.Millisecond

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

var (
	// errGoexit stands for the outcome of application code that ended its goroutine.
	errGoexit = errors.New("runtime.Goexit was called")

	// errSlow stands for the outcome of application code that is still running.
	errSlow = errors.New("it has not returned in time")
)

// outcome is what application code came to.
type outcome[T any] struct {
	value T
	err   error // its own, or what became of it: a panic, a Goexit
}

// apart calls the application's code on a goroutine of its own, so that neither a
// panic, nor a Goexit, nor a wait in it reaches the caller. The channel gives its
// outcome, once.
func apart[T any](call func() (T, error)) <-chan outcome[T] {
	done := make(chan outcome[T], 1)
	go func() {
		o := outcome[T]{err: errGoexit}
		defer func() { done <- o }()
		defer catch(&o.err)
		o.value, o.err = call()
	}()
	return done
}

// within calls the application's code apart, and waits for it until patience ends.
// Its error is then errSlow, and late gives the outcome when there is one.
func within[T any](patience time.Duration, call func() (T, error)) (value T, late <-chan outcome[T], err error) {
	done := apart(call)
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case o := <-done:
		return o.value, nil, o.err
	case <-timeout.C:
		return value, done, errSlow
	}
}

// await waits for done until deadline, and reports whether it is done.
func await(done <-chan struct{}, deadline time.Time) bool {
	timeout := time.NewTimer(time.Until(deadline))
	defer timeout.Stop()
	select {
	case <-done:
		return true
	case <-timeout.C:
	}
	select {
	case <-done: // both have come
		return true
	default:
		return false
	}
}

// letReturn gives goroutines that have told of their end, by closing a channel, the
// time to return: nothing in Go tells when they have. Without it, one Stop in 400
// leaves one to those who count goroutines. It waits until none has returned for as
// long as a busy kernel keeps a thread from running, and not for long where others
// come and go. To yield is not enough where the other thread does not run. In a
// bubble of testing/synctest nobody can count too early, and a Stop takes no time.
func letReturn() {
	if monotonic.InBubble() {
		return
	}
	const quiet, most = 4, 20 // milliseconds
	count, still := runtime.NumGoroutine(), 0
	for waited := 0; still < quiet && waited < most; waited++ {
		time.Sleep(time.Millisecond)
		now := runtime.NumGoroutine()
		if still++; now < count {
			still = 0
		}
		count = now
	}
}
