package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
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

// allocationRuns is how many operations the allocations are counted over: so
// many that what the runtime allocates beside vanishes in the division.
const allocationRuns = 1000

// time returns the nanoseconds that one operation takes, as the mean over a
// slice of time, and what it allocates. The collector's part is in it.
func (o operation) time(e effort) sample {
	runs := allocationRuns
	if o.batch > 0 {
		runs = o.batch
	}
	o.repeat(runs) // warms up
	o.pause()
	allocs, bytes := o.allocations(runs)

	n := o.batch
	if n == 0 {
		for n = 1; o.lap(n) < time.Millisecond; {
			n *= 2
		}
	}
	var took time.Duration
	done := 0
	for took < e.slice {
		took += o.lap(n)
		done += n
	}
	return sample{float64(took.Nanoseconds()) / float64(done), allocs, bytes}
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

func (o operation) allocations(runs int) (allocs, bytes float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o.repeat(runs)
	runtime.ReadMemStats(&after)
	o.pause()
	// Whole ones, as testing.AllocsPerRun counts them.
	return math.Floor(float64(after.Mallocs-before.Mallocs) / float64(runs)),
		math.Floor(float64(after.TotalAlloc-before.TotalAlloc) / float64(runs))
}
