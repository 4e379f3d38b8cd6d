package inflight

import (
	"fmt"
	"hash/maphash"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPeersByWhatWaits(t *testing.T) {
	var p Peers
	model := []*Peer{p.Begin("model:8000"), p.Begin("model:8000"), p.Begin("model:8000")}
	store := p.Begin("store:5432")
	p.Sample()
	model[0].End()
	model[1].End()
	store.End()
	p.Sample()
	assert.Equal(t, []Waited{
		{Name: "model:8000", Waiting: 2, Wait: 4 * time.Second, InFlight: 1}, // two ended in 4 s, during which two waited on average
		{Name: "store:5432", Waiting: 0.5, Wait: 2 * time.Second},
	}, p.EndWindow(2, 4*time.Second))

	p.Sample()
	assert.Equal(t, []Waited{{Name: "model:8000", Waiting: 1, Wait: 4 * time.Second, InFlight: 1}}, p.EndWindow(1, 4*time.Second),
		"the one that goes on waits for the window at least")
	model[2].End()
	p.Sample()
	assert.Empty(t, p.EndWindow(1, 4*time.Second))
}

func TestPeersOfACrawlerAreBounded(t *testing.T) {
	var p Peers
	const hosts = 5000
	var begun []*Peer
	for i := range hosts {
		begun = append(begun, p.Begin(fmt.Sprintf("host%d:80", i)))
	}
	p.Sample()
	waited := p.EndWindow(1, time.Second)
	require.Len(t, waited, maxListed+1)
	sum, inFlight := 0.0, 0
	for _, w := range waited {
		sum += w.Waiting
		inFlight += w.InFlight
	}
	assert.Equal(t, float64(hosts), sum, "none is lost")
	assert.Equal(t, hosts, inFlight)
	assert.Equal(t, Others, waited[maxListed].Name)

	for _, peer := range begun {
		peer.End()
	}
	p.EndWindow(1, time.Second)
	p.Begin("late:80")
	p.Sample()
	assert.Equal(t, "late:80", p.EndWindow(1, time.Second)[0].Name, "there is room again")
}

// A place that is freed before it lets a name be found there, and not where it is.
func TestAServerIsListedOnceThoughItsPlaceChanges(t *testing.T) {
	var p Peers
	name := "model:8000"
	at := maphash.String(seed, name)
	p.places[at%maxPeers].Store(&Peer{name: "store:5432"})
	first := p.Begin(name)
	p.EndWindow(1, time.Second) // which gives the store up
	second := p.Begin(name)
	require.NotSame(t, first, second)
	p.Sample()
	first.End()
	assert.Equal(t, []Waited{{Name: name, Waiting: 2, Wait: 2 * time.Second, InFlight: 1}}, p.EndWindow(1, time.Second))
}

func TestAServerThatIsCalledOthersIsAmongThem(t *testing.T) {
	var p Peers
	p.Begin(Others)
	p.others.begun.Add(1)
	p.Sample()
	assert.Equal(t, []Waited{{Name: Others, Waiting: 2, Wait: time.Second, InFlight: 2}}, p.EndWindow(1, time.Second))
}

// What found a server just before it was given up counts elsewhere, and is seen.
func TestARequestToAServerThatIsGivenUpIsNotLost(t *testing.T) {
	var p Peers
	gone := p.Begin("model:8000")
	gone.End()
	assert.True(t, gone.giveUp())
	for range 3 {
		assert.NotSame(t, gone, p.Begin("model:8000"), "its place has not been cleared yet")
	}
	p.Sample()
	assert.Equal(t, []Waited{{Name: "model:8000", Waiting: 3, Wait: time.Second, InFlight: 3}}, p.EndWindow(1, time.Second))

	busy := p.Begin("store:5432")
	assert.False(t, busy.giveUp(), "something is in flight")
}

func TestPeersWhoComeWhileOneIsGivenUp(t *testing.T) {
	var p Peers
	var callers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		callers.Go(func() {
			for range 20_000 {
				p.Begin("a:1").End()
			}
		})
	}
	var sampler sync.WaitGroup
	sampler.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				p.Sample()
				p.EndWindow(1, time.Millisecond)
			}
		}
	})
	callers.Wait()
	close(done)
	sampler.Wait()
	p.EndWindow(1, time.Second)
	p.Sample()
	assert.Empty(t, p.EndWindow(1, time.Second), "nothing is in flight")
}

func TestCountingAPeerAllocatesOnce(t *testing.T) {
	var p Peers
	p.Begin("model:8000")
	assert.Zero(t, testing.AllocsPerRun(100, func() { p.Begin("model:8000").End() }))
}

func TestAPeerIsASmallObject(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(Peer{}), uintptr(64))
}
