package observer

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// serving lets the middleware serve a request until the function that it returns
// is called.
func serving(path string, options ...MiddlewareOption) (end func()) {
	began, ended := make(chan struct{}), make(chan struct{})
	var running sync.WaitGroup
	handler := Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(began)
		<-ended
	}), options...)
	running.Go(func() { handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)) })
	<-began
	return func() {
		close(ended)
		running.Wait()
	}
}

// driving does the same with a rollout.
func driving() (end func()) {
	began, ended := make(chan struct{}), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		_ = Driver().CountResident(func() error {
			close(began)
			<-ended
			return nil
		})
	})
	<-began
	return func() {
		close(ended)
		running.Wait()
	}
}

// named is the route that a request has.
func named(route string) MiddlewareOption {
	return WithRoute(func(*http.Request) string { return route })
}

// observe acquires the process until the test ends. Nobody samples.
func observe(t *testing.T) {
	t.Helper()
	p, err := Acquire(t.Context(), WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))))
	require.NoError(t, err)
	t.Cleanup(p.Release)
}

func TestOldestComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observe(t)
		var all []Work
		var unexpected *Work
		for i := range 2 * maxOldest {
			one := Work{Kind: "rollout"}
			var end func()
			switch {
			case i < maxOldest: // the oldest ten wait by design
				one = Work{Kind: "request", Name: fmt.Sprint("/", i)}
				end = serving("/", named(one.Name), WithExpectedWait(func(*http.Request) bool { return true }))
			case i%2 == 1:
				one = Work{Kind: "request", Name: fmt.Sprint("/", i)}
				end = serving("/", named(one.Name))
			default:
				end = driving()
			}
			defer end()
			time.Sleep(time.Minute)
			for j := range all {
				all[j].Age += time.Minute
			}
			one.Age = time.Minute
			all = append(all, one)
			if i >= maxOldest {
				unexpected = &all[maxOldest]
			}
			found := oldestWork()
			assert.Equal(t, all[:min(len(all), maxOldest)], found.work)
			assert.Equal(t, unexpected, found.unexpected)
		}
	})
}

func TestRequestsAndRolloutsAreListedByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observe(t)
		for i := range 4 {
			if i%2 == 0 {
				defer serving("/", named(fmt.Sprint("/", i)))()
			} else {
				defer driving()()
			}
			time.Sleep(time.Minute)
		}
		want := []Work{
			{Kind: "request", Name: "/0", Age: 4 * time.Minute}, {Kind: "rollout", Age: 3 * time.Minute},
			{Kind: "request", Name: "/2", Age: 2 * time.Minute}, {Kind: "rollout", Age: time.Minute},
		}
		found := oldestWork()
		assert.Equal(t, want, found.work)
		assert.Equal(t, &want[0], found.unexpected)
	})
}

// oldest is the work that has been in flight longest.
type oldest struct {
	work       []Work
	unexpected *Work // the oldest that does not wait by design; nil for none
}

func oldestWork() (found oldest) {
	all, unexpected := namer.Oldest(&totals.requests.listed, &totals.driver.listed, maxOldest, namePatience)
	for _, w := range all {
		found.work = append(found.work, Work{w.Kind, w.Name, w.Age})
	}
	if unexpected != nil {
		found.unexpected = &Work{unexpected.Kind, unexpected.Name, unexpected.Age}
	}
	return found
}

func TestNothingInFlightIsNoWork(t *testing.T) {
	found := oldestWork()
	assert.Empty(t, found.work)
	assert.Nil(t, found.unexpected)
}

func TestNameThatHangsIsAskedForOnce(t *testing.T) {
	observe(t)
	var asked atomic.Int64
	release := make(chan struct{})
	end := serving("/", WithRoute(func(*http.Request) string { // a router whose lock is held
		asked.Add(1)
		<-release
		return "/found"
	}))
	defer end()
	for range 3 {
		assert.Empty(t, oldestWork().work[0].Name)
	}
	assert.EqualValues(t, 1, asked.Load())
	close(release)
	require.Eventually(t, func() bool { return oldestWork().work[0].Name == "/found" }, 10*time.Second, time.Millisecond)
}

// A router that panics or exits costs the others their names at most.
func TestNamesSurviveTheRouter(t *testing.T) {
	observe(t)
	defer serving("/", WithRoute(func(*http.Request) string { panic("thrown by the router") }))()
	defer serving("/", named("/b"))()
	names := make(map[string]bool)
	for _, w := range oldestWork().work {
		names[w.Name] = true
	}
	assert.Equal(t, map[string]bool{"": true, "/b": true}, names)
}

// beginUntilDone begins a rollout and a request, which last until the function
// that it returns is called.
func beginUntilDone() (end func()) {
	endRollout, endRequest := driving(), serving("/")
	return func() {
		endRollout()
		endRequest()
	}
}

// ages returns those of the rollout and the request that are in flight.
func ages() (rollout, request time.Duration) {
	rollout, _ = totals.driver.listed.OldestAge()
	request, _ = totals.requests.listed.OldestAge()
	return rollout, request
}

