package inflight

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// ageOf returns the age of the one unit of work that is listed.
func ageOf(t *testing.T, table *Table) time.Duration {
	t.Helper()
	age, any := table.OldestAge()
	assert.True(t, any)
	return age
}

func TestAgesAreExactWhereNobodyLooksOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table
		for range 3 { // also when it is used again
			w := list(&table, nil)
			time.Sleep(5 * time.Second)
			assert.Equal(t, 5*time.Second, ageOf(t, &table))
			time.Sleep(time.Hour)
			assert.Equal(t, time.Hour+5*time.Second, ageOf(t, &table))
			table.End(w)
		}
	})
}

func TestWorkBeganWhenItWasFirstSeen(t *testing.T) {
	look := map[string]func(*Table){
		"See":       (*Table).See,
		"Oldest":    func(table *Table) { table.Oldest(1, everything) },
		"none kept": func(table *Table) { table.Oldest(1, func(*Request) bool { return false }) },
		"OldestAge": func(table *Table) { table.OldestAge() },
		"Len":       func(table *Table) { table.Len() },
	}
	for name, look := range look {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var table Table
				table.SeenOften(true)
				for range 3 { // also when it is used again, which must not have the beginning before
					w := list(&table, nil)
					time.Sleep(100 * time.Millisecond)
					look(&table)
					time.Sleep(5 * time.Second)
					look(&table)
					assert.Equal(t, 5*time.Second, ageOf(t, &table), "and no later look changes it")
					table.End(w)
				}
			})
		})
	}
}

func TestAnAgeIsNeverTooGreatAndTooSmallByAGlanceAtMost(t *testing.T) {
	const tick = 100 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var table Table
		table.SeenOften(true)
		born := make(map[*Work]time.Time)
		random := rand.New(rand.NewPCG(1, 2))
		for range 300 {
			for range random.IntN(4) {
				time.Sleep(time.Duration(random.Int64N(int64(tick / 4))))
				w := list(&table, nil)
				born[w] = time.Now()
			}
			for w := range born {
				if random.IntN(3) == 0 {
					table.End(w)
					delete(born, w)
				}
			}
			time.Sleep(tick / 4) // at most a tick since the last look
			table.each(func(w *Work, age time.Duration) {
				truth := time.Since(born[w])
				assert.LessOrEqual(t, age, truth)
				assert.GreaterOrEqual(t, age, truth-tick)
			})
		}
		assert.NotEmpty(t, born)
	})
}

// Rollouts are given their time when they begin, whoever looks.
func TestWorkThatIsGivenItsBeginningHasAnExactAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table
		table.SeenOften(true)
		w := table.New()
		w.Began()
		table.List(w, 1)
		time.Sleep(3 * time.Second)
		table.See()
		time.Sleep(5 * time.Second)
		assert.Equal(t, 8*time.Second, ageOf(t, &table))
	})
}

// A process that was stopped, or had no processor for an hour, finds what began in
// the meantime, and just before, with no hour in its age.
func TestNothingIsExaggeratedAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table
		table.SeenOften(true)
		at := func(path string) {
			w := table.New()
			w.Path = path
			table.List(w, added.Add(1))
		}
		at("/seen before")
		time.Sleep(100 * time.Millisecond)
		table.See()
		time.Sleep(10 * time.Millisecond)
		at("/not seen any more")
		time.Sleep(time.Hour) // nobody runs
		at("/after it")       // before the sampler's turn
		time.Sleep(10 * time.Millisecond)

		ages := func() map[string]time.Duration {
			ages := make(map[string]time.Duration)
			for _, one := range table.Oldest(10, everything) {
				ages[one.Path] = one.Age
			}
			return ages
		}
		const hour = time.Hour + 20*time.Millisecond
		assert.Equal(t, map[string]time.Duration{"/seen before": hour, "/not seen any more": 0, "/after it": 0}, ages())
		time.Sleep(time.Minute)
		table.See()
		assert.Equal(t, map[string]time.Duration{
			"/seen before": hour + time.Minute, "/not seen any more": time.Minute, "/after it": time.Minute,
		}, ages())
	})
}

func TestWorkKeepsItsBeginningWhoeverLooksHowOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table
		list(&table, nil)
		time.Sleep(time.Second)
		table.SeenOften(true)
		table.See()
		time.Sleep(time.Second)
		table.SeenOften(false)
		assert.Equal(t, 2*time.Second, ageOf(t, &table))
		time.Sleep(time.Hour)
		w := list(&table, nil)
		time.Sleep(time.Minute)
		oldest := table.Oldest(2, everything)
		assert.Equal(t, time.Minute, oldest[1].Age, "exact again")
		table.End(w)
	})
}

// Whoever comes second takes the time of the first.
func TestReadersAgreeWhenWorkBegan(t *testing.T) {
	for range 50 {
		var table Table
		table.SeenOften(true)
		for range slotsPerChunk / 2 {
			list(&table, nil)
		}
		var start, readers sync.WaitGroup
		start.Add(1)
		beginnings := make([]map[*Work]int64, 4)
		for i := range beginnings {
			beginnings[i] = make(map[*Work]int64)
			readers.Go(func() {
				start.Wait()
				table.each(func(w *Work, age time.Duration) {
					beginnings[i][w] = w.began.Load()
					assert.GreaterOrEqual(t, age, time.Duration(0))
				})
			})
		}
		start.Done()
		readers.Wait()
		for _, one := range beginnings {
			assert.Equal(t, beginnings[0], one)
		}
	}
}

func TestH81WorkOfABubbleAndOfTheWorldHasNoAgeOfCenturies(t *testing.T) {
	for _, often := range []bool{false, true} {
		t.Run(fmt.Sprintf("often=%v", often), func(t *testing.T) {
			var table Table
			table.SeenOften(often)
			outside := list(&table, nil)
			if often {
				table.See()
			}
			var inside *Work
			synctest.Test(t, func(t *testing.T) {
				assert.Zero(t, ageOf(t, &table), "begun outside, read inside")
				inside = list(&table, nil)
				table.See()
				time.Sleep(time.Hour)
				ages := make(map[*Work]time.Duration)
				table.each(func(w *Work, age time.Duration) { ages[w] = age })
				assert.Equal(t, map[*Work]time.Duration{outside: 0, inside: time.Hour}, ages)
			})
			table.each(func(w *Work, age time.Duration) {
				if w == inside {
					assert.Zero(t, age, "begun inside, read outside")
				} else {
					assert.Less(t, age, time.Hour, "the hour of the bubble never was")
				}
			})
			table.End(outside)
			table.End(inside)
			assert.Zero(t, table.Len())
		})
	}
}

func TestH81WorkThatIsFirstSeenInsideABubbleHasNoAgeOutside(t *testing.T) {
	var table Table
	table.SeenOften(true)
	list(&table, nil)
	synctest.Test(t, func(t *testing.T) {
		table.See()
		time.Sleep(time.Minute)
		assert.Equal(t, time.Minute, ageOf(t, &table))
	})
	assert.Zero(t, ageOf(t, &table))
}

// What ended outside of a bubble may be used again inside, and the other way
// round: sync.Pool knows no bubbles.
func TestH81WorkIsUsedAgainAcrossBubbles(t *testing.T) {
	var table Table
	table.SeenOften(true)
	for range 3 {
		w := list(&table, nil)
		table.See()
		table.End(w)
		synctest.Test(t, func(t *testing.T) {
			w := list(&table, nil)
			table.See()
			time.Sleep(time.Second)
			assert.Equal(t, time.Second, ageOf(t, &table))
			table.End(w)
		})
	}
}
