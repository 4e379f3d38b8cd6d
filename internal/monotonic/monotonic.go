// Package monotonic is the clock of what is in flight, of waits and of cooldowns:
// the time since the process began, in one word, which an atomic can hold.
package monotonic

import "time"

// base is what the clock counts from.
var base = time.Now()

// Now returns the time since the process began.
func Now() time.Duration { return time.Since(base) }

// At returns when an instant of this process was, on this clock.
func At(instant time.Time) time.Duration { return instant.Sub(base) }

// Between returns how long it was from one reading to a later one. It is never
// negative, and 0 where one of them was read in a bubble of testing/synctest and
// the other was not: nothing is known then, and the difference would be decades.
func Between(began, now time.Duration) time.Duration {
	if inBubble(began) != inBubble(now) {
		return 0
	}
	return max(0, now-began)
}

// InBubble reports whether the caller is in a bubble of testing/synctest.
func InBubble() bool { return inBubble(Now()) }

// inBubble tells the clock of a bubble, which begins in the year 2000 and so reads
// less than nothing here.
func inBubble(reading time.Duration) bool { return reading < 0 }
