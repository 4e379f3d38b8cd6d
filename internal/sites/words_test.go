package sites_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/sites"
)

// The sentences that a person reads, one of each kind.
func TestWhereSaysWhatAShareIsOf(t *testing.T) {
	put := sites.Site{Kind: sites.KindWait, Function: "example.com/shop/store.(*Cache).Put", Location: "store/cache.go:42", In: "sync.(*Mutex).Lock", Share: 0.94}
	dial := sites.Site{Kind: sites.KindHold, Function: "example.com/shop/store.(*Cache).Put", Location: "store/cache.go:51", In: "net.Dial", Share: 1}
	decode := sites.Site{Kind: sites.KindAlloc, Function: "main.decode", Location: "handlers.go:88", Share: 0.71}
	marshal := sites.Site{Kind: sites.KindCPU, Function: "main.answer", Location: "api.go:31", In: "encoding/json.Marshal", Share: 0.64}
	held := sites.Site{Kind: sites.KindHeap, Function: "main.load", Location: "load.go:7", Share: 0.8}
	for want, all := range map[string][]sites.Site{
		"94 % at store.(*Cache).Put (store/cache.go:42), held across net.Dial (store/cache.go:51)": {put, dial},
		"71 % of the bytes are allocated at main.decode (handlers.go:88)":                          {decode},
		"64 % of the CPU in encoding/json.Marshal, called at main.answer (api.go:31)":              {marshal},
		"80 % of the heap at main.load (load.go:7)":                                                {held},
		"nobody looked": nil,
	} {
		assert.Equal(t, want, sites.Where(all, "nobody looked"))
	}
}

func TestWhereRequestsWaitThatNobodyBlames(t *testing.T) {
	at := func(location string, load float64) []sites.Site {
		return []sites.Site{{Kind: sites.KindWait, Function: "main.f", Location: location, Load: load}}
	}
	assert.Equal(t, "8.0 requests in flight wait at main.f (a.go:1)", sites.WhereUnblamed(at("a.go:1", 8), at("b.go:2", 30)))
	assert.Equal(t, "30.0 requests in flight wait in main.f (b.go:2), perhaps for events", sites.WhereUnblamed(at("a.go:1", 7.9), at("b.go:2", 30)))
	assert.Empty(t, sites.WhereUnblamed(at("a.go:1", 7.9), at("b.go:2", 7.9)))
	assert.Empty(t, sites.WhereUnblamed(nil, nil))
}
