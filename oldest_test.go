package observer

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// added numbers the work that the tests add.
var added atomic.Int64

// list adds a request that a router has received, or a rollout without one.
func list(t *workTable, router *middleware) *work {
	return t.begin(sinceBase(), added.Add(1), router, new(http.Request))
}

var aRollout *middleware

// aRequest has the name that a function finds.
func aRequest(name func() string) *middleware {
	return &middleware{route: func(*http.Request) string { return name() }}
}

func nameless() string { return "" }

// listed counts how often each unit of work is in a table.
func listed(t *workTable) map[*work]int {
	found := make(map[*work]int)
	t.each(func(w *work, _ time.Duration) { found[w]++ })
	return found
}

func TestWorkIsListedUntilDone(t *testing.T) {
	var table workTable
	assert.Empty(t, listed(&table))
	a, b := list(&table, aRequest(nameless)), list(&table, aRollout)
	assert.Equal(t, map[*work]int{a: 1, b: 1}, listed(&table))
	table.end(a)
	assert.Equal(t, map[*work]int{b: 1}, listed(&table))
	table.end(b)
	assert.Empty(t, listed(&table))
	table.end(new(work)) // which found no slot
}

func TestNoWorkIsLostBelowTheTablesCapacity(t *testing.T) {
	const (
		inFlight   = 20_000
		goroutines = 16
		each       = inFlight / goroutines
		turns      = 3
	)
	var table workTable
	all := make([][]*work, goroutines)
	var reading atomic.Bool
	var readers sync.WaitGroup
	reading.Store(true)
	readers.Go(func() {
		for reading.Load() {
			assert.LessOrEqual(t, len(table.oldest(maxOldest)), maxOldest)
			table.oldestAge(rolloutWork)
			runtime.Gosched()
		}
	})
	var adders sync.WaitGroup
	for i := range goroutines {
		adders.Go(func() {
			for range each {
				all[i] = append(all[i], list(&table, aRollout))
			}
			for range turns { // as many come as go
				for j, w := range all[i] {
					table.end(w)
					all[i][j] = list(&table, aRollout)
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
		table.end(w)
	}
	assert.Empty(t, listed(&table))
}

func TestTableIsBounded(t *testing.T) {
	const capacity = maxChunks * slotsPerChunk
	var table workTable
	var all []*work
	for range capacity + slotsPerChunk {
		all = append(all, list(&table, aRollout))
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
	other := new(work)
	for i := range table.count.Load() + 1 { // the last free slots
		chunk := table.chunk(i)
		for slot := range chunk {
			chunk[slot].CompareAndSwap(nil, other)
		}
	}
	again := &work{slot: &table.first[0]} // had it before
	table.add(again, 1)
	assert.Nil(t, again.slot, "which is somebody else's now")
	for i := range table.count.Load() + 1 {
		chunk := table.chunk(i)
		for slot := range chunk {
			chunk[slot].CompareAndSwap(other, nil)
		}
	}
	for _, w := range all {
		table.end(w)
	}
	assert.Empty(t, listed(&table))
	list(&table, aRollout)
	assert.Len(t, listed(&table), 1)
}

func TestTableGrowsWithTheWork(t *testing.T) {
	var table workTable
	for range slotsPerChunk / 4 {
		list(&table, aRollout)
	}
	assert.Zero(t, table.count.Load(), "a quarter fills the first chunk")

	var together workTable
	var adders sync.WaitGroup
	for range 64 {
		adders.Go(func() {
			for range slotsPerChunk / 16 {
				list(&together, aRollout)
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
	var table workTable
	var all []*work
	for i := range table.first {
		w := &work{slot: &table.first[i]}
		w.slot.Store(w)
		all = append(all, w)
	}
	table.chunks[0].Store(new(workChunk)) // whose maker has not got further
	w := list(&table, aRollout)
	assert.EqualValues(t, 1, table.count.Load())
	assert.Equal(t, 1, listed(&table)[w])
	for _, w := range append(all, w) {
		table.end(w)
	}
	assert.Empty(t, listed(&table))
}

func TestTableKeepsNothingThatIsDone(t *testing.T) {
	var table workTable
	router := aRequest(nameless)
	pointer := weak.Make(router)
	table.end(list(&table, router))
	router = nil
	for pointer.Value() != nil {
		require.NoError(t, t.Context().Err()) // the test's own deadline
		runtime.GC()
	}
	runtime.KeepAlive(&table)
}

func TestWorkThatIsUsedAgainKeepsOnlyItsSlot(t *testing.T) {
	var table workTable
	w := table.begin(sinceBase(), 1, aRequest(nameless), httptest.NewRequest(http.MethodGet, "/a?long=path", nil))
	assert.Equal(t, "/a", w.path)
	slot := w.slot
	table.end(w)
	assert.Equal(t, request{}, w.request)
	assert.Same(t, slot, w.slot)

	other := new(work)
	slot.Store(other) // somebody else has it now
	table.add(w, 2)
	assert.NotSame(t, slot, w.slot)
	assert.Same(t, other, slot.Load())
	table.end(w)
	assert.Same(t, other, slot.Load())
}

func TestWorkThatSomebodyReadsIsNotUsedAgain(t *testing.T) {
	var table workTable
	w := list(&table, aRequest(nameless))
	table.each(func(read *work, _ time.Duration) {
		if read.router == nil {
			return // the one below
		}
		table.end(w)
		assert.NotNil(t, read.router, "its reader has it still")
		assert.NotSame(t, w, list(&table, aRollout))
	})
	assert.Len(t, listed(&table), 1)
}

func TestAddingAndRemovingWorkAllocatesNothing(t *testing.T) {
	var table workTable
	router, r := aRequest(nameless), new(http.Request)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { table.end(table.begin(sinceBase(), added.Add(1), router, r)) }))
}

func TestOldestComesFirst(t *testing.T) {
	var table workTable
	began := sinceBase()
	order := []int{5, 0, 11, 3, 8, 1, 10, 2, 7, 4, 9, 6, 12}
	for _, i := range order {
		router := aRollout
		if i%2 == 0 {
			router = aRequest(func() string { return fmt.Sprint("/", i) })
		}
		w := list(&table, router)
		w.began = began - time.Duration(100-i)*time.Minute
	}
	for n := 1; n < 15; n++ {
		oldest := table.oldest(n)
		require.Len(t, oldest, min(n, len(order)))
		for i, w := range oldest {
			want := Work{Kind: "request", Name: fmt.Sprint("/", i)}
			if i%2 == 1 {
				want = Work{Kind: "rollout"}
			}
			assert.InDelta(t, float64(time.Duration(100-i)*time.Minute), float64(w.Age), float64(30*time.Second))
			w.Age = 0
			assert.Equal(t, want, w)
		}
	}
	for kind, minutes := range map[string]time.Duration{requestWork: 100, rolloutWork: 99} {
		age, any := table.oldestAge(kind)
		assert.True(t, any)
		assert.InDelta(t, float64(minutes*time.Minute), float64(age), float64(30*time.Second))
	}
	_, any := table.oldestAge("neither")
	assert.False(t, any)
}

func TestNameThatHangsIsAskedForOnce(t *testing.T) {
	var table workTable
	var asked atomic.Int64
	release := make(chan struct{})
	list(&table, aRequest(func() string { // a router whose lock is held
		asked.Add(1)
		<-release
		return "/found"
	}))
	for range 3 {
		assert.Empty(t, table.oldest(1)[0].Name)
	}
	assert.EqualValues(t, 1, asked.Load())
	close(release)
	require.Eventually(t, func() bool { return table.oldest(1)[0].Name == "/found" }, 10*time.Second, time.Millisecond)
}

func TestAgeIsNeverNegative(t *testing.T) {
	var table workTable
	w := list(&table, aRollout)
	w.began = sinceBase() + time.Hour // added after the reader has looked at the clock
	assert.Zero(t, table.oldest(1)[0].Age)
	age, any := table.oldestAge(rolloutWork)
	assert.True(t, any)
	assert.Zero(t, age)
}

// beginUntilDone begins a rollout and a request, which last until the function
// that it returns is called.
func beginUntilDone() (end func()) {
	ended := make(chan struct{})
	var running sync.WaitGroup
	driver := Driver()
	running.Go(func() { driver.CountResident(func() error { <-ended; return nil }) })
	running.Go(func() {
		Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended })).
			ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	})
	synctest.Wait()
	return func() {
		close(ended)
		running.Wait()
	}
}

// ages returns those of the rollout and the request that are in flight.
func ages() (rollout, request time.Duration) {
	rollout, _ = inFlightWork.oldestAge(rolloutWork)
	request, _ = inFlightWork.oldestAge(requestWork)
	return rollout, request
}

func TestAgesAreRight(t *testing.T) {
	begin := func(t *testing.T, interval time.Duration) *Observer {
		o := Start(t.Context(), "test", WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))),
			WithSampleInterval(interval), WithWindow(time.Hour))
		require.NoError(t, o.Err())
		return o
	}
	for _, test := range []struct {
		interval, off time.Duration
	}{
		{10 * time.Millisecond, 12 * time.Millisecond},
		{800 * time.Millisecond, 960 * time.Millisecond},
		{time.Second + 1, 0}, // too seldom: requests look at the clock themselves
		{time.Hour, 0},
	} {
		t.Run(test.interval.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := begin(t, test.interval)
				coarse := false
				for range 20 {
					time.Sleep(777 * time.Millisecond)
					end := beginUntilDone()
					time.Sleep(5 * time.Second)
					rollout, request := ages()
					assert.Equal(t, 5*time.Second, rollout)
					assert.GreaterOrEqual(t, request, 5*time.Second)
					assert.LessOrEqual(t, request, 5*time.Second+test.off)
					coarse = coarse || request > 5*time.Second
					end()
				}
				assert.Equal(t, test.off > 0, coarse, "requests look at the coarse clock")
				o.Stop()
			})
		})
	}
	exactly := func(t *testing.T, why string) {
		end := beginUntilDone()
		time.Sleep(5 * time.Second)
		rollout, request := ages()
		assert.Equal(t, 5*time.Second, rollout, why)
		assert.Equal(t, 5*time.Second, request, why)
		end()
	}
	t.Run("without a sampler", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, err := Acquire(t.Context(), WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))))
			require.NoError(t, err)
			time.Sleep(time.Hour)
			exactly(t, "there was none")

			o := begin(t, 100*time.Millisecond)
			time.Sleep(time.Minute)
			o.Stop()
			time.Sleep(time.Hour)
			exactly(t, "the clock of a loop that has stopped stands still")
			p.Release()
		})
	})
	t.Run("when the oldest loop hands over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			quick, slow := begin(t, 100*time.Millisecond), begin(t, time.Hour)
			time.Sleep(time.Minute)
			quick.Stop()
			time.Sleep(30 * time.Minute)
			exactly(t, "the oldest is slow")

			quick = begin(t, 100*time.Millisecond)
			time.Sleep(time.Minute)
			exactly(t, "the oldest is still the slow one")
			slow.Stop()
			time.Sleep(time.Minute)
			end := beginUntilDone()
			time.Sleep(5 * time.Second)
			_, request := ages()
			assert.InDelta(t, float64(5*time.Second), float64(request), float64(120*time.Millisecond))
			end()
			quick.Stop()
		})
	})
	t.Run("across a Stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := begin(t, 100*time.Millisecond)
			time.Sleep(time.Minute)
			end := beginUntilDone()
			time.Sleep(time.Minute)
			o.Stop()
			time.Sleep(time.Hour)
			o = begin(t, 100*time.Millisecond)
			time.Sleep(time.Minute)
			rollout, request := ages()
			assert.Equal(t, 62*time.Minute, rollout)
			assert.InDelta(t, float64(62*time.Minute), float64(request), float64(120*time.Millisecond))
			end()
			o.Stop()
		})
	})
}

