package inflight

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// asking is a router that does as a test says.
type asking func() string

func (a asking) NameOf(*Request) string { return a() }

// begun lists work.
func begun(in *Table, r Request) *Work {
	w := in.New()
	w.Request = r
	in.List(w, 0)
	return w
}

func TestNamerNamesRequestsAlone(t *testing.T) {
	n := NewNamer()
	var requests, rollouts Table
	none, unexpected := n.Oldest(&requests, &rollouts, 2, time.Hour)
	assert.Empty(t, none)
	assert.Nil(t, unexpected)

	defer requests.End(begun(&requests, Request{Router: asking(func() string { return "/a" }), Expected: true}))
	defer rollouts.End(begun(&rollouts, Request{}))
	all, unexpected := n.Oldest(&requests, &rollouts, 2, time.Hour)
	names := make(map[string]string)
	for _, w := range all {
		names[w.Kind] = w.Name
	}
	assert.Equal(t, map[string]string{"request": "/a", "rollout": ""}, names)
	assert.Equal(t, "rollout", unexpected.Kind)
}

// Whatever a router does, the next diagnosis asks again.
func TestNamerSurvivesARouter(t *testing.T) {
	for name, router := range map[string]asking{
		"panic":  func() string { panic("thrown by the router") },
		"goexit": func() string { runtime.Goexit(); return "" },
	} {
		t.Run(name, func(t *testing.T) {
			n := NewNamer()
			var requests, rollouts Table
			broken := begun(&requests, Request{Router: router})
			all, _ := n.Oldest(&requests, &rollouts, 10, time.Hour)
			assert.Len(t, all, 1)
			assert.Empty(t, all[0].Name)
			requests.End(broken)

			defer requests.End(begun(&requests, Request{Router: asking(func() string { return "/next" })}))
			all, _ = n.Oldest(&requests, &rollouts, 10, time.Hour)
			assert.Len(t, all, 1)
			assert.Equal(t, "/next", all[0].Name)
		})
	}
}

// While a router hangs, nobody else asks it: each would leave a goroutine there.
func TestNamerAsksARouterThatHangsOnce(t *testing.T) {
	n := NewNamer()
	var requests, rollouts Table
	asked, release := make(chan struct{}, 3), make(chan struct{})
	defer requests.End(begun(&requests, Request{Router: asking(func() string {
		asked <- struct{}{}
		<-release
		return "/late"
	})}))
	for range 3 {
		all, _ := n.Oldest(&requests, &rollouts, 10, 10*time.Millisecond)
		assert.Len(t, all, 1)
		assert.Empty(t, all[0].Name)
	}
	close(release)
	all, _ := n.Oldest(&requests, &rollouts, 10, time.Hour)
	assert.Equal(t, "/late", all[0].Name)
	assert.Len(t, asked, 2, "the one that hung, and this one")
}
