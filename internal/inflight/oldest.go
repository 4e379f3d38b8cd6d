package inflight

import (
	"cmp"
	"slices"
	"time"
)

// Aged is a copy of work in flight, with its age.
type Aged struct {
	Request
	Age time.Duration
}

// Oldest returns the n units of work that have been in flight longest, of those
// that are of a kind, the oldest first.
func (t *Table) Oldest(n int, of func(*Request) bool) (oldest []Aged) {
	t.each(func(w *Work, age time.Duration) {
		if len(oldest) == n && age <= oldest[n-1].Age || !of(&w.Request) {
			return
		}
		i, _ := slices.BinarySearchFunc(oldest, age, func(a Aged, age time.Duration) int { return cmp.Compare(age, a.Age) })
		oldest = slices.Insert(oldest[:min(len(oldest), n-1)], i, Aged{w.Request, age})
	})
	return oldest
}

// OldestAge returns the age of the oldest work, if there is any.
func (t *Table) OldestAge() (oldest time.Duration, any bool) {
	t.each(func(_ *Work, age time.Duration) { oldest, any = max(oldest, age), true })
	return oldest, any
}

// Len returns how many units of work are listed.
func (t *Table) Len() (n int) {
	t.each(func(*Work, time.Duration) { n++ })
	return n
}
