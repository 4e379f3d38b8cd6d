package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/e2e/internal/backend"
)

// TestCausesArrive lets a server suffer from one cause after the other, and
// compares Prometheus with the diagnosis that the process itself prints. The
// causes are those that take no processors, so that they can suffer together.
func TestCausesArrive(t *testing.T) {
	t.Parallel()
	s := startStack(t)
	for _, test := range []struct {
		cause observer.Cause
		kind  string
		least float64 // of its load, by what is injected
	}{
		{observer.CauseLock, "mutex", 2},
		{observer.CauseOutputWrite, "hung", 3},
		{observer.CauseDownstream, "silent", 16},
		{observer.CauseAdmission, "leaked", 8},
		{observer.CauseBlockedThread, "pipes", 32},
		{observer.CauseDescriptors, "files", 0.9},
		{observer.CauseMemory, "heap", 0.9},
	} {
		cause := string(test.cause)
		t.Run(cause, func(t *testing.T) {
			t.Parallel()
			sufferer := backend.StartExample(t, "slowdown", append(s.settings(backend.GRPC), "OTEL_SERVICE_NAME="+cause),
				"-json", "-cause", cause, "-kind", test.kind, "-window", "3s", "-duration", "0")
			of := fmt.Sprintf(`{job="%s/slowdown"}`, cause)
			backend.Await(t, func() error {
				said, err := lastReport(sufferer.Output())
				if err != nil {
					return err
				}
				loads, err := s.ask(`sum by (nemo_gym_cause) (gym_load` + of + `)`)
				if err != nil {
					return err
				}
				slow, err := s.ask(`sum by (nemo_gym_cause) (gym_slow_time_seconds_total` + of + `)`)
				switch {
				case err != nil:
					return err
				case !maps.Equal(loads, said.loads()):
					return fmt.Errorf("the loads are %v, the process says %v", loads, said.loads())
				case !maps.Equal(slow, said.SlowTime):
					return fmt.Errorf("the slow time is %v, the process says %v", slow, said.SlowTime)
				case loads[cause] < test.least:
					return fmt.Errorf("the load of %s is %v, want %v at least", cause, loads[cause], test.least)
				// On a crowded machine the neighbours are to blame, whatever is injected,
				// and on one that stands still nobody knows.
				case slow[cause]+slow[string(observer.CauseCPUContended)]+slow[string(observer.CauseUnknown)] == 0:
					return fmt.Errorf("the slow time is %v, want some of %s", slow, cause)
				}
				t.Logf("load %.4g, slow time %v", loads[cause], slow)
				return nil
			})
		})
	}
}

// report is what slowdown prints about one window.
type report struct {
	Diagnosis struct {
		Findings []observer.Finding `json:"findings"`
	} `json:"diagnosis"`
	SlowTime values `json:"slow_time_seconds"`
}

func (r report) loads() values {
	loads := make(values)
	for _, finding := range r.Diagnosis.Findings {
		loads[string(finding.Cause)] = finding.Load
	}
	return loads
}

// lastReport returns the last of them; between them are lines of the log.
func lastReport(output string) (last report, err error) {
	err = fmt.Errorf("there is no report in %q", output)
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "{") && strings.HasSuffix(line, "\n") {
			last = report{}
			err = json.Unmarshal([]byte(line), &last)
		}
	}
	return last, err
}
