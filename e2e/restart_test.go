package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/e2e/internal/backend"
)

// What a process logs at the beginning and at the end of an outage.
const (
	exportFailed = "an export failed"
	exportWorks  = "exports work again"
)

// TestTotalsSurviveACollectorThatDies kills the collector while a server works,
// and starts another that has never heard of it.
func TestTotalsSurviveACollectorThatDies(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{backend.GRPC, backend.HTTP} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s := startStack(t)
			server := backend.StartExample(t, "server", s.settings(protocol), "-clients", "0", "-every", "0")
			client := newClient(t, server)
			stop := client.keepInFlight(t, 4, "/rollouts/7")
			responses := sumOf("gym_server_responses_total", ofServer)
			before := s.awaitAtLeast(t, responses, 100)

			warnings := strings.Count(server.Output(), exportFailed)

			s.collector.Kill()
			s.awaitOne(t, `sum(up{job="collector"})`, 0)
			server.WaitForOutput(t, exportFailed)
			outage := time.Now()
			served := sum(client.counted())
			backend.Await(t, func() error {
				if more := sum(client.counted()) - served; more < 100 || time.Since(outage) < 5*time.Second {
					return fmt.Errorf("during the outage the server has answered %v times", more)
				}
				return nil
			})
			assert.Equal(t, 1, strings.Count(server.Output(), exportFailed)-warnings, "warnings about an outage of ten exports")

			s.collector.Restart(t)
			server.WaitForOutput(t, exportWorks)
			s.awaitAtLeast(t, responses, before+100)
			stop()
			s.await(t, responsesByStatus, client.counted())
			s.awaitOne(t, `sum(resets(gym_server_responses_total{job="nemo-gym/server",http_response_status_code="200"}[10m]))`, 0)

			client.getRollouts(t, 20)
			server.Interrupt(t)
			s.await(t, responsesByStatus, client.counted())
			assert.Equal(t, strings.Count(server.Output(), exportWorks), strings.Count(server.Output(), exportFailed), "warnings, of which each has had its end")
		})
	}
}
