package survive

import (
	"errors"
	"runtime"
	"time"

	"github.com/gym-observer/observer/internal/monotonic"
)

var (
	// errGoexit stands for the outcome of application code that ended its goroutine.
	errGoexit = errors.New("runtime.Goexit was called")

	// ErrSlow stands for the outcome of application code that is still running.
	ErrSlow = errors.New("it has not returned in time")
)

// Outcome is what application code came to.
type Outcome[T any] struct {
	Value T
	Err   error // its own, or what became of it: a panic, a Goexit
}

// Apart calls the application's code on a goroutine of its own, so that neither a
// panic, nor a Goexit, nor a wait in it reaches the caller. The channel gives its
// outcome, once.
func Apart[T any](call func() (T, error)) <-chan Outcome[T] {
	done := make(chan Outcome[T], 1)
	go func() {
		o := Outcome[T]{Err: errGoexit}
		defer func() { done <- o }()
		defer Catch(&o.Err)
		o.Value, o.Err = call()
	}()
	return done
}

// Within calls the application's code apart, and waits for it until patience ends.
// Its error is then ErrSlow, and late gives the outcome when there is one.
func Within[T any](patience time.Duration, call func() (T, error)) (value T, late <-chan Outcome[T], err error) {
	done := Apart(call)
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case o := <-done:
		return o.Value, nil, o.Err
	case <-timeout.C:
		return value, done, ErrSlow
	}
}

// Await waits for done until deadline, and reports whether it is done.
func Await(done <-chan struct{}, deadline time.Time) bool {
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

// LetReturn gives goroutines that have told of their end, by closing a channel, the
// time to return: nothing in Go tells when they have. Without it, one Stop in 400
// leaves one to those who count goroutines. It waits until none has returned for 20 ms,
// as long as a busy kernel keeps a thread from running, and for 60 ms at most where
// others come and go. (With 4 ms one Stop in 200 left one beside six processes that spin on
// two processors. To yield is not enough where the other thread does not run, and to
// stop the world not either: whoever is preempted for that has still to return.) In a
// bubble of testing/synctest nobody can count too early, and a Stop takes no time.
func LetReturn() {
	if monotonic.InBubble() {
		return
	}
	const quiet, most = 20, 60 // milliseconds
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
