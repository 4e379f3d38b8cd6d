package e2e_test

import (
	"testing"

	"github.com/gym-observer/observer/e2e/internal/backend"
)

// TestProcessesOfOneInstanceHideEachOther shows why each process has an instance
// of its own: a collector takes two processes that share one for a single process,
// and keeps what came last.
func TestProcessesOfOneInstanceHideEachOther(t *testing.T) {
	t.Parallel()
	s := startStack(t)
	settings := append(s.settings(backend.GRPC), "OTEL_RESOURCE_ATTRIBUTES=service.instance.id=shared")
	start := func(requests int) *backend.Process {
		server := backend.StartExample(t, "server", settings, "-clients", "0", "-every", "0")
		client := newClient(t, server)
		for range requests {
			client.get(t, "/rollouts/0")
		}
		return server
	}
	const responses = `gym_server_responses_total{job="nemo-gym/server",instance="shared"}`
	first := start(3)
	s.awaitOne(t, `sum(`+responses+`)`, 3)
	start(5)
	first.Interrupt(t)
	s.awaitOne(t, `sum(`+responses+`)`, 5)
	s.awaitOne(t, `count(`+responses+`)`, 1)
}
