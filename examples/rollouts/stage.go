package main

import (
	"time"

	"github.com/gym-observer/observer"
)

// windowsToSettle are left out at the beginning: the first has the start in it,
// and a verdict takes two that agree.
const windowsToSettle = 2

// stage is what the observer of one process said over the windows that count.
type stage struct {
	role    string
	windows int

	verdict observer.Cause // the one of most windows, the later one of two
	held    int            // the windows in which it was the verdict
	summary string         // of the last of them
	loads   map[observer.Cause]float64

	inFlight, outbound  float64 // requests
	resident, active    float64 // rollouts
	responses, rollouts float64 // a second
	admitted            float64
	waited              time.Duration // mean, of the admitted
}

// newStage adds up the windows that lie between two times; ok is false where
// there is none.
func newStage(role string, all []window, from, to time.Time) (s stage, ok bool) {
	s = stage{role: role, loads: make(map[observer.Cause]float64)}
	verdicts := make(map[observer.Cause]int)
	var took time.Duration
	var waited time.Duration
	for _, w := range all {
		if w.At.Add(-w.Length).Before(from) || w.At.After(to) {
			continue
		}
		s.windows++
		took += w.Length
		verdicts[w.Verdict]++
		if verdicts[w.Verdict] >= s.held {
			s.verdict, s.held, s.summary = w.Verdict, verdicts[w.Verdict], w.Summary
		}
		for cause, load := range w.Loads {
			s.loads[cause] += load * w.Length.Seconds()
		}
		s.inFlight += w.InFlight * w.Length.Seconds()
		s.outbound += w.Outbound * w.Length.Seconds()
		s.resident += w.Resident * w.Length.Seconds()
		s.active += w.Active * w.Length.Seconds()
		s.responses += w.Responses
		s.rollouts += w.Rollouts
		s.admitted += w.Admitted
		waited += w.Waited
	}
	if s.windows == 0 {
		return s, false
	}
	for cause := range s.loads {
		s.loads[cause] /= took.Seconds()
	}
	for _, value := range []*float64{&s.inFlight, &s.outbound, &s.resident, &s.active, &s.responses, &s.rollouts} {
		*value /= took.Seconds()
	}
	if s.admitted > 0 {
		s.waited = time.Duration(float64(waited) / s.admitted)
	}
	return s, true
}

// measured returns what the processes said while there was load.
func (s *stack) measured(began, ended time.Time) (measurement, bool) {
	var stages []stage
	for _, p := range s.processes {
		p.mu.Lock()
		windows := p.windows
		p.mu.Unlock()
		stage, ok := newStage(p.role, windows, began.Add((windowsToSettle-1)*s.Window), ended)
		if !ok {
			return measurement{}, false
		}
		stages = append(stages, stage)
	}
	return measurement{model: stages[0], resources: stages[1], agent: stages[2], driver: stages[3]}, true
}
