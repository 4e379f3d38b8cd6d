package observer

import "time"

// ExpectedInFlight returns how many requests in flight wait by design.
func ExpectedInFlight() int64 { return requestTotals.expected.now() }

// ExpectedListed returns how many of those listed do.
func ExpectedListed() (n int) {
	inFlightWork.each(func(w *work, _ time.Duration) {
		if w.expected {
			n++
		}
	})
	return n
}
