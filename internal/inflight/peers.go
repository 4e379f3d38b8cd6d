package inflight

import (
	"cmp"
	"hash/maphash"
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
			place.CompareAndSwap(nil, &Peer{name: name})
			peer = place.Load()
		}
		if peer == nil || peer.name != name {
			continue
		}
		peer.begun.Add(1)
		if place.Load() == peer {
			return peer
		}
		peer.begun.Add(-1) // it was given up meanwhile, and nobody reads it any more
	}
	p.others.begun.Add(1)
	return &p.others
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
	var rest Waited
	ended := int64(0)
	add := func(peer *Peer) {
		w := peer.endWindow(samples, length)
		waited = append(waited, w)
	}
	for i := range p.places {
		peer := p.places[i].Load()
		if peer == nil {
			continue
		}
		if peer.sum > 0 {
			add(peer)
		} else {
			peer.endWindow(samples, length)
		}
		if peer.inFlight() == 0 {
			p.places[i].CompareAndSwap(peer, nil)
		}
	}
	slices.SortStableFunc(waited, func(a, b Waited) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Name, b.Name))
	})
	others := p.others.endWindow(samples, length)
	for _, w := range append(waited[min(len(waited), maxListed):], others) {
		rest.Waiting += w.Waiting
		rest.InFlight += w.InFlight
		if w.Wait > 0 {
			ended += int64(w.Waiting * float64(length) / float64(w.Wait))
		}
	}
	waited = waited[:min(len(waited), maxListed)]
	if rest.Waiting > 0 {
		rest.Name = Others
		rest.Wait = meanWait(rest.Waiting, ended, length)
		waited = append(waited, rest)
	}
	return waited
}

func (p *Peer) endWindow(samples int, length time.Duration) Waited {
	ended := p.ended.Load()
	waiting := float64(p.sum) / float64(max(1, samples))
	w := Waited{Name: p.name, Waiting: waiting, Wait: meanWait(waiting, ended-p.endedBefore, length), InFlight: int(p.inFlight())}
	p.sum, p.endedBefore = 0, ended
	return w
}

// meanWait is how long one waited, by Little's law: at least for the window where
// none has ended.
func meanWait(waiting float64, ended int64, length time.Duration) time.Duration {
	switch {
	case waiting == 0:
		return 0
	case ended <= 0:
		return length
	}
	return time.Duration(waiting / float64(ended) * float64(length))
}
