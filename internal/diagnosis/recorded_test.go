package diagnosis

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/number"
)

// recorded is one file of testdata/windows: the windows of one workload as they
// were measured.
type recorded struct {
	What    string
	Right   string // the verdict that is right
	Windows []struct {
		Seconds              float64
		Load                 map[string]float64
		OwnCPU               float64 `json:"own_cpu"`
		MedianRunnable       float64 `json:"median_runnable"`
		Processors, CPUs     float64
		LagShare             float64 `json:"lag_share"`
		LongestLagMS         float64 `json:"longest_lag_ms"`
		OutboundWaitSeconds  float64 `json:"outbound_wait_seconds"`
		ActiveRollouts       float64 `json:"active_rollouts"`
		LimiterOn            bool    `json:"limiter_on"`
		Steal, Timeslices    float64
		Children             *float64
		MostlyRunnable       *float64 `json:"mostly_runnable"`
		LateRunnable         *float64 `json:"late_runnable"`
		LateCPU              *float64 `json:"late_cpu"`
		IdleShare            float64  `json:"idle_share"`
		OwedRequests         float64  `json:"owed_requests"`
		PooledOutbound       float64  `json:"pooled_outbound"`
		PoolWaitSeconds      float64  `json:"pool_wait_seconds"`
		RequestWaitSeconds   float64  `json:"request_wait_seconds"`
		AdmissionWaitSeconds float64  `json:"admission_wait_seconds"`
		VerdictThen          string   `json:"verdict_then"`
	}
}

// readRecorded reads the files of testdata/windows, by their names without the
// ending.
func readRecorded(t testing.TB) map[string]recorded {
	files, err := filepath.Glob("testdata/windows/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := make(map[string]recorded)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var r recorded
		require.NoError(t, json.Unmarshal(text, &r), file)
		require.NotEmpty(t, r.Windows, file)
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = r
	}
	return all
}

// windows are those of the file, as the rules look at them.
func (r recorded) windows(t testing.TB) (all []*Window) {
	causes := make(map[string]Cause)
	for cause := range All() {
		causes[cause.Name()] = cause
	}
	for _, m := range r.Windows {
		w := &Window{
			Length:         seconds(m.Seconds),
			Processors:     m.Processors,
			CPUs:           m.CPUs,
			CPU:            number.Known(m.OwnCPU),
			Steal:          number.Known(m.Steal),
			DelayPerSlice:  number.If(m.Timeslices > 0, m.Load["cpu_contended"]*m.Seconds/m.Timeslices),
			MedianRunnable: m.MedianRunnable,
			MostlyRunnable: number.Known(m.Load["cpu_saturated"]),
			LagShare:       m.LagShare,
			WorstLag:       seconds(m.LongestLagMS / 1000),
			GCLimited:      m.LimiterOn,
			OutboundWait:   seconds(m.OutboundWaitSeconds),
			AdmissionWait:  seconds(m.AdmissionWaitSeconds),
			RequestWait:    seconds(m.RequestWaitSeconds),
			Active:         m.ActiveRollouts,
			Owed:           m.OwedRequests,
			Waiting:        m.Load["wait"], // of what else waits for connections, none has any
			Pooled:         m.PooledOutbound,
			PoolWait:       seconds(m.PoolWaitSeconds),
			Idle:           number.Known(m.IdleShare),
		}
		for name, load := range m.Load {
			require.Contains(t, causes, name)
			w.Load[causes[name]] = number.Known(load)
		}
		if m.MostlyRunnable != nil {
			w.MostlyRunnable = number.Known(*m.MostlyRunnable)
		}
		if m.LateCPU != nil {
			w.LateRunnable, w.LateCPU = number.Known(*m.LateRunnable), number.Known(*m.LateCPU)
		}
		if m.Children != nil {
			w.Load[BlockedThread] = w.Load[BlockedThread].Less(number.Known(*m.Children))
		}
		all = append(all, w)
	}
	return all
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// verdicts are those of one window of the file after the other.
func (r recorded) verdicts(t testing.TB) (verdicts []Cause) {
	var judge Judge
	for _, w := range r.windows(t) {
		verdicts = append(verdicts, judge.Next(w, 2*time.Second).Verdict)
	}
	return verdicts
}

// From the third window on, the rules say what is right, and something else in no
// more than one window in five: workloads begin and end.
func TestH68RecordedWindows(t *testing.T) {
	for name, r := range readRecorded(t) {
		t.Run(name, func(t *testing.T) {
			verdicts := r.verdicts(t)[2:]
			wrong := 0
			for _, verdict := range verdicts {
				if verdict.Name() != r.Right {
					wrong++
				}
			}
			assert.LessOrEqual(t, 5*wrong, len(verdicts), "%s, where %s is right: %v", r.What, r.Right, verdicts)
		})
	}
}
