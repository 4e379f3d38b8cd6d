package inflight

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A reader that loses its processor in the middle of the table finds work that has
// begun in the meantime: it is not as old as the reader's first look at the clock.
func TestAReaderThatIsHeldUpExaggeratesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table
		table.SeenOften(true)
		list(&table, nil)
		heldUp := false
		meanwhile := make(map[*Work]bool)
		table.each(func(w *Work, age time.Duration) {
			if !heldUp {
				heldUp = true
				time.Sleep(time.Hour)
				for range slotsPerChunk / 2 { // some of them in slots that are still to come
					meanwhile[list(&table, nil)] = true
				}
			}
		})
		assert.NotEmpty(t, meanwhile)
		time.Sleep(time.Minute)
		table.each(func(w *Work, age time.Duration) {
			if meanwhile[w] {
				assert.LessOrEqual(t, age, time.Minute)
			}
		})
	})
}
