package lag

import (
	"slices"
	"sync/atomic"
)

// Turns are the loops of a process, in the order of their start. Who changes them
// holds a lock; whoever reads them needs none. The zero value has none.
type Turns[L comparable] struct {
	listed atomic.Pointer[[]L] // replaced, never changed
	ended  atomic.Bool         // none is to sample any more
}

// All returns the loops. They must not be changed.
func (t *Turns[L]) All() []L {
	if listed := t.listed.Load(); listed != nil {
		return *listed
	}
	return nil
}

// Add adds a loop, and reports whether it is the only one.
func (t *Turns[L]) Add(l L) (first bool) {
	listed := append(slices.Clone(t.All()), l)
	t.listed.Store(&listed)
	return len(listed) == 1
}

// Remove removes a loop, and reports whether it was the last one.
func (t *Turns[L]) Remove(l L) (last bool) {
	listed := slices.DeleteFunc(slices.Clone(t.All()), func(other L) bool { return other == l })
	t.listed.Store(&listed)
	return len(listed) == 0
}

// End says that it is nobody's turn any more. The loops stay listed.
func (t *Turns[L]) End() { t.ended.Store(true) }

// Has reports whether it is a loop's turn to sample for the process: the oldest's.
func (t *Turns[L]) Has(l L) bool {
	all := t.All()
	return len(all) > 0 && all[0] == l && !t.ended.Load()
}