// What a stopped process looks like from within: a sample comes late, and what
// began before it finds a clock that stood still.
func TestAgesAreRightAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := Acquire(t.Context(), WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))))
		require.NoError(t, err)
		defer p.Release()
		defer heldUp.Store(nil)
		defer coarseClock.nanos.Store(0)

		time.Sleep(time.Second)
		advanceCoarseClock(sinceBase())
		endFirst := beginUntilDone()
		time.Sleep(time.Second)
		advanceCoarseClock(sinceBase())
		time.Sleep(time.Hour) // nobody runs
		endSecond := beginUntilDone()
		time.Sleep(10 * time.Millisecond)

		requestAges := func() (all []time.Duration) {
			for _, w := range inFlightWork.oldest(10) {
				if w.Kind == requestWork {
					all = append(all, w.Age)
				}
			}
			return all
		}
		assert.Equal(t, []time.Duration{time.Hour + time.Second + 10*time.Millisecond, 0}, requestAges(), "the sampler has not run yet")

		advanceCoarseClock(sinceBase())
		time.Sleep(time.Minute)
		const hourLater = time.Hour + time.Minute + time.Second + 10*time.Millisecond
		assert.Equal(t, []time.Duration{hourLater, time.Minute}, requestAges())

		advanceCoarseClock(sinceBase()) // late, too: what is known of the first must stay
		time.Sleep(time.Minute)
		advanceCoarseClock(sinceBase())
		assert.Equal(t, []time.Duration{hourLater + time.Minute, 2 * time.Minute}, requestAges())

		endFirst()
		endSecond()
		time.Sleep(time.Minute)
		advanceCoarseClock(sinceBase())
		assert.Len(t, *heldUp.Load(), 1, "nothing is in flight that began in an earlier one")
	})
}

