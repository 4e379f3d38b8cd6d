package sites

import (
	"cmp"
	"slices"
)

// Tally adds up what is at each site. The zero value is empty. It is for one
// goroutine at a time.
type Tally struct {
	total  float64
	places map[place]*placed
}

// place is what makes two goroutines wait at the same site. Neither the function
// nor the caller does: inlining gives one line the names of several.
type place struct{ pkg, location, in string }

type placed struct {
	load      float64
	stack     []string           // of the first that was there
	functions map[string]float64 // the more usual stands for all
	callers   map[string]float64
}

// maxPlaces bounds the places of a tally. A program that waits in more of them
// has no place that a reader would be sent to.
const maxPlaces = 4096

// Add adds a site's load. One without a location counts as something that was
// looked at and cannot be named.
func (t *Tally) Add(s Site) {
	if !(s.Load > 0) { // nothing is nowhere
		return
	}
	t.total += s.Load
	if s.Location == "" {
		return
	}
	at := place{packageOf(s.Function), s.Location, s.In}
	p := t.places[at]
	if p == nil {
		if len(t.places) >= maxPlaces {
			return
		}
		if t.places == nil {
			t.places = map[place]*placed{}
		}
		p = &placed{stack: functionsOf(s.frames), functions: map[string]float64{}, callers: map[string]float64{}}
		t.places[at] = p
	}
	p.load += s.Load
	p.functions[s.Function] += s.Load
	p.callers[s.Caller] += s.Load
}

// leastShare is the share below which a site is not told beside a larger one: it is
// what every program does a little of.
const leastShare = 0.01

// Sites are the largest sites, at most [MaxSites], with their loads over a number
// of snapshots or seconds.
func (t *Tally) Sites(kind string, over float64) []Site {
	all := make([]Site, 0, len(t.places))
	for at, p := range t.places {
		all = append(all, Site{
			Kind: kind, Function: usual(p.functions), Location: at.location, In: at.in, Caller: usual(p.callers),
			Load: p.load / over, Share: p.load / t.total, Stack: p.stack,
		})
	}
	sortSites(all)
	told := 0
	for told < min(len(all), MaxSites) && (told == 0 || all[told].Share >= leastShare) {
		told++
	}
	return slices.Clip(all[:told])
}

// Survey adds up the snapshots of a window. The zero value is an empty one. It is
// for one goroutine at a time.
type Survey struct {
	readings int
	waiting  float64
	pooled   float64
	outside  float64
	hidden   float64
	waits    [subjects]Tally
	holds    [subjects]Tally
}

// Add adds what a snapshot says.
func (s *Survey) Add(r Reading) {
	s.readings++
	for _, f := range r.found {
		if f.site.Kind == KindHold {
			s.holds[f.subject].Add(f.site)
			continue
		}
		s.waits[f.subject].Add(f.site)
	}
	// Requests that stream wait by design: most for their client or for an event,
	// which is not counted anyhow. The others are hidden among those that wait, and
	// cannot be told apart, so as many are left out. Of those that wait for another
	// server likewise: the usual stream passes on what one sends.
	hidden := min(max(0, r.streams-r.visible), r.waiting)
	s.hidden += hidden
	s.waiting += r.waiting - hidden
	s.outside += max(0, r.outside-hidden)
	s.pooled += r.pooled
}

// Snapshots is how many were added.
func (s *Survey) Snapshots() int { return s.readings }

// Load is how many goroutines of a subject wait on average.
func (s *Survey) Load(subject Subject) float64 {
	return s.waits[subject].total / s.over()
}

// Waiting is how many requests wait on average, less those that stream: what the
// rule of the verdict "wait" asks for, before it is limited to what is owed.
func (s *Survey) Waiting() float64 { return s.waiting / s.over() }

// Pooled is how many outbound requests wait for a connection of this process's own
// pool, on average: the other server has not heard of them.
func (s *Survey) Pooled() float64 { return s.pooled / s.over() }

// Outside is how many of them wait for another server, a database for one, or for a
// child process.
func (s *Survey) Outside() float64 { return s.outside / s.over() }

func (s *Survey) over() float64 { return float64(max(1, s.readings)) }

// Sites are the sites of a subject: where goroutines wait, the largest first, and
// then who holds what they wait for. At most [MaxSites], of which at most two
// hold where there are more that wait. Among requests that wait, a line at which
// streams may be the most has no site: the wrong line is worse than none.
func (s *Survey) Sites(subject Subject) []Site {
	waits := s.waits[subject].Sites(KindWait, s.over())
	if subject == Waiting {
		streams := s.hidden / s.over()
		waits = slices.DeleteFunc(waits, func(at Site) bool { return at.Load < 2*streams })
		if len(waits) == 0 {
			return nil // nobody holds what is not known
		}
	}
	holds := s.holds[subject].Sites(KindHold, s.over())
	holds = holds[:min(len(holds), max(2, MaxSites-len(waits)))]
	return append(waits[:min(len(waits), MaxSites-len(holds))], holds...)
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
