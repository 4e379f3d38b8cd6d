package observer

import "github.com/gym-observer/observer/internal/inflight"

// ExpectedInFlight returns how many requests in flight wait by design.
func ExpectedInFlight() int64 { return totals.requests.expectedServed.Now() }

// ExpectedListed returns how many of those listed do.
func ExpectedListed() int {
	return len(totals.requests.listed.Oldest(1000, func(r *inflight.Request) bool { return r.Expected }))
}
