package count

import (
	"iter"
	"math/bits"
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// The statuses that net/http lets out; WriteHeader panics on any other.
const (
	minStatus = 100
	maxStatus = 999
)

// Statuses counts responses by their HTTP status.
//
// It has two counts for each: of responses that end a request which [InFlight] has
// counted as begun, and of others. Where a response ends its request, that is one
// addition for both, which is worth a sum elsewhere: what every core writes is
// what a request pays most for.
type Statuses struct {
	ending, others byStatus
	_              cpu.CacheLinePad

	// A bit for each status that has been counted, so that those who read the
	// counts look at few of them. The second-best way is a list behind a lock: a
	// bit is set by whoever comes, without a wait for another who sets one.
	seen [(maxStatus-minStatus)/64 + 1]atomic.Uint64
}

type byStatus [maxStatus - minStatus + 1]atomic.Int64

// Count counts a response, and reports whether the status is one that net/http
// lets out. Others are not counted.
func (s *Statuses) Count(status int) bool { return s.add(&s.others, status) }

// CountEnding counts a response that ends its request, likewise. A request whose
// response it does not count has to be ended in another way.
func (s *Statuses) CountEnding(status int) bool { return s.add(&s.ending, status) }

func (s *Statuses) add(counts *byStatus, status int) bool {
	if status < minStatus || status > maxStatus {
		return false
	}
	i := status - minStatus
	// Set before counting: what is counted is found. It is looked at first, so that
	// the word's cache line stays shared between the cores.
	if word, bit := &s.seen[i/64], uint64(1)<<(i%64); word.Load()&bit == 0 {
		word.Or(bit)
	}
	counts[i].Add(1)
	return true
}

// Ended returns how many responses have ended their request.
func (s *Statuses) Ended() (ended int64) {
	for i := range s.counted() {
		ended += s.ending[i].Load()
	}
	return ended
}

// All returns the responses by status, for those that there were, in the order of
// the statuses.
func (s *Statuses) All() iter.Seq2[int, int64] {
	return func(yield func(status int, responses int64) bool) {
		for i := range s.counted() {
			if n := s.ending[i].Load() + s.others[i].Load(); n > 0 && !yield(i+minStatus, n) {
				return
			}
		}
	}
}

// counted returns the places of the statuses that have been counted.
func (s *Statuses) counted() iter.Seq[int] {
	return func(yield func(i int) bool) {
		for w := range s.seen {
			for word := s.seen[w].Load(); word != 0; word &= word - 1 {
				if !yield(w*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}
