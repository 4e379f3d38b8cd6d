//go:build !race

package evidence

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The race detector bears no more than 8128 goroutines.
func TestManyGoroutinesAreNotListed(t *testing.T) {
	var parked sync.WaitGroup
	leave := make(chan struct{})
	for range maxGoroutinesListed {
		parked.Go(func() { <-leave })
	}
	many := contents(t, Goroutines("goroutines.txt"))
	close(leave)
	parked.Wait()
	assert.Regexp(t, `^200\d\d goroutines are too many to list`, many)
	assert.Contains(t, contents(t, Goroutines("goroutines.txt")), "goroutine profile: total ")
}
