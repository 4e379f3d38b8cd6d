package page

import (
	"encoding/json"
	"math"
	"reflect"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/diagnosis"
)

// began is the time at which the histories of the tests begin.
var began = time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)

func secondsOf(h *History, now time.Time) []Second { return values(h.seconds.since(0, now)) }

func windowsOf(h *History, now time.Time) []Window { return values(h.windows.since(0, now)) }

func values[T row](rows []numbered[T]) (all []T) {
	for _, row := range rows {
		all = append(all, row.value)
	}
	return all
}

// filled returns a history of so many seconds, with a window every ten of them.
func filled(seconds int) (h *History, now time.Time) {
	h, now = new(History), began
	for i := range seconds {
		now = now.Add(time.Second)
		h.AddSecond(&Second{At: InstantOf(now), Length: time.Second, Samples: 10, InFlight: float64(i)})
		if i%10 == 9 {
			h.AddWindow(&Window{At: InstantOf(now), Length: 10 * time.Second, Verdict: diagnosis.None, CPU: Number(i)})
		}
	}
	return h, now
}

func TestHistoryIsUnderOneMebibyte(t *testing.T) {
	assert.Less(t, unsafe.Sizeof(History{}), uintptr(1<<20))
}

func TestHistoryKeepsTheLastTenMinutes(t *testing.T) {
	for _, added := range []int{0, 1, 10, 599, 600, 601, 1200, 5000} {
		h, now := filled(added)
		seconds, windows := secondsOf(h, now), windowsOf(h, now)
		require.Equal(t, min(added, 600), len(seconds), "seconds of %d", added)
		require.Equal(t, min(added, 600)/10, len(windows), "windows of %d seconds", added)
		for i, s := range seconds {
			assert.Equal(t, float64(added-len(seconds)+i), s.InFlight)
		}
	}
}

func TestHistoryForgetsWhatIsOld(t *testing.T) {
	h, now := filled(600)
	assert.Equal(t, 60, len(secondsOf(h, now.Add(9*time.Minute))))
	assert.Zero(t, len(secondsOf(h, now.Add(time.Hour))))
	assert.Zero(t, len(windowsOf(h, now.Add(time.Hour))))
}

func TestAClockThatWasSetBackShowsTheNewerRows(t *testing.T) {
	h, now := filled(100)
	for i := range 10 {
		h.AddSecond(&Second{At: InstantOf(now.Add(time.Duration(i-50) * time.Second)), InFlight: -1})
	}
	seconds := secondsOf(h, now.Add(-41*time.Second))
	require.Equal(t, 49+10, len(seconds))
	for i := 1; i < len(seconds); i++ {
		assert.True(t, seconds[i-1].At < seconds[i].At, "time goes on")
	}
	assert.Equal(t, -1.0, seconds[len(seconds)-1].InFlight)
}

// The writer goes past a slot that somebody reads.
func TestReaderAsleepHoldsUpNobody(t *testing.T) {
	h, now := filled(600)
	asleep := &h.seconds.slots[h.seconds.next]
	asleep.mu.Lock()
	for range 3 {
		now = now.Add(time.Second)
		h.AddSecond(&Second{At: InstantOf(now), InFlight: -1})
	}
	asleep.mu.Unlock()
	seconds := secondsOf(h, now)
	require.Equal(t, 599, len(seconds), "the last ten minutes but for the slot that was skipped")
	for _, s := range seconds[596:] {
		assert.Equal(t, -1.0, s.InFlight)
	}
}

func TestReadersSeeWholeRows(t *testing.T) {
	h, now := filled(600)
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				for _, s := range secondsOf(h, now) {
					if s.Samples != 10 && (s.Samples != s.Pauses || s.Lag[LagBuckets-1] != s.Samples) {
						t.Errorf("half a row: %+v", s)
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range 2000 {
		s := Second{At: InstantOf(now), Samples: int64(i), Pauses: int64(i)}
		s.Lag[LagBuckets-1] = int64(i)
		h.AddSecond(&s)
	}
	close(done)
	readers.Wait()
}

func TestAddingAllocatesNothing(t *testing.T) {
	h, now := filled(10)
	s, w := &Second{At: InstantOf(now)}, &Window{At: InstantOf(now)}
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		h.AddSecond(s)
		h.AddWindow(w)
	}))
}

func TestNumberThatWasNotMeasuredIsNull(t *testing.T) {
	text, err := json.Marshal([]Number{Unmeasured, 0, 1.5, Number(math.Inf(1))})
	require.NoError(t, err)
	assert.JSONEq(t, `[null, 0, 1.5, null]`, string(text))
}

// The collector would look at all of it in each of its cycles.
func TestHistoryHasNoPointers(t *testing.T) {
	var pointers func(t reflect.Type) []string
	pointers = func(t reflect.Type) (found []string) {
		switch t.Kind() {
		case reflect.Array:
			return pointers(t.Elem())
		case reflect.Struct:
			for field := range t.Fields() {
				found = append(found, pointers(field.Type)...)
			}
			return found
		case reflect.Pointer, reflect.String, reflect.Slice, reflect.Map, reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
			return []string{t.String()}
		}
		return nil
	}
	assert.Empty(t, pointers(reflect.TypeFor[History]()))
	assert.NotEmpty(t, pointers(reflect.TypeFor[time.Time]()), "the test sees them")
}
