package observer

import (
	"cmp"
	"slices"
	"time"

	"github.com/gym-observer/observer/internal/inflight"
)

// maxOldest is how many units of work a diagnosis lists.
const maxOldest = 10

// oldest is the work that has been in flight longest.
type oldest struct {
	work []Work // the oldest first, at most maxOldest

	// unexpected is the oldest that does not wait by design; nil for none.
	unexpected *Work
}

// oldestWork looks through the requests and rollouts in flight.
func oldestWork() oldest {
	everything := func(*inflight.Request) bool { return true }
	unexpected := func(r *inflight.Request) bool { return !r.Expected }
	requests := totals.requests.listed.Oldest(maxOldest, everything)
	listed := len(requests)
	// The oldest ten may all wait by design. Then the first one that does not is not
	// among them, but may be what the sentence names.
	if listed == maxOldest && !slices.ContainsFunc(requests, func(r inflight.Aged) bool { return unexpected(&r.Request) }) {
		requests = append(requests, totals.requests.listed.Oldest(1, unexpected)...)
	}

	names := namesOf(requests)
	var all, others []Work
	for i, r := range requests {
		w := Work{Kind: "request", Name: names[i], Age: r.Age}
		if i < listed {
			all = append(all, w)
		}
		if !r.Expected {
			others = append(others, w)
		}
	}
	for _, r := range totals.driver.listed.Oldest(maxOldest, everything) {
		w := Work{Kind: "rollout", Age: r.Age}
		all, others = append(all, w), append(others, w)
	}
	byAge := func(a, b Work) int { return cmp.Compare(b.Age, a.Age) }
	slices.SortStableFunc(all, byAge)
	slices.SortStableFunc(others, byAge)
	found := oldest{work: all[:min(len(all), maxOldest)]}
	if len(others) > 0 {
		found.unexpected = &others[0]
	}
	return found
}

// naming holds a token while the application names routes. What hangs there, as a
// router does whose lock a stuck handler holds, is not asked again: a page that
// somebody looks at would leave a goroutine there each second.
var naming = make(chan struct{}, 1)

// namesOf asks for the names of requests, which calls the application's code. Names
// that do not come in time stay empty.
func namesOf(listed []inflight.Aged) []string {
	unnamed := make([]string, len(listed))
	if len(listed) == 0 {
		return unnamed
	}
	timeout := time.NewTimer(namePatience)
	defer timeout.Stop()
	select {
	case naming <- struct{}{}:
	case <-timeout.C:
		return unnamed
	}
	names, _, err := within(namePatience, func() ([]string, error) {
		defer func() { <-naming }()
		names := make([]string, len(listed))
		for i := range listed {
			names[i] = listed[i].Router.NameOf(&listed[i].Request)
		}
		return names, nil
	})
	if err != nil {
		return unnamed
	}
	return names
}
