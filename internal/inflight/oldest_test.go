package inflight

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/monotonic"
)

// began lets work have begun at a time on the monotonic clock.
func began(w *Work, at time.Duration) { w.began.Store(int64(at)) }

func TestOldestComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its time stands still, and the work may be older than the process
		var table Table
		order := []int{5, 0, 11, 3, 8, 1, 10, 2, 7, 4, 9, 6, 12}
		for _, i := range order {
			w := table.New()
			w.Path, w.Expected = fmt.Sprint("/", i), i%2 == 1
			began(w, monotonic.Now()-time.Duration(100-i)*time.Minute)
			table.List(w, added.Add(1))
		}
		var all, unexpected []Aged
		for i := range order {
			one := Aged{Request{Path: fmt.Sprint("/", i), Expected: i%2 == 1}, time.Duration(100-i) * time.Minute}
			all = append(all, one)
			if !one.Expected {
				unexpected = append(unexpected, one)
			}
		}
		for n := 1; n < 15; n++ {
			assert.Equal(t, all[:min(n, len(all))], table.Oldest(n, everything))
			assert.Equal(t, unexpected[:min(n, len(unexpected))], table.Oldest(n, func(r *Request) bool { return !r.Expected }))
		}
		assert.Empty(t, table.Oldest(3, func(*Request) bool { return false }))
		age, any := table.OldestAge()
		assert.True(t, any)
		assert.Equal(t, 100*time.Minute, age)
	})
}

func TestNothingInFlightHasNoAge(t *testing.T) {
	var table Table
	assert.Empty(t, table.Oldest(10, everything))
	_, any := table.OldestAge()
	assert.False(t, any)
	table.End(list(&table, nil))
	_, any = table.OldestAge()
	assert.False(t, any)
}

// What is returned is a copy: the work may end and be used again meanwhile.
func TestOldestIsACopy(t *testing.T) {
	var table Table
	w := table.New()
	w.Path = "/a"
	table.List(w, 1)
	oldest := table.Oldest(1, everything)
	table.End(w)
	w.Path = "/another"
	assert.Equal(t, "/a", oldest[0].Path)
}

func TestAgeIsNeverNegative(t *testing.T) {
	var table Table
	w := list(&table, nil)
	began(w, monotonic.Now()+time.Hour) // listed after the reader has looked at the clock
	assert.Zero(t, table.Oldest(1, everything)[0].Age)
	age, any := table.OldestAge()
	assert.True(t, any)
	assert.Zero(t, age)
}

func BenchmarkOldest(b *testing.B) {
	var table Table
	for range 10_000 {
		list(&table, new(router))
	}
	b.ReportAllocs()
	for b.Loop() {
		table.Oldest(10, everything)
	}
}
