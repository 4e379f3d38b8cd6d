package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/examples/internal/demo"
)

// window is what one observer exported over one window of its diagnosis. Levels
// are means of readings.
type window struct {
	At     time.Time // its end
	Length time.Duration

	Verdict    observer.Cause
	Summary    string
	Loads      map[observer.Cause]float64 // mean units that waited; no shares
	Unmeasured []observer.Cause

	InFlight, Outbound float64 // requests
	Resident, Active   float64 // rollouts
	Responses          float64
	Rollouts           float64 // that completed
	Admitted           float64
	Waited             time.Duration // of the admitted, for the limit, in all
}

// readingInterval is between two readings of what a process would export.
const readingInterval = 50 * time.Millisecond

// tellWindows tells each window at its end, until ctx ends.
func tellWindows(ctx context.Context, readout *demo.Readout, tell *json.Encoder) error {
	ticker := time.NewTicker(readingInterval)
	defer ticker.Stop()
	last := observer.Diagnose().At
	var sum window
	readings := 0.0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		reading, err := readout.Read()
		if err != nil {
			return err
		}
		sum.add(reading)
		readings++
		// The library does not tell when a window ends; this looks often enough to
		// miss none.
		diagnosis := observer.Diagnose()
		if diagnosis.At.Equal(last) {
			continue
		}
		last = diagnosis.At
		ended := sum.over(readings, diagnosis)
		if err := tell.Encode(message{Window: &ended}); err != nil {
			return err
		}
		sum, readings = window{}, 0
	}
}

func (w *window) add(r demo.Reading) {
	w.InFlight += r.Value(observer.RequestsInFlightInstrument).Sum
	w.Outbound += r.Value(observer.OutboundInFlightInstrument).Sum
	w.Resident += r.Value(observer.DriverResidentInstrument).Sum
	w.Active += r.Value(observer.DriverActiveInstrument).Sum
	w.Responses += r.Value(observer.ResponsesInstrument).Sum
	w.Rollouts += float64(r.Value(observer.RolloutTurnsInstrument).Count)
	admission := r.Value(observer.DriverAdmissionInstrument)
	w.Admitted += float64(admission.Count)
	w.Waited += time.Duration(admission.Sum * float64(time.Millisecond))
}

// over turns a sum of readings into a window.
func (w window) over(readings float64, d observer.Diagnosis) window {
	for _, level := range []*float64{&w.InFlight, &w.Outbound, &w.Resident, &w.Active} {
		*level /= readings
	}
	w.At, w.Length, w.Verdict, w.Summary, w.Unmeasured = d.At, d.Window, d.Verdict, d.Summary, d.Unmeasured
	w.Loads = make(map[observer.Cause]float64)
	for _, finding := range d.Findings {
		if finding.Cause != observer.CauseDescriptors && finding.Cause != observer.CauseMemory {
			w.Loads[finding.Cause] = finding.Load
		}
	}
	return w
}
