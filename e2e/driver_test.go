package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/e2e/internal/backend"
)

const ofDriver = `{job="nemo-gym/driver"}`

// testDriver runs examples/driver, and compares what Prometheus says with what
// the driver counted itself, and with its output.
func testDriver(t *testing.T, s stack) {
	const resident, limit = 100, 8
	output := filepath.Join(t.TempDir(), "rollouts.jsonl")
	driver := backend.StartExample(t, "driver", s.settings(backend.HTTP), "-duration", "0", "-every", "0", "-deadline", "100ms",
		"-resident", strconv.Itoa(resident), "-limit", strconv.Itoa(limit), "-output", output)

	s.awaitOne(t, sumOf("gym_driver_rollouts_resident", ofDriver), resident)
	s.awaitOne(t, sumOf("gym_driver_rollouts_active", ofDriver), limit)
	s.awaitAtLeast(t, sumOf("gym_driver_rollouts_oldest_age_seconds", ofDriver), 1)
	s.awaitAtLeast(t, sumOf("gym_driver_admission_abandoned_total", ofDriver), 1)
	waiting := s.awaitAtLeast(t, `sum(gym_load{job="nemo-gym/driver",nemo_gym_cause="admission"})`, 1)
	assert.LessOrEqual(t, waiting, float64(resident-limit), "rollouts that wait for the limit")
	driver.Interrupt(t)

	// What it says at its end.
	own := func(row string) float64 {
		text := regexp.MustCompile(`(?m)^` + row + ` +(\d+)`).FindStringSubmatch(driver.Output())
		require.NotNil(t, text, "row %s of the closing table", row)
		number, err := strconv.ParseFloat(text[1], 64)
		require.NoError(t, err)
		return number
	}
	lines, err := os.ReadFile(output)
	require.NoError(t, err)
	finished := own("finished")
	assert.Equal(t, finished, float64(bytes.Count(lines, []byte("\n"))), "rollouts finished, and lines of output")
	assert.Equal(t, own("offered"), own("admitted")+own("abandoned"))

	const inputItems = 3
	for query, want := range map[string]float64{
		sumOf("gym_driver_rollouts_offered_total", ofDriver):                      own("offered"),
		sumOf("gym_driver_admission_abandoned_total", ofDriver):                   own("abandoned"),
		sumOf("gym_driver_admission_duration_ms_milliseconds_count", ofDriver):    own("admitted"),
		sumOf("gym_driver_rollouts_resident", ofDriver):                           0,
		sumOf("gym_driver_rollouts_active", ofDriver):                             0,
		sumOf("gym_driver_materialize_duration_ms_milliseconds_count", ofDriver):  own("offered"),
		sumOf("gym_driver_output_write_duration_ms_milliseconds_count", ofDriver): finished,
		sumOf("gym_driver_output_write_bytes_count", ofDriver):                    finished,
		sumOf("gym_driver_output_write_bytes_sum", ofDriver):                      float64(len(lines)),
		sumOf("gym_driver_rollout_input_items_sum", ofDriver):                     inputItems * finished,
		sumOf("gym_driver_rollout_output_items_sum", ofDriver):                    float64(bytes.Count(lines, []byte("item "))),
		sumOf("gym_driver_rollout_turns_sum", ofDriver):                           own("turns"),
		sumOf("gym_driver_rollout_turns_count", ofDriver):                         finished,
		sumOf("gym_driver_rollout_tool_calls_sum", ofDriver):                      own("tool calls"),
	} {
		s.awaitOne(t, query, want)
	}
}
