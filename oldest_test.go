package observer

import (
	"fmt"
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

// listed counts how often each unit of work is in a table.
func listed(t *workTable) map[*work]int {
	found := make(map[*work]int)
	t.each(func(w *work) { found[w]++ })
	return found
}

func TestWorkIsListedUntilDone(t *testing.T) {
	var table workTable
	assert.Empty(t, listed(&table))
	a, b := &work{kind: requestWork}, &work{kind: rolloutWork}
	table.add(a)
	table.add(b)
	assert.Equal(t, map[*work]int{a: 1, b: 1}, listed(&table))
	a.done()
	assert.Equal(t, map[*work]int{b: 1}, listed(&table))
	b.done()
	assert.Empty(t, listed(&table))
	(&work{}).done() // which was never added
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
				w := &work{kind: rolloutWork}
				table.add(w)
				all[i] = append(all[i], w)
			}
			for range turns { // as many come as go
				for j, w := range all[i] {
					w.done()
					all[i][j] = &work{kind: rolloutWork}
					table.add(all[i][j])
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
		w.done()
	}
	assert.Empty(t, listed(&table))
}

func TestTableIsBounded(t *testing.T) {
	const capacity = maxChunks * slotsPerChunk
	var table workTable
	var all []*work
	for range capacity + slotsPerChunk {
		w := &work{kind: rolloutWork}
		table.add(w)
		all = append(all, w)
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
	for _, w := range all {
		w.done()
	}
	assert.Empty(t, listed(&table))
	table.add(all[0])
	assert.Len(t, listed(&table), 1)
}

func TestTableGrowsWithTheWork(t *testing.T) {
	var table workTable
	for range slotsPerChunk / 4 {
		table.add(new(work))
	}
	assert.Zero(t, table.count.Load(), "a quarter fills the first chunk")

	var together workTable
	var adders sync.WaitGroup
	for range 64 {
		adders.Go(func() {
			for range slotsPerChunk / 16 {
				together.add(new(work))
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
		w := &work{kind: rolloutWork, slot: &table.first[i]}
		w.slot.Store(w)
		all = append(all, w)
	}
	table.chunks[0].Store(new(workChunk)) // whose maker has not got further
	w := &work{kind: rolloutWork}
	table.add(w)
	assert.EqualValues(t, 1, table.count.Load())
	assert.Equal(t, 1, listed(&table)[w])
	for _, w := range append(all, w) {
		w.done()
	}
	assert.Empty(t, listed(&table))
}

func TestTableKeepsNothingThatIsDone(t *testing.T) {
	var table workTable
	w := &work{kind: rolloutWork}
	table.add(w)
	pointer := weak.Make(w)
	w.done()
	w = nil
	for pointer.Value() != nil {
		require.NoError(t, t.Context().Err()) // the test's own deadline
		runtime.GC()
	}
	runtime.KeepAlive(&table)
}

func TestAddingAndRemovingWorkAllocatesNothing(t *testing.T) {
	var table workTable
	w := &work{kind: rolloutWork}
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		table.add(w)
		w.done()
	}))
}

func TestOldestComesFirst(t *testing.T) {
	var table workTable
	began := exactNow()
	order := []int{5, 0, 11, 3, 8, 1, 10, 2, 7, 4, 9, 6, 12}
	for _, i := range order {
		w := &work{kind: rolloutWork, named: nameOfTest(fmt.Sprint(i))}
		if i%2 == 0 {
			w.kind, w.named = requestWork, nil
		}
		table.add(w)
		w.began = began - time.Duration(100-i)*time.Minute
	}
	for n := 1; n < 15; n++ {
		oldest := table.oldest(n)
		require.Len(t, oldest, min(n, len(order)))
		for i, w := range oldest {
			want := Work{Kind: "request"}
			if i%2 == 1 {
				want = Work{Kind: "rollout", Name: fmt.Sprint(i)}
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

type nameOfTest string

func (n nameOfTest) name() string { return string(n) }

func TestAgeIsNeverNegative(t *testing.T) {
	var table workTable
	w := &work{kind: rolloutWork}
	table.add(w)
	w.began = exactNow() + time.Hour // added after the reader has looked at the clock
	assert.Zero(t, table.oldest(1)[0].Age)
	age, any := table.oldestAge(rolloutWork)
	assert.True(t, any)
	assert.Zero(t, age)
}

// rolloutFor begins a rollout, lets time pass, and returns the age that is then
// listed.
func rolloutFor(t *testing.T, passes time.Duration) time.Duration {
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		Driver().CountResident(func() error { <-ended; return nil })
	}()
	synctest.Wait()
	time.Sleep(passes)
	oldest := inFlightWork.oldest(1)
	require.Len(t, oldest, 1)
	close(ended)
	<-gone
	return oldest[0].Age
}

func TestAgeIsRightToASampleInterval(t *testing.T) {
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
		{time.Second, 1200 * time.Millisecond},
		{time.Second + 1, 0}, // too seldom: requests look at the clock themselves
		{time.Hour, 0},
	} {
		t.Run(test.interval.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := begin(t, test.interval)
				coarse := false
				for range 20 {
					time.Sleep(777 * time.Millisecond)
					age := rolloutFor(t, 5*time.Second)
					assert.GreaterOrEqual(t, age, 5*time.Second)
					assert.LessOrEqual(t, age, 5*time.Second+test.off)
					coarse = coarse || age > 5*time.Second
				}
				assert.Equal(t, test.off > 0, coarse, "requests look at the coarse clock")
				o.Stop()
			})
		})
	}
	t.Run("without a sampler", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, err := Acquire(t.Context(), WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))))
			require.NoError(t, err)
			time.Sleep(time.Hour)
			assert.Equal(t, 5*time.Second, rolloutFor(t, 5*time.Second))

			o := begin(t, 100*time.Millisecond)
			time.Sleep(time.Minute)
			o.Stop()
			time.Sleep(time.Hour)
			assert.Equal(t, 5*time.Second, rolloutFor(t, 5*time.Second), "the clock of a loop that has stopped stands still")
			p.Release()
		})
	})
	t.Run("when the oldest loop hands over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			quick, slow := begin(t, 100*time.Millisecond), begin(t, time.Hour)
			time.Sleep(time.Minute)
			quick.Stop()
			time.Sleep(30 * time.Minute)
			assert.Equal(t, 5*time.Second, rolloutFor(t, 5*time.Second))

			quick = begin(t, 100*time.Millisecond)
			time.Sleep(time.Minute)
			assert.Equal(t, 5*time.Second, rolloutFor(t, 5*time.Second), "the oldest is still the slow one")
			slow.Stop()
			time.Sleep(time.Minute)
			age := rolloutFor(t, 5*time.Second)
			assert.GreaterOrEqual(t, age, 5*time.Second)
			assert.LessOrEqual(t, age, 5120*time.Millisecond)
			quick.Stop()
		})
	})
	t.Run("across a Stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := begin(t, 100*time.Millisecond)
			time.Sleep(time.Minute)
			driver := Driver()
			ended, gone := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(gone)
				driver.CountResident(func() error { <-ended; return nil })
			}()
			time.Sleep(time.Minute)
			o.Stop()
			time.Sleep(time.Hour)
			o = begin(t, 100*time.Millisecond)
			time.Sleep(time.Minute)
			assert.InDelta(t, float64(62*time.Minute), float64(inFlightWork.oldest(1)[0].Age), float64(120*time.Millisecond))
			o.Stop()
			close(ended)
			<-gone
		})
	})
}

