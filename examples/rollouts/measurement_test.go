package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

// quiet is a stack in which nothing is slow: 48 rollouts, 16 of them running.
func quiet() measurement {
	return measurement{
		driver: stage{role: driverRole, verdict: observer.CauseAdmission, resident: 48, active: 16, outbound: 16,
			loads: map[observer.Cause]float64{observer.CauseAdmission: 32}},
		agent:     stage{role: agentRole, verdict: observer.CauseNone, inFlight: 16, outbound: 15},
		model:     stage{role: modelRole, verdict: observer.CauseNone, inFlight: 14, responses: 350},
		resources: stage{role: resourcesRole, verdict: observer.CauseNone, inFlight: 1, responses: 350},
	}
}

func TestPlacesHoldEachResidentRolloutOnce(t *testing.T) {
	m := quiet()
	m.driver.outbound, m.agent.inFlight, m.agent.outbound, m.model.inFlight, m.resources.inFlight = 15, 13, 10, 5, 3
	assert.Equal(t, []place{
		{atTheLimit, 32}, {inTheDriver, 1}, {driversClient, 2}, {inTheAgent, 3}, {agentsClient, 2}, {inTheModel, 5}, {inTheResources, 3},
	}, m.places())
}

func TestPlacesAreNeverNegative(t *testing.T) {
	m := quiet()
	m.agent.inFlight = 16.5 // read a little later than the driver's outbound
	for _, p := range m.places() {
		assert.GreaterOrEqual(t, p.rollouts, 0.0, p.name)
	}
}

func TestStageIsNamedByPlaceAndVerdict(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*measurement)
		stage  string
	}{
		{"nothing is slow behind a full limit", func(*measurement) {}, limitStage},
		{"nothing waits", func(m *measurement) {
			m.driver.verdict, m.driver.loads = observer.CauseNone, nil
		}, noStage},
		{"the model has a queue", func(m *measurement) { m.model.verdict = observer.CauseAdmission }, modelRole},
		{"the model has a queue, and few rollouts", func(m *measurement) {
			m.model.verdict, m.model.inFlight, m.agent.outbound = observer.CauseGC, 1, 2
		}, limitStage},
		{"the agent waits for a model that takes its time", func(m *measurement) { m.agent.verdict = observer.CauseDownstream }, modelRole},
		{"the resources server holds a lock", func(m *measurement) {
			m.resources.verdict, m.resources.inFlight, m.model.inFlight = observer.CauseLock, 14, 1
		}, resourcesRole},
		{"the agent waits for resources that take their time", func(m *measurement) {
			m.agent.verdict, m.resources.inFlight, m.model.inFlight = observer.CauseDownstream, 14, 1
		}, resourcesRole},
		{"the agent computes", func(m *measurement) {
			m.agent.verdict, m.agent.outbound, m.model.inFlight, m.resources.inFlight = observer.CauseCPUSaturated, 1, 1, 0
		}, agentRole},
		{"the agent takes its time", func(m *measurement) {
			m.driver.verdict, m.agent.outbound, m.model.inFlight, m.resources.inFlight = observer.CauseDownstream, 1, 1, 0
		}, agentRole},
		{"the driver's client has too few connections", func(m *measurement) {
			m.driver.verdict, m.agent.inFlight, m.agent.outbound, m.model.inFlight = observer.CauseDownstream, 2, 2, 1
		}, clientStage},
		{"the driver's client has too few connections, and its limit is full", func(m *measurement) {
			m.driver.verdict, m.agent.inFlight, m.agent.outbound, m.model.inFlight = observer.CauseAdmission, 2, 2, 1
		}, clientStage},
		{"the driver's own connections are what its verdict names", func(m *measurement) {
			m.driver.verdict, m.agent.inFlight, m.agent.outbound, m.model.inFlight = observer.CauseWait, 2, 2, 1
		}, clientStage},
		{"the agent's client has too few connections", func(m *measurement) {
			m.agent.verdict, m.model.inFlight = observer.CauseWait, 2
		}, clientStage},
		{"the agent's client has too few connections, as far as it sees", func(m *measurement) {
			m.agent.verdict, m.model.inFlight = observer.CauseDownstream, 2
		}, clientStage},
		{"the driver's output is slow", func(m *measurement) {
			m.driver.verdict, m.driver.outbound, m.agent.inFlight = observer.CauseOutputWrite, 2, 2
			m.agent.outbound, m.model.inFlight, m.resources.inFlight = 1, 1, 0
		}, driverRole},
		{"others have the processors, and nobody waits long", func(m *measurement) {
			m.agent.verdict, m.model.verdict, m.resources.verdict = observer.CauseCPUContended, observer.CauseCPUContended, observer.CauseCPUContended
		}, limitStage},
		{"others have the processors, the driver's too", func(m *measurement) {
			m.driver.verdict, m.agent.verdict, m.model.verdict = observer.CauseCPUContended, observer.CauseCPUContended, observer.CauseCPUContended
		}, machineStage},
		{"others have the processors, and the agent waits for the model", func(m *measurement) {
			m.agent.verdict, m.model.verdict = observer.CauseDownstream, observer.CauseCPUContended
		}, modelRole},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := quiet()
			test.change(&m)
			assert.Equal(t, test.stage, m.limits().stage, "the stage, where the places are %v", m.places())
		})
	}
}

func TestStageTakesTheWindowsUnderLoad(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(second int, verdict observer.Cause, inFlight float64) window {
		return window{At: began.Add(time.Duration(second) * time.Second), Length: time.Second, Verdict: verdict, InFlight: inFlight,
			Loads: map[observer.Cause]float64{observer.CauseLock: inFlight / 2}, Responses: 10, Admitted: 2, Waited: time.Second}
	}
	s, ok := newStage(agentRole, []window{
		at(0, observer.CauseNone, 100), at(1, observer.CauseNone, 100), // the start
		at(2, observer.CauseNone, 2), at(3, observer.CauseLock, 4), at(4, observer.CauseLock, 6),
		at(5, observer.CauseNone, 100), // the end is in it
	}, began.Add(time.Second), began.Add(4500*time.Millisecond))
	require.True(t, ok)
	assert.Equal(t, 3, s.windows)
	assert.Equal(t, observer.CauseLock, s.verdict)
	assert.Equal(t, 2, s.held)
	assert.InDelta(t, 4, s.inFlight, 1e-9)
	assert.InDelta(t, 2, s.loads[observer.CauseLock], 1e-9)
	assert.InDelta(t, 10, s.responses, 1e-9)
	assert.Equal(t, 500*time.Millisecond, s.waited)

	_, ok = newStage(agentRole, nil, began, began)
	assert.False(t, ok, "a stage without a window")
}
