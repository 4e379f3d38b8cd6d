package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/otlptest"
)

var stages = flag.Bool("stages", false, "slow each stage, one after the other: two minutes")

// programVariable makes the test binary the program, for a test that sends it
// signals.
const programVariable = "ROLLOUTS_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(processVariable) != "" || os.Getenv(programVariable) != "" {
		main()
	}
	// The settings of whoever runs the tests are not what is tested.
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "NEMO_") || strings.HasPrefix(name, "OTEL_") {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// TestTableNamesTheSlowedStage slows one stage at a time, by so much that a busy
// machine cannot hide it.
func TestTableNamesTheSlowedStage(t *testing.T) {
	if !*stages {
		t.Skip("skipped: -stages runs the stack with each of its knobs, for two minutes")
	}
	for _, test := range []struct {
		name, arguments string
		stage           string
	}{
		{"lock of the resources server", "-resources-lock 30ms", resourcesRole},
		{"delay of the resources server", "-resources-delay 600ms", resourcesRole},
		{"slots of the model", "-model-slots 1 -model-delay 100ms", modelRole},
		{"delay of the model", "-model-delay 600ms", modelRole},
		{"processor time of the agent", "-agent-cpu 100ms", agentRole},
		{"connections of the driver", "-driver-connections 1", clientStage},
		{"output of the driver", "-driver-write 150ms", driverRole},
		{"limit of the driver", "-driver-limit 2", limitStage},
		{"open loop against slots of the model", "-rate 30 -model-slots 1 -model-delay 100ms", modelRole},
		{"open loop with room", "-rate 5 -driver-limit 0", noStage},
	} {
		t.Run(test.name, func(t *testing.T) {
			output := runStack(t, append(strings.Fields(test.arguments), "-duration", "8s")...)
			assert.Equal(t, test.stage, namedStage(t, output), "the stage that limits the throughput")
		})
	}
}

// TestStackShowsAndExportsItsFourProcesses is one short run of the whole.
func TestStackShowsAndExportsItsFourProcesses(t *testing.T) {
	collector := otlptest.Start(t, otlptest.GRPC)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.Endpoint())
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "500")
	output := runStack(t, "-resources-lock", "30ms", "-duration", "6s", "-every", "1s")

	roles := []string{driverRole, agentRole, modelRole, resourcesRole}
	for _, role := range roles {
		assert.Regexp(t, `(?m)^`+role+` +process \d+, live page http://127\.0\.0\.1:\d+/`, output, "what runs")
		assert.Regexp(t, `(?m)^\d\d:\d\d:\d\d .* rollouts/s, .*`+role+`: [a-z_]+`, output, "a line of progress")
		assert.Regexp(t, `(?m)^`+role+` +[a-z_]+ \(\d of \d\) +\d`, output, "a row of the table")
	}
	counts := regexp.MustCompile(`(\d+) rollouts offered, (\d+) finished, 0 failed, (\d+) abandoned`).FindStringSubmatch(output)
	require.NotNil(t, counts)
	number := func(i int) int { n, err := strconv.Atoi(counts[i]); require.NoError(t, err); return n }
	assert.Positive(t, number(2), "finished rollouts")
	assert.Equal(t, number(1), number(2)+number(3), "rollouts that finished or were abandoned, of those offered")

	exported := make(map[any]bool)
	for _, request := range collector.Requests() {
		exported[request.Resource()["nemo.gym.server.name"]] = true
	}
	assert.Equal(t, map[any]bool{driverRole: true, agentRole: true, modelRole: true, resourcesRole: true}, exported, "the processes that exported")
	assert.Equal(t, resourcesRole, namedStage(t, output))
}

func TestEndOfAProcessIsAFailure(t *testing.T) {
	var stderr standardError
	stdout, toStdout := io.Pipe()
	go func() {
		pid := regexp.MustCompile(`(?m)^model +process (\d+)`)
		var printed []byte
		buffer := make([]byte, 1<<10)
		for killed := false; ; {
			n, err := stdout.Read(buffer)
			if err != nil {
				return
			}
			printed = append(printed, buffer[:n]...)
			if found := pid.FindSubmatch(printed); found != nil && !killed {
				number, _ := strconv.Atoi(string(found[1])) // they are digits
				model, err := os.FindProcess(number)
				killed = err == nil && model.Kill() == nil
			}
		}
	}()
	status := run(t.Context(), []string{"-duration", "0"}, toStdout, &stderr)
	assert.NoError(t, toStdout.Close())
	assert.Equal(t, failed, status)
	assert.Contains(t, stderr.String(), "the model has ended: ")
}

func TestWithoutTelemetryThereIsNothingToShow(t *testing.T) {
	t.Setenv("OTEL_SDK_DISABLED", "true")
	var stdout bytes.Buffer
	var stderr standardError
	assert.Equal(t, failed, run(t.Context(), nil, &stdout, &stderr))
	assert.Contains(t, stderr.String(), "OTEL_SDK_DISABLED")
	assert.Empty(t, stdout.String())
}

func TestCommandLine(t *testing.T) {
	tests := []struct {
		name      string
		arguments []string
		status    int
		stdout    string // a part of it
		stderr    string
	}{
		{"help", []string{"-help"}, succeeded, "The exit status is", ""},
		{"unknown flag", []string{"-gremlins"}, misused, "", "gremlins"},
		{"word", []string{"model"}, misused, "", `"model" is not a flag`},
		{"short window", []string{"-window", "10ms"}, misused, "", "shorter than 1s"},
		{"too short for a verdict", []string{"-duration", "3s"}, misused, "", "4s is the least"},
		{"negative time", []string{"-model-delay", "-1s"}, misused, "", "negative"},
		{"negative limit", []string{"-driver-limit", "-1"}, misused, "", "negative"},
		{"no rollouts", []string{"-concurrency", "0"}, misused, "", "at least 1"},
		{"negative rate", []string{"-rate", "-1"}, misused, "", "not between 0"},
		{"no number", []string{"-rate", "NaN"}, misused, "", "not between 0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			assert.Equal(t, test.status, run(t.Context(), test.arguments, &stdout, &stderr), "exit status")
			assert.Contains(t, stdout.String(), test.stdout)
			assert.Contains(t, stderr.String(), test.stderr)
			if test.status == succeeded {
				assert.Empty(t, stderr.String())
			} else {
				assert.Empty(t, stdout.String())
			}
		})
	}
}

// runStack runs the program to its end, and returns what it printed.
func runStack(t *testing.T, arguments ...string) (output string) {
	t.Helper()
	var stdout bytes.Buffer
	var stderr standardError
	status := run(context.Background(), arguments, &stdout, &stderr)
	t.Logf("\n%s\n%s", stdout.String(), stderr.String())
	require.Equal(t, succeeded, status)
	return stdout.String()
}

// standardError keeps what all processes write, as a file would.
type standardError struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (s *standardError) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *standardError) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// namedStage returns the stage that the closing sentence names. It skips the test
// where that is the machine: then the knob is not what slows the stack.
func namedStage(t *testing.T, output string) string {
	t.Helper()
	named := regexp.MustCompile(`What limits the throughput: ([^.]+)\.`).FindStringSubmatch(output)
	require.NotNil(t, named, "the closing sentence")
	if named[1] == machineStage {
		t.Skip("skipped: other processes have the processors, and the table says so")
	}
	return named[1]
}
