package inflight

import (
	"cmp"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// maxPeers is how many servers are told apart at a time; a crawler talks to
	// thousands.
	maxPeers = 64

	// peerTries is how many places a name has: at half full, one name in 256 finds
	// none and is among the others.
	peerTries = 8

	// maxListed is how many servers a window lists, before the others.
	maxListed = 8

	// Others is the name of the rest together.
	Others = "others"
)

// Peers counts outbound requests by the server that they are for. A request pays a
// look-up and two additions, and no lock. The zero value is ready once it is told
// of windows.
type Peers struct {
	places [maxPeers]atomic.Pointer[Peer]
	others Peer
}

// Peer has the requests to one server.
type Peer struct {
	// One cache line has all that a request reads and writes here. A line for each of
	// the three made no difference that could be measured.
	name         string
	begun, ended atomic.Int64

	// Of the open window; the sampler's alone.
	sum         int64 // what was in flight at each sample
	endedBefore int64
}

// Waited is what a window saw of one server.
type Waited struct {
	Name     string
	Waiting  float64       // mean requests in flight
	Wait     time.Duration // mean wait of one
	InFlight int           // at its end
}

var seed = maphash.MakeSeed()

// Begin counts a request to a server as begun, until [Peer.End].
func (p *Peers) Begin(name string) *Peer {
	at := maphash.String(seed, name)
	for try := range uint64(peerTries) {
		place := &p.places[(at+try)%maxPeers]
		peer := place.Load()
		if peer == nil {
			peer = &Peer{name: name}
			if !place.CompareAndSwap(nil, peer) {
				peer = place.Load()
			}
		}
		if peer != nil && peer.name == name && peer.begun.Add(1) > 0 {
			return peer
		}
		// Another's place, or one that is being given up: the next will do.
	}
	p.others.begun.Add(1)
	return &p.others
}

// givenUp is what a server has begun that is given up: so little that no number of
// requests that still find it make it look like one with something in flight.
const givenUp = math.MinInt64

// giveUp reports whether it is given up, which it is if nothing is in flight. A
// request that begins at the same moment is either seen here or goes elsewhere;
// looking at the count first and clearing the place then would lose it.
func (p *Peer) giveUp() bool {
	ended := p.ended.Load()
	return p.begun.CompareAndSwap(ended, givenUp)
}

// End counts the request as ended.
func (p *Peer) End() { p.ended.Add(1) }

func (p *Peer) inFlight() int64 {
	ended := p.ended.Load() // first, as in a count of what is in flight
	return max(0, p.begun.Load()-ended)
}

// Sample adds what is in flight now. One sampler calls it.
func (p *Peers) Sample() {
	for i := range p.places {
		if peer := p.places[i].Load(); peer != nil {
			peer.sum += peer.inFlight()
		}
	}
	p.others.sum += p.others.inFlight()
}

// EndWindow returns the servers that were waited for in a window of some samples
// and a length, those first for which most waited, the rest together as Others, and
// opens the next. It gives up the servers that have nothing in flight, whose places
// others may need.
func (p *Peers) EndWindow(samples int, length time.Duration) (waited []Waited) {
	rest := p.others.endWindow()
	named := make(map[string]seen) // a name may have two places for a while
	for i := range p.places {
		peer := p.places[i].Load()
		if peer == nil {
			continue
		}
		in := peer.endWindow()
		switch {
		case in.sum == 0: // no sample saw it
		case peer.name == Others: // WithPeer calls it so
			rest = rest.plus(in)
		default:
			named[peer.name] = named[peer.name].plus(in)
		}
		if peer.giveUp() {
			p.places[i].Store(nil)
		}
	}
	names := slices.SortedFunc(maps.Keys(named), func(a, b string) int {
		return cmp.Or(cmp.Compare(named[b].sum, named[a].sum), cmp.Compare(a, b))
	})
	for i, name := range names {
		if i < maxListed {
			waited = append(waited, named[name].waited(name, samples, length))
		} else {
			rest = rest.plus(named[name])
		}
	}
	if rest.sum > 0 {
		waited = append(waited, rest.waited(Others, samples, length))
	}
	return waited
}

// seen is what a window saw of one server, or of several together.
type seen struct {
	sum      int64 // what was in flight at each sample
	ended    int64
	inFlight int64 // at its end
}

func (s seen) plus(more seen) seen {
	return seen{s.sum + more.sum, s.ended + more.ended, s.inFlight + more.inFlight}
}

func (s seen) waited(name string, samples int, length time.Duration) Waited {
	waiting := float64(s.sum) / float64(max(1, samples))
	return Waited{Name: name, Waiting: waiting, Wait: meanWait(waiting, s.ended, length), InFlight: int(s.inFlight)}
}

func (p *Peer) endWindow() seen {
	ended := p.ended.Load()
	in := seen{p.sum, ended - p.endedBefore, p.inFlight()}
	p.sum, p.endedBefore = 0, ended
	return in
}

// meanWait is how long one waited, by Little's law: at least for the window where
// none has ended.
func meanWait(waiting float64, ended int64, length time.Duration) time.Duration {
	if ended <= 0 {
		return length
	}
	return time.Duration(waiting / float64(ended) * float64(length))
}
