package inflight

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// router calls every request the same.
type router struct{ name string }

func (r *router) NameOf(*Request) string { return r.name }

// added numbers the work that the tests list.
var added atomic.Int64

// list lists a request that a router has received, or a rollout without one.
func list(t *Table, of Router) *Work {
	w := t.New()
	w.Router = of
	t.List(w, added.Add(1))
	return w
}

// listed counts how often each unit of work is in a table.
func listed(t *Table) map[*Work]int {
	found := make(map[*Work]int)
	t.each(func(w *Work, _ time.Duration) { found[w]++ })
	return found
}

func everything(*Request) bool { return true }

func TestWorkIsListedUntilDone(t *testing.T) {
	var table Table
	assert.Empty(t, listed(&table))
	a, b := list(&table, new(router)), list(&table, nil)
	assert.Equal(t, map[*Work]int{a: 1, b: 1}, listed(&table))
	assert.Equal(t, 2, table.Len())
	table.End(a)
	assert.Equal(t, map[*Work]int{b: 1}, listed(&table))
	table.End(b)
	assert.Empty(t, listed(&table))
	assert.Zero(t, table.Len())
	table.End(new(Work)) // which found no slot
}

func TestNoWorkIsLostBelowTheTablesCapacity(t *testing.T) {
	const (
		inFlight   = 20_000
		goroutines = 16
		each       = inFlight / goroutines
		turns      = 3
	)
	for _, often := range []bool{false, true} {
		t.Run(fmt.Sprintf("often=%v", often), func(t *testing.T) {
			var table Table
			table.SeenOften(often)
			all := make([][]*Work, goroutines)
			var reading atomic.Bool
			var readers sync.WaitGroup
			reading.Store(true)
			readers.Go(func() {
				for reading.Load() {
					assert.LessOrEqual(t, len(table.Oldest(10, everything)), 10)
					table.OldestAge()
					table.See()
					runtime.Gosched()
				}
			})
			var adders sync.WaitGroup
			for i := range goroutines {
				adders.Go(func() {
					for range each {
						all[i] = append(all[i], list(&table, nil))
					}
					for range turns { // as many come as go
						for j, w := range all[i] {
							table.End(w)
							all[i][j] = list(&table, nil)
						}
					}
				})
			}
			adders.Wait()
			reading.Store(false)
			readers.Wait()

			found := listed(&table)
			assert.Len(t, found, inFlight)
			for _, w := range slices.Concat(all...) {
				assert.Equal(t, 1, found[w])
				table.End(w)
			}
			assert.Empty(t, listed(&table))
		})
	}
}

// slots are all that a table has now.
func slots(t *Table) (all []*atomic.Pointer[Work]) {
	for i := range t.count.Load() + 1 {
		chunk := t.chunkAt(i)
		for slot := range chunk {
			all = append(all, &chunk[slot])
		}
	}
	return all
}

func TestTableIsBounded(t *testing.T) {
	const capacity = maxChunks * slotsPerChunk
	var table Table
	var all []*Work
	for range capacity + slotsPerChunk {
		all = append(all, list(&table, nil))
	}
	assert.EqualValues(t, maxChunks-1, table.count.Load())
	found := listed(&table)
	assert.LessOrEqual(t, len(found), capacity)
	assert.Greater(t, len(found), capacity*9/10)
	lost := 0
	for _, w := range all[:capacity*4/5] {
		if found[w] != 1 {
			lost++
		}
	}
	assert.Zero(t, lost, "of what came before it was four fifths full") // one in a million, there
	other := new(Work)
	for _, slot := range slots(&table) { // the last free ones
		slot.CompareAndSwap(nil, other)
	}
	again := &Work{slot: &table.first[0]} // had it before
	table.List(again, 1)
	assert.Nil(t, again.slot, "which is somebody else's now")
	for _, slot := range slots(&table) {
		slot.CompareAndSwap(other, nil)
	}
	for _, w := range all {
		table.End(w)
	}
	assert.Empty(t, listed(&table))
	list(&table, nil)
	assert.Len(t, listed(&table), 1)
}

