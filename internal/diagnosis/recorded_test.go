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
		Seconds             float64
		Load                map[string]float64
		OwnCPU              float64 `json:"own_cpu"`
		MedianRunnable      float64 `json:"median_runnable"`
		Processors, CPUs    float64
		LagShare            float64 `json:"lag_share"`
		LongestLagMS        float64 `json:"longest_lag_ms"`
		OutboundWaitSeconds float64 `json:"outbound_wait_seconds"`
		ActiveRollouts      float64 `json:"active_rollouts"`
		LimiterOn           bool    `json:"limiter_on"`
		Steal               float64
		VerdictThen         string `json:"verdict_then"`
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
			MedianRunnable: m.MedianRunnable,
			LagShare:       m.LagShare,
			WorstLag:       seconds(m.LongestLagMS / 1000),
			GCLimited:      m.LimiterOn,
			OutboundWait:   seconds(m.OutboundWaitSeconds),
			Active:         m.ActiveRollouts,
		}
		for name, load := range m.Load {
			require.Contains(t, causes, name)
			w.Load[causes[name]] = number.Known(load)
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

// What the rules make of each recorded workload, window by window, whether or
// not that is right.
func TestRecordedWindows(t *testing.T) {
	for name, r := range readRecorded(t) {
		t.Run(name, func(t *testing.T) {
			var then []string
			for _, m := range r.Windows {
				then = append(then, m.VerdictThen)
			}
			var verdicts []string
			for _, verdict := range r.verdicts(t) {
				verdicts = append(verdicts, verdict.Name())
			}
			assert.Equal(t, then, verdicts, "%s, where %s is right", r.What, r.Right)
		})
	}
}