// A sampler that was stuck in the application's code when its Stop gave up on it
// goes on some time later, when nobody advances the clock any more.
func TestSampleThatOutlivesItsStopLeavesTheClockAlone(t *testing.T) {
	o := Start(t.Context(), "test", WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))),
		WithSampleInterval(time.Second))
	require.NoError(t, o.Err())
	o.Stop()
	o.handle.process.addToWindow(o.handle.loop, sampleAt(time.Now(), 0))
	assert.Zero(t, coarseClock.nanos.Load())
}

func BenchmarkWorkTable(b *testing.B) {
	coarseClock.nanos.Store(int64(sinceBase())) // as while a sampler runs
	defer coarseClock.nanos.Store(0)
	router, r := aRequest(nameless), new(http.Request)
	for _, inFlight := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("inFlight=%d", inFlight), func(b *testing.B) {
			var table workTable
			for range inFlight - 1 {
				list(&table, router)
			}
			number := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				number++
				table.end(table.begin(coarseNow(), number, router, r))
			}
		})
	}
	b.Run("parallel", func(b *testing.B) {
		var table workTable
		b.ReportAllocs()
		b.RunParallel(func(loop *testing.PB) {
			number := rand.Int64N(1 << 32)
			for loop.Next() {
				number++
				table.end(table.begin(coarseNow(), number, router, r))
			}
		})
	})
}

func BenchmarkOldest(b *testing.B) {
	var table workTable
	for range 10_000 {
		list(&table, aRequest(nameless))
	}
	b.ReportAllocs()
	for b.Loop() {
		table.oldest(maxOldest)
	}
}
