package page

import (
	"context"
	"sync/atomic"
	"time"
)

// disk is what the files of captures lie on, which may be a file server that does
// not answer. All who look are asked of it one at a time: where it hangs, one
// thread and one descriptor hang with it, and whoever comes after goes away after
// a while, and not when the disk answers.
type disk struct{ asked atomic.Bool }

// turnInterval is the time between two looks at whether it is one's turn. A channel
// would do without, but one that is made in a bubble of testing/synctest must not
// be used outside of it, and this lives as long as the process.
const turnInterval = 5 * time.Millisecond

// ask returns what a question to the disk comes to, or false where that takes
// longer than patience, or where ctx ends before. A question that has begun goes
// on, then; late gets its answer.
func ask[T any](ctx context.Context, d *disk, patience time.Duration, question func() T, late func(T)) (answer T, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !d.asked.CompareAndSwap(false, true) {
		select {
		case <-time.After(turnInterval):
		case <-ctx.Done():
			return answer, false
		}
	}
	answers := make(chan T)
	go func() {
		answer := func() T {
			defer d.asked.Store(false)
			return question()
		}()
		select {
		case answers <- answer:
		case <-ctx.Done():
			late(answer)
		}
	}()
	select {
	case answer = <-answers:
		return answer, true
	case <-ctx.Done():
		return answer, false
	}
}
