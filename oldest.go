package observer

import "github.com/gym-observer/observer/internal/inflight"

// maxOldest is how many units of work a diagnosis lists.
const maxOldest = 10

// oldest is the work that has been in flight longest.
type oldest struct {
	work []Work // the oldest first, at most maxOldest

	// unexpected is the oldest that does not wait by design; nil for none.
	unexpected *Work
}

// namer is the process's: two diagnoses must not both wait for a router that hangs.
var namer = inflight.NewNamer()

// oldestWork looks through the requests and rollouts in flight.
func oldestWork() (found oldest) {
	all, unexpected := namer.Oldest(&totals.requests.listed, &totals.driver.listed, maxOldest, namePatience)
	for _, w := range all {
		found.work = append(found.work, Work{w.Kind, w.Name, w.Age})
	}
	if unexpected != nil {
		found.unexpected = &Work{unexpected.Kind, unexpected.Name, unexpected.Age}
	}
	return found
}
