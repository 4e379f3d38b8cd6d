package sites

import (
	"cmp"
	"slices"
)

// Survey adds up the snapshots of a window. The zero value is an empty one. It is
// for one goroutine at a time.
type Survey struct {
	readings int
	waiting  float64
	totals   [subjects]map[string]float64 // by kind
	places   [subjects]map[place]*placed
}

// place is what makes two goroutines wait at the same site. Neither the function
// nor the caller does: inlining gives one line the names of several.
type place struct{ kind, pkg, location, in string }

type placed struct {
	load    float64
	names   map[string]float64 // of functions and callers, the more usual of which stands for all
	callers map[string]float64
}

// maxPlaces bounds the places of a subject. A program that waits in more of them
// has no place that a reader would be sent to.
const maxPlaces = 4096

// Add adds what a snapshot says.
func (s *Survey) Add(r Reading) {
	s.readings++
	waiting := 0.0
	for _, f := range r.found {
		if f.subject == Waiting && f.site.Kind == KindWait {
			waiting += f.site.Load
		}
		if s.totals[f.subject] == nil {
			s.totals[f.subject], s.places[f.subject] = map[string]float64{}, map[place]*placed{}
		}
		s.totals[f.subject][f.site.Kind] += f.site.Load
		if f.site.Location == "" {
			continue
		}
		at := place{f.site.Kind, packageOf(f.site.Function), f.site.Location, f.site.In}
		p := s.places[f.subject][at]
		if p == nil {
			if len(s.places[f.subject]) >= maxPlaces {
				continue
			}
			p = &placed{names: map[string]float64{}, callers: map[string]float64{}}
			s.places[f.subject][at] = p
		}
		p.load += f.site.Load
		p.names[f.site.Function] += f.site.Load
		p.callers[f.site.Caller] += f.site.Load
	}
	// Requests that stream wait by design: most for their client or for an event,
	// which is not counted anyhow. The others cannot be told apart, so as many are
	// left out.
	s.waiting += max(0, waiting-max(0, r.streams-r.visible))
}

// Snapshots is how many were added.
func (s *Survey) Snapshots() int { return s.readings }

// Load is how many goroutines of a subject wait on average.
func (s *Survey) Load(subject Subject) float64 {
	return s.totals[subject][KindWait] / float64(max(1, s.readings))
}

// Waiting is how many requests wait on average, less those that stream: what
// [Waits] wants, before it is limited to what is owed.
func (s *Survey) Waiting() float64 {
	return s.waiting / float64(max(1, s.readings))
}

// Sites are the sites of a subject: where goroutines wait, the largest first, and
// then who holds what they wait for; at most [MaxSites], of which at most two
// hold where there are more that wait.
func (s *Survey) Sites(subject Subject) []Site {
	waits := s.sites(subject, KindWait)
	holds := s.sites(subject, KindHold)
	room := max(2, MaxSites-len(waits))
	holds = holds[:min(len(holds), room)]
	waits = waits[:min(len(waits), MaxSites-len(holds))]
	return append(waits, holds...)
}

func (s *Survey) sites(subject Subject, kind string) []Site {
	var all []Site
	for at, p := range s.places[subject] {
		if at.kind != kind {
			continue
		}
		all = append(all, Site{
			Kind: kind, Function: usual(p.names), Location: at.location, In: at.in, Caller: usual(p.callers),
			Load: p.load / float64(s.readings), Share: p.load / s.totals[subject][kind],
		})
	}
	sortSites(all)
	return all
}

// sortSites puts the largest first, and equal ones in an order that does not
// change from one window to the next.
func sortSites(all []Site) {
	slices.SortFunc(all, func(a, b Site) int {
		return cmp.Or(cmp.Compare(b.Load, a.Load), cmp.Compare(a.Location, b.Location), cmp.Compare(a.In, b.In))
	})
}

// usual is the name with the largest load.
func usual(loads map[string]float64) string {
	name, most := "", 0.0
	for n, load := range loads {
		if load > most || load == most && n < name {
			name, most = n, load
		}
	}
	return name
}
