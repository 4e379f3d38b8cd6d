package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/e2e/internal/backend"
)

// ofServer selects the series of examples/server.
const ofServer = `{job="nemo-gym/server"}`

// responsesByStatus is a query for all that a server has answered.
const responsesByStatus = `sum by (http_response_status_code) (gym_server_responses_total` + ofServer + `)`

// testServer asks examples/server for a bit of everything, and compares what
// Prometheus says with what was asked.
func testServer(t *testing.T, s stack) {
	server := backend.StartExample(t, "server", s.settings(backend.GRPC), "-clients", "0", "-every", "0")
	began := time.Now()
	client := newClient(t, server)

	t.Run("requests in flight", func(t *testing.T) {
		const n = 5
		stop := client.keepInFlight(t, n, "/search")
		s.awaitOne(t, sumOf("gym_server_requests_in_flight", ofServer), n)
		s.awaitOne(t, sumOf("gym_http_client_requests_in_flight", ofServer), n)
		s.awaitAtLeast(t, sumOf("gym_server_requests_oldest_age_seconds", ofServer), 1)
		s.awaitAtLeast(t, sumOf("gym_event_loop_tasks", ofServer), n)
		stop()
		s.awaitOne(t, sumOf("gym_server_requests_in_flight", ofServer), 0)
		s.awaitOne(t, sumOf("gym_http_client_requests_in_flight", ofServer), 0)
	})

	t.Run("responses and departures", func(t *testing.T) {
		const missing, crashes, before, within = 3, 2, 5, 4
		client.getRollouts(t, 300)
		for range missing {
			client.get(t, "/rollouts/0")
		}
		for range crashes {
			client.crash(t)
		}
		for range before {
			client.hangUpBefore(t, "/search")
		}
		for range within {
			client.hangUpWithin(t, "/rollouts/7/events")
		}
		s.await(t, responsesByStatus, client.counted())
		s.awaitOne(t, sumOf("gym_server_requests_unhandled_exceptions_total", ofServer), crashes)
		s.await(t, `sum by (http_route, nemo_gym_request_phase) (gym_server_requests_cancelled_total`+ofServer+`)`, values{
			"/search before_response":                before,
			"/rollouts/{id}/events response_started": within,
		})
	})

	t.Run("garbage collector", func(t *testing.T) {
		backend.Await(t, func() error {
			client.getRollouts(t, 100)
			found, err := s.ask(sumOf("gym_gc_collections_total", ofServer))
			if err == nil && found[""] < 3 {
				err = fmt.Errorf("the server has collected %v times, want 3", found)
			}
			return err
		})
		// Each collection has two pauses. The first may have begun before the
		// observer, and the last may not be over.
		s.awaitThat(t, sumOf("gym_gc_pause_duration_ms_milliseconds_count", ofServer)+` - 2 * `+sumOf("gym_gc_collections_total", ofServer),
			"-2 to 2", func(found values) bool { return len(found) == 1 && -2 <= found[""] && found[""] <= 2 })
		s.awaitPositive(t, sumOf("gym_gc_pause_duration_ms_milliseconds_sum", ofServer))
		s.awaitPositive(t, sumOf("gym_gc_collected_total", ofServer))
		s.awaitPositive(t, sumOf("gym_gc_count", ofServer))
		s.awaitAtLeast(t, sumOf("gym_gc_uncollectable_total", ofServer), 0)
	})

	t.Run("scheduler", func(t *testing.T) {
		const shortest = 80 * time.Millisecond // a fifth below the default interval
		samples := s.awaitAtLeast(t, `sum(gym_event_loop_lag_ms_milliseconds_count{job="nemo-gym/server",nemo_gym_event_loop="server"})`, 50)
		assert.LessOrEqual(t, samples, 1+float64(time.Since(began)/shortest), "samples of the lag")
		s.awaitPositive(t, sumOf("gym_event_loop_lag_ms_milliseconds_sum", ofServer))
		s.awaitOne(t, sumOf("gym_event_loop_run_queue_count", ofServer)+` - `+sumOf("gym_event_loop_lag_ms_milliseconds_count", ofServer), 0)
		s.awaitPositive(t, sumOf("go_schedule_duration_seconds_count", ofServer))
	})

	t.Run("histograms are whole", func(t *testing.T) {
		s.awaitThat(t, `sum by (__name__) ({job="nemo-gym/server",le="+Inf"})`, "four histograms",
			func(found values) bool { return len(found) == 4 })
		for _, name := range []string{
			"gym_event_loop_lag_ms_milliseconds", "gym_event_loop_run_queue", "gym_gc_pause_duration_ms_milliseconds", "go_schedule_duration_seconds",
		} {
			s.awaitOne(t, fmt.Sprintf(`sum(%s_bucket{job="nemo-gym/server",le="+Inf"}) - %s`, name, sumOf(name+"_count", ofServer)), 0)
		}
	})

	t.Run("process", func(t *testing.T) { testProcess(t, s, ofServer, kernelOf(t, server.PID())) })

	t.Run("causes", func(t *testing.T) {
		loads := s.awaitThat(t, `sum by (nemo_gym_cause) (gym_load`+ofServer+`)`, "some", func(found values) bool { return len(found) > 0 })
		slow := s.mustAsk(t, `sum by (nemo_gym_cause) (gym_slow_time_seconds_total`+ofServer+`)`)
		for cause, load := range loads {
			assert.GreaterOrEqual(t, load, 0.0, "load of %s", cause)
			assert.Contains(t, slow, cause, "slow time by cause")
		}
	})

	t.Run("end", func(t *testing.T) {
		client.getRollouts(t, 20)
		server.Interrupt(t)
		s.await(t, responsesByStatus, client.counted())
		s.awaitOne(t, `count(count by (instance) ({job="nemo-gym/server"}))`, 1)
	})
}
