package inflight

import (
	"cmp"
	"slices"
	"time"
)

// Named is work in flight as people are told of it.
type Named struct {
	Kind string // "request" or "rollout"
	Name string // of a request's route; may be empty
	Age  time.Duration

	expected bool
}

// Namer asks the application what requests are called, one at a time: what hangs
// there, as a router does whose lock a stuck handler holds, is not asked again. A
// page that somebody looks at would leave a goroutine there each second.
type Namer struct{ asking chan struct{} }

// NewNamer returns one that asks nobody yet.
func NewNamer() *Namer { return &Namer{make(chan struct{}, 1)} }

// Oldest lists the work of both tables that has been in flight longest: the oldest
// first, at most so many. Beside, it returns the oldest that does not wait by design;
// nil for none. It waits for names until patience ends, and goes on without them.
func (n *Namer) Oldest(requests, rollouts *Table, most int, patience time.Duration) (all []Named, unexpected *Named) {
	found := oldestRequests(requests, most)
	names := n.namesOf(found, patience)
	for i, r := range found {
		all = append(all, Named{"request", names[i], r.Age, r.Expected})
	}
	for _, r := range rollouts.Oldest(most, anything) {
		all = append(all, Named{Kind: "rollout", Age: r.Age})
	}
	slices.SortStableFunc(all, func(a, b Named) int { return cmp.Compare(b.Age, a.Age) })
	if i := slices.IndexFunc(all, func(w Named) bool { return !w.expected }); i >= 0 {
		unexpected = &all[i]
	}
	return all[:min(len(all), most)], unexpected
}

func anything(*Request) bool { return true }

// oldestRequests are at most so many, and the oldest that does not wait by design
// beside, if all of them do: that may be the one to tell of.
func oldestRequests(requests *Table, most int) []Aged {
	unexpected := func(r *Request) bool { return !r.Expected }
	found := requests.Oldest(most, anything)
	if len(found) == most && !slices.ContainsFunc(found, func(r Aged) bool { return unexpected(&r.Request) }) {
		found = append(found, requests.Oldest(1, unexpected)...)
	}
	return found
}

// namesOf asks for the names of requests, which calls the application's code. Where
// that takes too long, panics or ends its goroutine, all of them stay empty.
func (n *Namer) namesOf(listed []Aged, patience time.Duration) []string {
	unnamed := make([]string, len(listed))
	if len(listed) == 0 {
		return unnamed
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case n.asking <- struct{}{}:
	case <-timeout.C:
		return unnamed
	}
	answer := make(chan []string, 1)
	go func() {
		names := unnamed // also after a Goexit
		defer func() {
			_ = recover() // of a router; the request is told of without its name
			<-n.asking
			answer <- names
		}()
		asked := make([]string, len(listed))
		for i := range listed {
			asked[i] = listed[i].Router.NameOf(&listed[i].Request)
		}
		names = asked
	}()
	timeout.Reset(patience)
	select {
	case names := <-answer:
		return names
	case <-timeout.C:
		return unnamed
	}
}
