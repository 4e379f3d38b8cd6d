package observer

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHeldIsExactUnderConcurrency(t *testing.T) {
	manually(t)
	a := NewMeteredAdmission(nil)
	var rollouts sync.WaitGroup
	for range 8 {
		rollouts.Go(func() {
			for range 50_000 {
				_ = a.Acquire(context.Background(), 1)
				a.Release(1)
			}
		})
	}
	rollouts.Wait()
	assert.Zero(t, a.held.Load())
	assert.Zero(t, Driver().Counts().Active)
}
