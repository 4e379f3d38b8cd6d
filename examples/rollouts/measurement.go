package main

import (
	"fmt"

	"github.com/gym-observer/observer"
)

// measurement is what the four observers say. All that is concluded from it
// comes from there: nothing in this file knows the knobs.
type measurement struct {
	driver, agent, model, resources stage
}

// place is somewhere where a rollout can be. The mean number that is there, over
// those that complete in a second, is the time that each spends there.
type place struct {
	name     string
	rollouts float64
}

// The places, in the order in which a rollout comes to them.
const (
	atTheLimit     = "driver, waiting for its limit"
	inTheDriver    = "driver, past its limit"
	driversClient  = "HTTP client of the driver"
	inTheAgent     = "agent"
	agentsClient   = "HTTP client of the agent"
	inTheModel     = "model"
	inTheResources = "resources"
)

// places divides the resident rollouts among the places. What one process has
// sent, and the next does not have yet, is with the HTTP client in between.
func (m measurement) places() []place {
	between := func(more, less float64) float64 { return max(0, more-less) } // read at different times
	return []place{
		{atTheLimit, between(m.driver.resident, m.driver.active)},
		{inTheDriver, between(m.driver.active, m.driver.outbound)},
		{driversClient, between(m.driver.outbound, m.agent.inFlight)},
		{inTheAgent, between(m.agent.inFlight, m.agent.outbound)},
		{agentsClient, between(m.agent.outbound, m.model.inFlight+m.resources.inFlight)},
		{inTheModel, m.model.inFlight},
		{inTheResources, m.resources.inFlight},
	}
}

// finding says which stage limits the throughput.
type finding struct {
	stage string // a role or one of the stages below
	why   string
}

const (
	limitStage   = "driver's limit"
	clientStage  = "HTTP client"
	machineStage = "machine" // that they all run on
	noStage      = "none"
)

// limits names the stage. Rollouts pile up in front of what is slow, so it looks
// at the place past the limit that has most of them, and asks the observer there
// what they wait for. A place is not slow because it has the most: some place
// always has. Only a verdict makes it so, its own, or that of who waits for it.
func (m measurement) limits() finding {
	past := m.places()[1:]
	fullest, sum := past[0], 0.0
	for _, p := range past {
		sum += p.rollouts
		if p.rollouts > fullest.rollouts {
			fullest = p
		}
	}
	share := fmt.Sprintf("%.0f %% of the rollouts past the driver's limit are there", 100*fullest.rollouts/max(sum, 1e-9))

	switch fullest.name {
	case inTheDriver:
		if m.driver.hasCause() && m.driver.verdict != observer.CauseAdmission {
			return finding{driverRole, share + ": " + m.driver.summary}
		}
	case driversClient:
		// What waits for a connection of its own is not the agent's doing: the verdict is
		// wait. With too few calls for that, the driver may only see that its limit is full.
		switch m.driver.verdict {
		case observer.CauseDownstream, observer.CauseAdmission, observer.CauseWait:
			return finding{clientStage, fmt.Sprintf("%s: the driver waits for %.1f answers, and only %.1f of these requests have reached the agent. Allow more connections.",
				share, m.driver.outbound, m.agent.inFlight)}
		}
	case agentsClient:
		if m.agent.verdict == observer.CauseDownstream || m.agent.verdict == observer.CauseWait {
			return finding{clientStage, fmt.Sprintf("%s: the agent waits for %.1f answers, and only %.1f of these requests have reached the model and the resources server. Allow more connections.",
				share, m.agent.outbound, m.model.inFlight+m.resources.inFlight)}
		}
	case inTheAgent:
		if f, ok := m.agent.blame(m.driver, share); ok {
			return f
		}
	case inTheModel:
		if f, ok := m.model.blame(m.agent, share); ok {
			return f
		}
	case inTheResources:
		if f, ok := m.resources.blame(m.agent, share); ok {
			return f
		}
	}
	// A driver without a processor is late whatever it waits for: then a full limit
	// says nothing.
	if m.driver.verdict == observer.CauseCPUContended || m.driver.verdict == observer.CauseUnknown {
		return finding{machineStage, "the driver runs late: " + m.driver.summary}
	}
	if m.driver.loads[observer.CauseAdmission] >= 1 {
		return finding{limitStage, fmt.Sprintf("%.1f rollouts wait for it, and nothing behind it is slow: raise it.", m.driver.loads[observer.CauseAdmission])}
	}
	return finding{noStage, "nothing is slow, and no rollout waits: more of them could come."}
}

// blame names a server by what its own work waits for, or because its caller
// waits for it. In that case nothing in it may wait: then it takes its time, or
// has no processor.
func (s stage) blame(caller stage, share string) (finding, bool) {
	switch {
	case s.hasCause():
		return finding{s.role, share + ": " + s.summary}, true
	case caller.verdict != observer.CauseDownstream:
		return finding{}, false
	case s.verdict == observer.CauseNone || s.verdict == observer.CauseDownstream:
		return finding{s.role, fmt.Sprintf("%s, each request takes %v, and nothing that is measured waits in it: it takes its time.",
			share, perCall(s.inFlight, s.responses))}, true
	}
	return finding{s.role, share + ": " + s.summary}, true
}

// hasCause reports whether the verdict names something in the process itself.
// What others do to it shows in all processes of a machine at once: to name one
// of them takes a caller who waits for it.
func (s stage) hasCause() bool {
	switch s.verdict {
	case observer.CauseNone, observer.CauseDownstream, observer.CauseCPUContended, observer.CauseUnknown:
		return false
	}
	return true
}
