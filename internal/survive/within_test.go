package survive

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWithinGivesWhatTheCallCameTo(t *testing.T) {
	for name, test := range map[string]struct {
		call  func() (int, error)
		value int
		want  string // in the error
	}{
		"a value":  {func() (int, error) { return 7, nil }, 7, ""},
		"an error": {func() (int, error) { return 8, errUnavailable }, 8, "no such reading"},
		"a panic":  {func() (int, error) { throwFromHere(); return 9, nil }, 0, "thrown by the test"},
		"a Goexit": {func() (int, error) { runtime.Goexit(); return 9, nil }, 0, "runtime.Goexit was called"},
	} {
		value, late, err := Within(time.Minute, test.call)
		assert.Equal(t, test.value, value, name)
		assert.Nil(t, late, name)
		if test.want == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, test.want, name)
		}
	}
}

func TestWhoeverIsSlowIsLeftBehindAndHeardLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		value, late, err := Within(100*time.Millisecond, func() (int, error) {
			time.Sleep(time.Second)
			return 7, errUnavailable
		})
		assert.Equal(t, ErrSlow, err)
		assert.Zero(t, value)
		assert.Equal(t, 100*time.Millisecond, time.Since(began))
		require.NotNil(t, late)
		assert.Equal(t, Outcome[int]{7, errUnavailable}, <-late)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

func TestAwaitEndsWithWhicheverComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		done := make(chan struct{})
		assert.False(t, Await(done, began.Add(time.Second)))
		assert.Equal(t, time.Second, time.Since(began))

		time.AfterFunc(time.Second, func() { close(done) })
		assert.True(t, Await(done, began.Add(time.Minute)))
		assert.Equal(t, 2*time.Second, time.Since(began))

		for range 100 { // a select takes either of two that are ready
			assert.True(t, Await(done, began), "it is done, though the deadline has passed")
		}
	})
}