// A sampler that was stuck in the application's code when its Stop gave up on it
// goes on some time later, when nobody advances the clock any more.
func TestSampleThatOutlivesItsStopLeavesTheClockAlone(t *testing.T) {
	o := Start(t.Context(), "test", WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))),
		WithSampleInterval(time.Second))
	require.NoError(t, o.Err())
	o.Stop()
	o.handle.process.addToWindow(o.handle.loop, sample{at: time.Now()})
	assert.Zero(t, coarseClock.nanos.Load())
}

func BenchmarkWorkTable(b *testing.B) {
	coarseClock.nanos.Store(int64(exactNow())) // as while a sampler runs
	defer coarseClock.nanos.Store(0)
	for _, inFlight := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("inFlight=%d", inFlight), func(b *testing.B) {
			var table workTable
			for range inFlight - 1 {
				table.add(&work{kind: requestWork})
			}
			w := &work{kind: requestWork}
			b.ReportAllocs()
			for b.Loop() {
				table.add(w)
				w.done()
			}
		})
	}
	b.Run("parallel", func(b *testing.B) {
		var table workTable
		b.ReportAllocs()
		b.RunParallel(func(loop *testing.PB) {
			w := &work{kind: requestWork}
			for loop.Next() {
				table.add(w)
				w.done()
			}
		})
	})
}

func BenchmarkOldest(b *testing.B) {
	var table workTable
	for range 10_000 {
		table.add(&work{kind: requestWork})
	}
	b.ReportAllocs()
	for b.Loop() {
		table.oldest(maxOldest)
	}
}
