package observer_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer"
)

// century is more than any age or wait of these tests, and less than the time
// between the clock of a bubble, which begins in the year 2000, and that of its
// process.
const century = 20 * 365 * 24 * time.Hour

// What begins outside of a bubble of testing/synctest and is asked inside of it, or
// the other way round, has no age of centuries and ends no process.
func TestH81BubblesAlternate(t *testing.T) {
	o := start(t, "test", observer.WithSampleInterval(time.Millisecond), observer.WithWindow(time.Second))
	admission := observer.NewMeteredAdmission(semaphore.NewWeighted(1))
	work := func(t *testing.T) {
		for range 2000 { // more than fit into a ring of recordings
			require.NoError(t, admission.Acquire(context.Background(), 1))
			admission.Release(1)
		}
		for range 10 {
			_ = observer.Driver().CountResident(func() error {
				ask(t, o)
				return nil
			})
		}
		observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			ask(t, o)
			w.WriteHeader(http.StatusNoContent)
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		_, err := observer.Transport(roundTrip(func(*http.Request) (*http.Response, error) {
			ask(t, o)
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
		})).RoundTrip(httptest.NewRequest(http.MethodGet, "http://model.test/", nil))
		require.NoError(t, err)
	}
	for range 3 {
		work(t)
		synctest.Test(t, work)
		ask(t, o)
	}
}

// ask looks at everything that an observer shows.
func ask(t *testing.T, o *observed) {
	t.Helper()
	metrics := o.collect(t)
	for _, name := range []string{observer.RequestsOldestAgeInstrument, observer.RolloutsOldestAgeInstrument, observer.OutboundOldestAgeInstrument} {
		for _, p := range metrics.points(name) {
			assert.Less(t, p.value, century.Seconds(), name)
			assert.GreaterOrEqual(t, p.value, 0.0, name)
		}
	}
	for _, p := range metrics.points(observer.DriverAdmissionInstrument) {
		assert.Less(t, p.sum, float64(century.Milliseconds()))
		assert.GreaterOrEqual(t, p.sum, 0.0)
	}
	for _, w := range observer.Diagnose().Oldest {
		assert.Less(t, w.Age, century)
		assert.GreaterOrEqual(t, w.Age, time.Duration(0))
	}
	answer := httptest.NewRecorder()
	observer.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/?format=json", nil))
	assert.Equal(t, http.StatusOK, answer.Code)
}

// Who is in a bubble and who is not work at the same time.
func TestH81BubblesBesideTheWorld(t *testing.T) {
	o := start(t, "test", observer.WithSampleInterval(time.Millisecond))
	admission := observer.NewMeteredAdmission(limitless{})
	handler := observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	work := func() {
		for range 1000 {
			if admission.Acquire(context.Background(), 1) == nil {
				admission.Release(1)
			}
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}
	}
	var outside sync.WaitGroup
	outside.Go(work)
	synctest.Test(t, func(t *testing.T) {
		var inside sync.WaitGroup
		inside.Go(work)
		ask(t, o)
		inside.Wait()
	})
	outside.Wait()
	ask(t, o)
}

// limitless admits everybody: a semaphore's channels must not leave their bubble.
type limitless struct{}

func (limitless) Acquire(context.Context, int64) error { return nil }
func (limitless) TryAcquire(int64) bool                { return true }
func (limitless) Release(int64)                        {}

// A page that is looked at outside of a bubble and inside of it shares nothing
// that belongs to one of them.
func TestH81StreamsInsideAndOutsideOfABubble(t *testing.T) {
	start(t, "test", observer.WithSampleInterval(10*time.Millisecond))
	handler := observer.Handler()
	lookAt := func(handler http.Handler) (leave func()) {
		ctx, cancel := context.WithCancel(context.Background())
		var looking sync.WaitGroup
		looking.Go(func() {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/?format=events", nil))
		})
		return func() { cancel(); looking.Wait() }
	}
	leave := lookAt(handler)
	synctest.Test(t, func(*testing.T) {
		leaveIt, leaveAnother := lookAt(handler), lookAt(observer.Handler())
		time.Sleep(time.Minute)
		leaveIt()
		leaveAnother()
	})
	leave()
	synctest.Test(t, func(*testing.T) {
		defer lookAt(handler)()
		defer lookAt(observer.Handler())()
		time.Sleep(time.Minute)
	})
	defer lookAt(handler)()
}