func TestTableGrowsWithTheWork(t *testing.T) {
	var table Table
	for range slotsPerChunk / 4 {
		list(&table, nil)
	}
	assert.Zero(t, table.count.Load(), "a quarter fills the first chunk")

	var together Table
	var adders sync.WaitGroup
	for range 64 {
		adders.Go(func() {
			for range slotsPerChunk / 16 {
				list(&together, nil)
			}
		})
	}
	adders.Wait()
	grown := together.count.Load()
	assert.Positive(t, grown)
	for i := range together.chunks {
		assert.Equal(t, i < int(grown), together.chunks[i].Load() != nil, "chunk %d of %d", i, grown)
	}
}

func TestNobodyWaitsForTheOneWhoGrowsTheTable(t *testing.T) {
	var table Table
	var all []*Work
	for i := range table.first {
		w := &Work{slot: &table.first[i]}
		w.slot.Store(w)
		all = append(all, w)
	}
	table.chunks[0].Store(new(chunk)) // whose maker has not got further
	w := list(&table, nil)
	assert.EqualValues(t, 1, table.count.Load())
	assert.Equal(t, 1, listed(&table)[w])
	for _, w := range append(all, w) {
		table.End(w)
	}
	assert.Empty(t, listed(&table))
}

func TestTableKeepsNothingThatIsDone(t *testing.T) {
	var table Table
	of := &router{name: "one that a test must be able to lose"}
	pointer := weak.Make(of)
	table.End(list(&table, of))
	of = nil
	for pointer.Value() != nil {
		require.NoError(t, t.Context().Err()) // the test's own deadline
		runtime.GC()
	}
	runtime.KeepAlive(&table)
}

func TestWorkThatIsUsedAgainKeepsOnlyItsSlot(t *testing.T) {
	var table Table
	w := table.New()
	w.Request = Request{Router: new(router), Method: "GET", Host: "h", Path: "/a", RawPath: "/%61", Expected: true}
	table.List(w, 1)
	slot := w.slot
	table.End(w)
	assert.Equal(t, Request{}, w.Request)
	assert.Zero(t, w.began.Load(), "the next has a beginning of its own")
	assert.Same(t, slot, w.slot)

	other := new(Work)
	slot.Store(other) // somebody else has it now
	table.List(w, 2)
	assert.NotSame(t, slot, w.slot)
	assert.Same(t, other, slot.Load())
	table.End(w)
	assert.Same(t, other, slot.Load())
}

func TestWorkThatSomebodyReadsIsNotUsedAgain(t *testing.T) {
	var table Table
	w := list(&table, new(router))
	table.each(func(read *Work, _ time.Duration) {
		if read.Router == nil {
			return // the one below
		}
		table.End(w)
		assert.NotNil(t, read.Router, "its reader has it still")
		assert.NotSame(t, w, list(&table, nil))
	})
	assert.Len(t, listed(&table), 1)
}

// A reader that panics, as in a function that chooses, must not look like one that
// reads for ever: nothing would be used again.
func TestAReaderThatPanicsHasRead(t *testing.T) {
	var table Table
	list(&table, nil)
	assert.Panics(t, func() { table.Oldest(1, func(*Request) bool { panic("thrown by the caller") }) })
	assert.Zero(t, table.readers.Load())
}

func TestAddingAndRemovingWorkAllocatesNothing(t *testing.T) {
	for _, often := range []bool{false, true} {
		var table Table
		table.SeenOften(often)
		of := new(router)
		assert.Zero(t, testing.AllocsPerRun(1000, func() { table.End(list(&table, of)) }))
	}
}

func TestLookingAtTheTableAllocatesNothing(t *testing.T) {
	var table Table
	list(&table, nil)
	assert.Zero(t, testing.AllocsPerRun(100, func() { table.See(); table.OldestAge(); table.Len() }))
}

func BenchmarkTable(b *testing.B) {
	of := new(router)
	for _, often := range []bool{true, false} {
		for _, inFlight := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("seenOften=%v/inFlight=%d", often, inFlight), func(b *testing.B) {
				var table Table
				table.SeenOften(often)
				for range inFlight - 1 {
					list(&table, of)
				}
				number := int64(0)
				b.ReportAllocs()
				for b.Loop() {
					number++
					w := table.New()
					w.Router = of
					table.List(w, number)
					table.End(w)
				}
			})
		}
	}
	b.Run("parallel", func(b *testing.B) {
		var table Table
		table.SeenOften(true)
		b.ReportAllocs()
		b.RunParallel(func(loop *testing.PB) {
			number := rand.Int64N(1 << 32)
			for loop.Next() {
				number++
				w := table.New()
				w.Router = of
				table.List(w, number)
				table.End(w)
			}
		})
	})
}
