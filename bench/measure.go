package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"time"
)

// family is a set of cases that are compared with one another.
type family struct {
	name  string
	about string // how it is measured, a sentence or two
	unit  string
	cases []*testCase

	moreIsBetter bool             // as of requests a second
	rounds       func(effort) int // nil for as many as the effort says
}

// testCase is one row of a family: what it is, and how it is measured once.
type testCase struct {
	name string
	role role
	run  func(effort) (sample, error)
}

type role string

const (
	floor role = "floor" // without anything measured: what nobody can go below
	ours  role = "ours"
	peer  role = "peer"
)

// sample is what one measurement gave, in the unit of its family.
type sample struct {
	value  float64
	allocs float64 // an operation; NaN where they were not counted
	bytes  float64
}

func uncounted(value float64) sample { return sample{value, math.NaN(), math.NaN()} }

// effort says how much time may pass.
type effort struct {
	rounds      int
	slice       time.Duration // one case's share of a round
	pairs       int
	window      time.Duration // half a pair
	idle        time.Duration // how long an idle process is watched
	childRounds int           // of what takes a process of its own
}

var (
	thorough = effort{rounds: 12, slice: 100 * time.Millisecond, pairs: 40, window: time.Second, idle: 30 * time.Second, childRounds: 3}
	cursory  = effort{rounds: 2, slice: 10 * time.Millisecond, pairs: 3, window: 100 * time.Millisecond, idle: time.Second, childRounds: 1}
)

func (f *family) roundsIn(e effort) int {
	if f.rounds != nil {
		return f.rounds(e)
	}
	return e.rounds
}

func byPairs(e effort) int       { return e.pairs }
func byChildRounds(e effort) int { return e.childRounds }
func once(effort) int            { return 1 }

// results holds the samples of each case, one a round, by its family's name and
// its own.
type results map[[2]string]*series

type series struct {
	samples []sample
	failed  error // the last failure; a round that failed has no sample
}

// best has only the best round of each case. Whatever else runs on the machine
// makes times longer, never shorter.
func (all results) best(families []*family) results {
	best := make(results)
	for _, f := range families {
		for _, c := range f.cases {
			key := [2]string{f.name, c.name}
			rounds := slices.Clone(all[key].samples)
			rounds = slices.DeleteFunc(rounds, func(s sample) bool { return math.IsNaN(s.value) })
			if len(rounds) == 0 {
				continue
			}
			slices.SortFunc(rounds, func(a, b sample) int { return cmp.Compare(a.value, b.value) })
			if f.moreIsBetter {
				slices.Reverse(rounds)
			}
			best[key] = &series{samples: rounds[:1]}
		}
	}
	return best
}

// measure measures every case of every family in each round, so that what slows
// the machine for a while slows all alike. Every second round goes backwards,
// so that no case always follows the same one.
func measure(families []*family, e effort) results {
	all := make(results)
	rounds := 0
	for _, f := range families {
		rounds = max(rounds, f.roundsIn(e))
		for _, c := range f.cases {
			all[[2]string{f.name, c.name}] = new(series)
		}
	}
	for round := range rounds {
		for _, f := range families {
			if round >= f.roundsIn(e) {
				continue
			}
			fmt.Fprintf(os.Stderr, "\rround %d of %d: %-50s", round+1, rounds, f.name)
			for i := range f.cases {
				if round%2 == 1 {
					i = len(f.cases) - 1 - i
				}
				c := f.cases[i]
				runtime.GC() // what the case before left is not this one's to collect
				got, err := c.run(e)
				s := all[[2]string{f.name, c.name}]
				if err != nil {
					s.failed = err
					got = uncounted(math.NaN())
				}
				s.samples = append(s.samples, got)
			}
		}
	}
	fmt.Fprintf(os.Stderr, "\r%70s\r", "")
	return all
}

// operation is something short that is measured by doing it many times.
type operation struct {
	repeat func(n int) // does it n times

	// The clock stops after every batch for between. 0 is one long batch.
	batch   int
	between func()
}

// lapsPerSlice is into how many laps a slice of time is divided. Their median
// leaves out those in which something else had the processor; and each is long
// enough that the collector has its part in it.
const lapsPerSlice = 20

// time returns the nanoseconds that one operation takes, and what it allocates.
func (o operation) time(e effort) sample {
	n := o.batch
	if n == 0 {
		for n = 1; o.lap(n) < e.slice/lapsPerSlice; {
			n *= 2
		}
	}
	o.lap(n) // warms up, if the above did not
	allocs, bytes := o.allocations(n)

	var laps []float64
	for began := time.Now(); len(laps) == 0 || time.Since(began) < e.slice; {
		laps = append(laps, float64(o.lap(n).Nanoseconds())/float64(n))
	}
	return sample{median(laps), allocs, bytes}
}

// lap returns how long n operations take.
func (o operation) lap(n int) time.Duration {
	began := time.Now()
	o.repeat(n)
	took := time.Since(began)
	o.pause()
	return took
}

func (o operation) pause() {
	if o.between != nil {
		o.between()
	}
}

// allocations returns what one of n operations allocates, in whole allocations
// and bytes, as testing.AllocsPerRun does: what goes on beside is divided away.
func (o operation) allocations(n int) (allocs, bytes float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o.repeat(n)
	runtime.ReadMemStats(&after)
	o.pause()
	each := func(before, after uint64) float64 { return math.Floor(float64(after-before) / float64(n)) }
	return each(before.Mallocs, after.Mallocs), each(before.TotalAlloc, after.TotalAlloc)
}
