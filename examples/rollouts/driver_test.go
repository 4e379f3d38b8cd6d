package main

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// arrivals returns when the first rollouts of an open loop ask for the agent.
func arrivals(seed uint64) (times []time.Duration) {
	var mu sync.Mutex // guards times
	began := time.Now()
	d := newDriver(settings{Rate: 50, Seed: seed, Turns: 1}, "http://agent.invalid")
	d.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		times = append(times, time.Since(began))
		mu.Unlock()
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	d.drive(ctx)
	return times
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOpenLoopArrivesAtItsRateWhateverTheAgentDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := arrivals(1)
		// 500 are expected of a Poisson process, with a standard deviation of 22.
		assert.InDelta(t, 500, len(times), 110)
	})
}

func TestSeedMakesArrivalsRepeatable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := arrivals(1)
		assert.Equal(t, first, arrivals(1))
		assert.NotEqual(t, first, arrivals(2))
	})
}

func TestEndAbandonsWhatWaitsAndLeavesWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(settings{Concurrency: 10, DriverLimit: 3, Turns: 1}, "http://agent.invalid")
		d.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		assert.Equal(t, totals{Offered: 10, Abandoned: 10}, d.drive(ctx))
		assert.Less(t, time.Since(began), time.Second+drainPatience+time.Second)
	})
}
