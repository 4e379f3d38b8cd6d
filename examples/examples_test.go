// Package examples_test runs the example programs as they are, against a real
// OTLP receiver, and checks what arrives there.
package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/otlptest"
)

// programs is where the built examples are.
var programs string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		programs, err = os.MkdirTemp("", "examples")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(programs)
		build := exec.Command("go", "build", "-o", programs+string(filepath.Separator), "./server", "./driver")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building the examples:", err)
			return 1
		}
		return m.Run()
	}())
}

func TestServerExportsWhatItShows(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no process can be sent Ctrl-C there")
	}
	collector := otlptest.Start(t, otlptest.GRPC)
	server := start(t, collector, "server")
	url := regexp.MustCompile(`http://\S+`).FindString(server.firstLine)
	_, err := http.Get(url + "/crash")
	require.Error(t, err, "the answer of a handler that panics")

	collector.WaitFor(t, func(r otlptest.Request) bool {
		responses := byAttribute(points(r.Metric(observer.ResponsesInstrument)), observer.HTTPStatusCodeAttribute)
		return len(responses) == 3 &&
			len(points(r.Metric(observer.RequestsCancelledInstrument))) == 2 &&
			len(points(r.Metric(observer.GCPauseInstrument))) == 1 &&
			points(r.Metric(observer.EventLoopLagInstrument))[0].count >= enoughSamples
	})
	require.NoError(t, server.command.Process.Signal(os.Interrupt))
	server.wait(t)
	shown := server.closingTable(t)
	exported := exports{t, collector.Requests()}

	exported.checkProcess("server", server.command.ProcessState, 20)
	exported.wasBetween(observer.RequestsInFlightInstrument, 1, 21)
	exported.endsAt(observer.RequestsInFlightInstrument, 0)
	exported.wasBetween(observer.OutboundInFlightInstrument, 1, 21)
	exported.endsAt(observer.OutboundInFlightInstrument, 0)
	exported.endsAt(observer.RequestsUnhandledExceptionsInstrument, 1)

	responses := byAttribute(exported.last(observer.ResponsesInstrument), observer.HTTPStatusCodeAttribute)
	assert.Len(t, responses, 3)
	for _, status := range []int64{200, 404, 500} {
		row := shown[strconv.FormatInt(status, 10)]
		require.Len(t, row, 2, "closing table:\n%s", server.output)
		assert.Equal(t, row[0], responses[status].value, "responses with %d that clients saw, and that were exported", status)
	}
	var cancelled float64
	for _, point := range exported.last(observer.RequestsCancelledInstrument) {
		cancelled += point.value
		assert.Contains(t, []map[string]any{
			{observer.HTTPRouteAttribute: "/search", observer.RequestPhaseAttribute: "before_response"},
			{observer.HTTPRouteAttribute: "/rollouts/{id}/events", observer.RequestPhaseAttribute: "response_started"},
		}, point.attributes)
	}
	assert.Equal(t, shown["hang-ups"][1], cancelled, "hang-ups shown and exported")
	// A client that is starved may leave what is already complete.
	assert.LessOrEqual(t, cancelled, shown["hang-ups"][0], "hang-ups exported, and clients that hung up")

	for _, request := range exported.requests {
		for _, metric := range request.Metrics() {
			assert.NotContains(t, metric.GetName(), "gym.driver", "a server exports no driver's metric")
		}
	}
}

func TestDriverExportsWhatItShows(t *testing.T) {
	collector := otlptest.Start(t, otlptest.GRPC)
	output := filepath.Join(t.TempDir(), "rollouts.jsonl")
	driver := start(t, collector, "driver", "-duration", "2s", "-deadline", "200ms", "-output", output)
	driver.wait(t)
	table := driver.closingTable(t)
	shown := func(row string) float64 {
		require.NotEmpty(t, table[row], "row %s of the closing table:\n%s", row, driver.output)
		return table[row][0]
	}
	exported := exports{t, collector.Requests()}

	exported.checkProcess("driver", driver.command.ProcessState, 200)
	assert.Positive(t, shown("abandoned"))
	assert.Positive(t, shown("finished"))
	exported.endsAt(observer.DriverOfferedInstrument, shown("offered"))
	exported.endsAt(observer.DriverAbandonedInstrument, shown("abandoned"))
	exported.wasBetween(observer.DriverResidentInstrument, 150, 200)
	exported.endsAt(observer.DriverResidentInstrument, 0)
	exported.wasBetween(observer.DriverActiveInstrument, 16, 16)
	exported.endsAt(observer.DriverActiveInstrument, 0)
	admission := exported.histogram(observer.DriverAdmissionInstrument)
	assert.Equal(t, shown("admitted"), admission.count, "admitted")
	assert.InEpsilon(t, table["admitted"][1], admission.sum/admission.count, 0.05, "mean wait in ms")
	assert.Equal(t, shown("offered"), exported.histogram(observer.DriverMaterializeInstrument).count)

	text, err := os.ReadFile(output)
	require.NoError(t, err)
	assert.Equal(t, shown("finished"), float64(bytes.Count(text, []byte("\n"))), "lines of output")
	written := exported.histogram(observer.DriverWriteBytesInstrument)
	assert.Equal(t, float64(len(text)), written.sum, "bytes of output")
	assert.Equal(t, shown("finished"), written.count)
	assert.Equal(t, shown("finished"), exported.histogram(observer.DriverWriteDurationInstrument).count)

	const inputItems = 3
	sizes := map[string]float64{
		observer.RolloutInputItemsInstrument:  inputItems * shown("finished"),
		observer.RolloutOutputItemsInstrument: float64(bytes.Count(text, []byte("item "))),
		observer.RolloutTurnsInstrument:       shown("turns"),
		observer.RolloutToolCallsInstrument:   shown("tool calls"),
	}
	for name, sum := range sizes {
		histogram := exported.histogram(name)
		assert.Equal(t, sum, histogram.sum, name)
		assert.Equal(t, shown("finished"), histogram.count, name)
	}
}