func TestAgesAreRight(t *testing.T) {
	const tick = 100 * time.Millisecond
	for _, test := range []struct {
		interval, off time.Duration
	}{
		{10 * time.Millisecond, 12 * time.Millisecond},
		{800 * time.Millisecond, 960 * time.Millisecond},
		{seenOften + 1, 0}, // too seldom: requests look at the clock themselves
		{time.Hour, 0},
	} {
		t.Run(test.interval.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := start(t, "test", WithSampleInterval(test.interval), WithWindow(time.Hour))
				seen := false
				time.Sleep(2 * test.interval) // a sample, which says how often there are some
				for range 20 {
					time.Sleep(777 * time.Millisecond)
					end := beginUntilDone()
					time.Sleep(5 * time.Second)
					rollout, request := ages()
					assert.Equal(t, 5*time.Second, rollout)
					assert.LessOrEqual(t, request, 5*time.Second, "never too great")
					assert.GreaterOrEqual(t, request, 5*time.Second-test.off)
					seen = seen || request < 5*time.Second
					end()
				}
				assert.Equal(t, test.off > 0, seen, "requests have their time from the sampler")
				o.Stop()
			})
		})
	}
	exactly := func(t *testing.T, why string) {
		end := beginUntilDone()
		time.Sleep(5 * time.Second)
		rollout, request := ages()
		assert.Equal(t, 5*time.Second, rollout, why)
		assert.Equal(t, 5*time.Second, request, why)
		end()
	}
	within := func(t *testing.T, age time.Duration, why string) {
		rollout, request := ages()
		assert.Equal(t, age, rollout, why)
		assert.LessOrEqual(t, request, age, why)
		assert.GreaterOrEqual(t, request, age-tick*12/10, why)
	}
	t.Run("without a sampler", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			observe(t)
			time.Sleep(time.Hour)
			exactly(t, "there was none")

			o := start(t, "test", WithSampleInterval(tick), WithWindow(time.Hour))
			time.Sleep(time.Minute)
			o.Stop()
			time.Sleep(time.Hour)
			exactly(t, "nobody looks any more")
		})
	})
	t.Run("when the oldest loop hands over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			quick, slow := start(t, "test", WithSampleInterval(tick), WithWindow(time.Hour)), start(t, "test", WithSampleInterval(time.Hour), WithWindow(time.Hour))
			time.Sleep(time.Minute)
			quick.Stop()
			time.Sleep(30 * time.Minute)
			exactly(t, "the oldest is slow")

			quick = start(t, "test", WithSampleInterval(tick), WithWindow(time.Hour))
			time.Sleep(time.Minute)
			exactly(t, "the oldest is still the slow one")
			slow.Stop()
			time.Sleep(time.Minute)
			end := beginUntilDone()
			time.Sleep(5 * time.Second)
			within(t, 5*time.Second, "the oldest is the quick one")
			end()
			quick.Stop()
		})
	})
	t.Run("across a Stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := start(t, "test", WithSampleInterval(tick), WithWindow(time.Hour))
			time.Sleep(time.Minute)
			end := beginUntilDone()
			time.Sleep(time.Minute)
			o.Stop()
			time.Sleep(time.Hour)
			o = start(t, "test", WithSampleInterval(tick), WithWindow(time.Hour))
			time.Sleep(time.Minute)
			within(t, 62*time.Minute, "nobody looked meanwhile")
			end()
			o.Stop()
		})
	})
	t.Run("of what begins right before a Stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			observe(t)
			o := start(t, "test", WithSampleInterval(tick), WithWindow(time.Hour))
			time.Sleep(time.Minute)
			end := beginUntilDone()
			o.Stop() // before the next sample
			time.Sleep(time.Hour)
			within(t, time.Hour, "the sampler is gone, and has not seen it")
			end()
		})
	})
}

// A sampler that was stuck in the application's code when its Stop gave up on it
// goes on some time later, when nobody looks at what is in flight any more.
func TestSampleThatOutlivesItsStopMakesNobodyRelyOnIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observe(t)
		o := start(t, "test", WithSampleInterval(time.Second), WithWindow(time.Hour))
		time.Sleep(time.Minute)
		o.Stop()
		o.handle.loop.sample(time.Now())
		end := beginUntilDone()
		defer end()
		time.Sleep(5 * time.Second)
		_, request := ages()
		assert.Equal(t, 5*time.Second, request)
	})
}

// An observer outside of a bubble, and requests on both sides.
func TestH81AgesInsideAndOutsideOfABubble(t *testing.T) {
	o := start(t, "test", WithSampleInterval(10*time.Millisecond), WithWindow(time.Hour))
	defer o.Stop()
	defer serving("/")()
	synctest.Test(t, func(t *testing.T) {
		end := serving("/")
		time.Sleep(time.Minute)
		for _, w := range oldestWork().work {
			assert.LessOrEqual(t, w.Age, time.Minute)
		}
		end()
	})
	for _, w := range oldestWork().work {
		assert.Less(t, w.Age, time.Minute)
	}
}
