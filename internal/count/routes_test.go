package count

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// names returns those of the routes in their order.
func names(r *Routes) (all []string) {
	for _, route := range r.All() {
		all = append(all, route.Name)
	}
	return all
}

func TestRoutesAreListedAsTheyComeAndOnce(t *testing.T) {
	var r Routes
	assert.Empty(t, r.All())
	a := r.Of("/a")
	assert.Equal(t, "/a", a.Name)
	assert.Equal(t, Unmatched, r.Of("").Name)
	assert.Same(t, a, r.Of("/a"))
	assert.Same(t, r.Of(""), r.Of(Unmatched))
	assert.Equal(t, []string{"/a", Unmatched}, names(&r))
}

func TestARouteIsAlwaysUTF8(t *testing.T) {
	var r Routes
	assert.Equal(t, "/\uFFFD", r.Of("/\xff").Name)
	assert.Same(t, r.Of("/\xff"), r.Of("/\uFFFD"))
}

func TestRoutesBeyondTheBoundOverflowTogether(t *testing.T) {
	var r Routes
	r.Of(Unmatched) // the sentinels take no place
	for i := range MaxRoutes {
		assert.Equal(t, fmt.Sprint("/", i), r.Of(fmt.Sprint("/", i)).Name)
	}
	assert.Equal(t, Overflow, r.Of("/one too many").Name)
	assert.Same(t, r.Of("/another"), r.Of("/one too many"))
	assert.Equal(t, "/7", r.Of("/7").Name, "those that are known keep their place")
	assert.Equal(t, Unmatched, r.Of("").Name)
	assert.Len(t, r.All(), MaxRoutes+2)
}

// Whoever looked before the last place was taken, and comes to the lock after
// it, overflows as well.
func TestRouteThatComesWhileTheTableFillsOverflows(t *testing.T) {
	r := Routes{named: MaxRoutes}
	route := r.Of("/one too many")
	assert.Equal(t, Overflow, route.Name)
	assert.Equal(t, []*Route{route}, r.All(), "and is exported")
	assert.Same(t, route, r.Of("/another"))
	assert.Equal(t, Unmatched, r.Of("").Name, "the sentinels always have a place")
}

func TestNobodyWaitsForALockButForANewRoute(t *testing.T) {
	var r Routes
	for i := range MaxRoutes {
		r.Of(fmt.Sprint("/", i))
	}
	r.Of("") // the sentinels are added like the others
	r.Of("/one too many")
	r.mu.Lock() // by somebody who does not get further
	defer r.mu.Unlock()
	assert.Equal(t, "/0", r.Of("/0").Name)
	assert.Equal(t, Unmatched, r.Of("").Name)
	assert.Equal(t, Overflow, r.Of("/another").Name)
	assert.Len(t, r.All(), MaxRoutes+2)
}

func TestWhatWasListedStaysAsItWas(t *testing.T) {
	var r Routes
	r.Of("/a")
	before := r.All()
	kept := slices.Clone(before)
	for i := range 100 {
		r.Of(fmt.Sprint("/", i))
	}
	assert.Equal(t, kept, before)
}

func TestRoutesFromManyGoroutines(t *testing.T) {
	const routes, each = MaxRoutes + 100, 8
	var r Routes
	var counting sync.WaitGroup
	for range each {
		counting.Go(func() {
			for i := range routes {
				r.Of(fmt.Sprint("/", i)).BeforeResponse.Add(1)
			}
		})
	}
	counting.Wait()
	assert.Len(t, r.All(), MaxRoutes+1)
	total := int64(0)
	seen := make(map[string]bool)
	for _, route := range r.All() {
		assert.False(t, seen[route.Name], "%s is listed twice", route.Name)
		seen[route.Name] = true
		total += route.BeforeResponse.Load()
	}
	assert.EqualValues(t, routes*each, total, "each is counted somewhere")
}

// Whoever comes with the last route that is named, at the same moment, has it, too.
func TestLastRouteIsOneForAll(t *testing.T) {
	for range 50 {
		var routes Routes
		for i := range MaxRoutes - 1 {
			routes.Of(fmt.Sprint("/", i))
		}
		var together sync.WaitGroup
		var found [8]*Route
		begin := make(chan struct{})
		for i := range found {
			together.Go(func() {
				<-begin
				found[i] = routes.Of("/last")
			})
		}
		close(begin)
		together.Wait()
		for _, route := range found {
			assert.Equal(t, "/last", route.Name)
		}
	}
}