func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		name      string
		arguments []string
		code      int
		says      string
	}{
		{"help of the server", []string{"server", "-help"}, 0, "go run ./examples/server"},
		{"help of the driver", []string{"driver", "-help"}, 0, "go run ./examples/driver"},
		{"unknown flag", []string{"server", "-port", "1"}, 2, "-port"},
		{"argument", []string{"server", "8080"}, 2, `"8080"`},
		{"negative duration", []string{"server", "-duration", "-1s"}, 2, "-duration"},
		{"no limit", []string{"driver", "-limit", "0"}, 2, "-limit"},
		{"port out of range", []string{"server", "-address", "127.0.0.1:99999"}, 1, "99999"},
		{"no server", []string{"driver", "-server", "http://" + otlptest.ClosedAddress(t)}, 1, "refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			command := command(t, test.arguments[0], test.arguments[1:]...)
			output, _ := command.CombinedOutput() // its error is the code
			assert.Equal(t, test.code, command.ProcessState.ExitCode(), "exit code; output:\n%s", output)
			assert.Contains(t, string(output), test.says)
		})
	}
}

func TestServerNeedsNoTelemetry(t *testing.T) {
	command := command(t, "server", "-duration", "300ms", "-every", "100ms")
	command.Env = append(command.Env, "NEMO_GYM_OTEL_ENABLED=false")
	output, err := command.CombinedOutput()
	require.NoError(t, err, "output:\n%s", output)
	assert.Contains(t, string(output), "NEMO_GYM_OTEL_ENABLED is false")
}

// program is a running example.
type program struct {
	command   *exec.Cmd
	firstLine string
	rest      io.Reader
	output    string // complete after wait
}

// command returns a command without telemetry settings that ends with the test.
func command(t *testing.T, name string, arguments ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	command := exec.CommandContext(ctx, filepath.Join(programs, name), arguments...)
	command.Env = []string{} // nil would be the tests' own
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "OTEL_") && !strings.HasPrefix(variable, "NEMO_") {
			command.Env = append(command.Env, variable)
		}
	}
	return command
}

// start starts an example that exports often, and returns once it is ready.
func start(t *testing.T, collector *otlptest.Collector, name string, arguments ...string) *program {
	t.Helper()
	command := command(t, name, arguments...)
	command.Env = append(command.Env,
		"OTEL_EXPORTER_OTLP_ENDPOINT="+collector.Endpoint(),
		"OTEL_METRIC_EXPORT_INTERVAL=100",
		"NEMO_GYM_OTEL_EVENT_LOOP_TASK_COUNT=true",
		"NEMO_GYM_OTEL_EVENT_LOOP_SAMPLE_INTERVAL_SECONDS=0.02")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s wrote to standard error:\n%s", name, stderr.String())
		}
	})
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	reader := bufio.NewReader(stdout)
	firstLine, err := reader.ReadString('\n')
	require.NoError(t, err, "first line of %s", name)
	return &program{command: command, firstLine: firstLine, rest: reader}
}

// wait waits for the program to end, with success.
func (p *program) wait(t *testing.T) {
	t.Helper()
	rest, err := io.ReadAll(p.rest)
	require.NoError(t, err)
	p.output = p.firstLine + string(rest)
	require.NoError(t, p.command.Wait(), "output:\n%s", p.output)
}

// closingTable returns the numbers in the rows after the last blank line.
func (p *program) closingTable(t *testing.T) map[string][]float64 {
	t.Helper()
	rows := make(map[string][]float64)
	row := regexp.MustCompile(`^(\S+(?: \S+)*) {2,}(\d.*)$`)
	number := regexp.MustCompile(`\d+(\.\d+)?`)
	_, table, found := strings.Cut(p.output, "\n\n")
	require.True(t, found, "a closing table in the output:\n%s", p.output)
	for line := range strings.Lines(table) {
		if cells := row.FindStringSubmatch(strings.TrimSpace(line)); cells != nil {
			for _, text := range number.FindAllString(cells[2], -1) {
				value, err := strconv.ParseFloat(text, 64)
				require.NoError(t, err)
				rows[cells[1]] = append(rows[cells[1]], value)
			}
		}
	}
	return rows
}
