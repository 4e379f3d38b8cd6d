package count

import (
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// Unmatched takes the cancellations of requests whose route is not known.
	Unmatched = "unmatched"

	// Overflow takes those of every route beyond MaxRoutes.
	Overflow = "overflow"

	// MaxRoutes bounds the routes that are counted by name. With the two sentinels
	// and both phases that makes 1,804 attribute sets; past 2,000 the SDK would
	// fold points into otel.metric.overflow, and lose their phase.
	MaxRoutes = 900
)

// Routes counts cancellations by route, for a bounded set of routes.
type Routes struct {
	byName sync.Map                 // string to *Route
	listed atomic.Pointer[[]*Route] // the same in the order in which they were first seen
	full   atomic.Bool              // MaxRoutes are named: a route that is not known overflows

	mu    sync.Mutex // held to add a route; guards named, and the changes of listed
	named int        // the routes that are not sentinels
}

// Route has the cancellations of one route.
type Route struct {
	Name            string
	BeforeResponse  atomic.Int64 // clients that left before their response began
	ResponseStarted atomic.Int64 // clients that left in the middle of it
}

// Of returns where the cancellations of a route are counted. An empty name counts
// as Unmatched. It takes the lock only to add a route, at most MaxRoutes times and
// twice for the sentinels.
func (r *Routes) Of(name string) *Route {
	if name == "" {
		name = Unmatched
	}
	// An attribute that is not UTF-8 would fail the encoding of a whole export.
	name = strings.ToValidUTF8(name, "\uFFFD")
	if known, ok := r.byName.Load(name); ok {
		return known.(*Route)
	}
	sentinel := name == Unmatched || name == Overflow
	if !sentinel && r.full.Load() {
		if known, ok := r.byName.Load(name); ok { // the last one, named between the two looks
			return known.(*Route)
		}
		return r.Of(Overflow)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.byName.Load(name); ok {
		return known.(*Route)
	}
	if !sentinel {
		if r.named == MaxRoutes { // filled between the look and the lock
			return r.add(Overflow)
		}
		r.named++
		defer r.full.Store(r.named == MaxRoutes) // once it can be found: whoever sees that it is full finds all
	}
	return r.add(name)
}

// add lists a route that may be listed already; r.mu is held.
func (r *Routes) add(name string) *Route {
	route, known := r.byName.LoadOrStore(name, &Route{Name: name})
	added := route.(*Route)
	if !known {
		listed := append(r.All(), added)
		r.listed.Store(&listed)
	}
	return added
}

// All returns the routes in the order in which they were first seen. The elements
// that the slice has now never change.
func (r *Routes) All() []*Route {
	if listed := r.listed.Load(); listed != nil {
		return *listed
	}
	return nil
}
