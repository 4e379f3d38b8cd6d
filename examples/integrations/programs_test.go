// Package integrations_test runs the programs as they are, in processes of their
// own, and checks what they export.
package integrations_test

import (
	"bufio"
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
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/otlptest"
)

// examples are the directories, each a program.
var examples = []string{"provider", "prometheus", "chi", "gin", "grpc", "workerpool", "httptest"}

// programs is where the built examples are.
var programs string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		programs, err = os.MkdirTemp("", "integrations")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(programs)
		build := exec.Command("go", "build", "-o", programs+string(filepath.Separator))
		for _, name := range examples {
			build.Args = append(build.Args, "./"+name)
		}
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building the examples:", err)
			return 1
		}
		return m.Run()
	}())
}

func TestRoutersTellTheRoute(t *testing.T) {
	for _, test := range []struct {
		name, program string
		arguments     []string
		route         string
	}{
		{"chi inside", "chi", nil, "/rollouts/{id}/wait"},
		{"chi outside", "chi", []string{"-outside"}, "/rollouts/{id}/wait"},
		{"gin", "gin", nil, "/rollouts/:id/wait"},
	} {
		t.Run(test.name, func(t *testing.T) {
			collector := otlptest.Start(t, otlptest.GRPC)
			server := start(t, collector, test.program, test.arguments...)
			assert.Equal(t, "rollout 7\n", server.get("/rollouts/7", http.StatusOK))
			server.get("/nowhere", http.StatusNotFound)
			server.giveUp(collector, "/rollouts/7/wait")
			server.interrupt(0)

			exported := exports{t, collector.Requests()}
			assert.Equal(t, map[string]float64{"200": 1, "404": 1}, exported.last(observer.ResponsesInstrument))
			assert.Equal(t, map[string]float64{test.route + ",before_response": 1}, exported.last(observer.RequestsCancelledInstrument))
			assert.Equal(t, map[string]float64{"": 0}, exported.last(observer.RequestsInFlightInstrument))
		})
	}
}

func TestProviderIsTheApplications(t *testing.T) {
	collector := otlptest.Start(t, otlptest.HTTP)
	server := start(t, collector, "provider")
	server.get("/rollouts/7", http.StatusOK)
	lag := collector.WaitForMetric(t, observer.EventLoopLagInstrument)
	server.interrupt(0)

	assert.Equal(t, []float64{1, 10, 100, 1000}, lag.GetHistogram().GetDataPoints()[0].GetExplicitBounds(), "boundaries of the application's view")
	requests := collector.Requests()
	assert.Equal(t, "rollouts", requests[0].Resource()["service.name"])
	exported := exports{t, requests}
	assert.Equal(t, map[string]float64{"200": 1}, exported.last(observer.ResponsesInstrument))
	assert.NotEmpty(t, exported.last("go.schedule.duration"))
}

func TestServerOutlivesItsCollector(t *testing.T) {
	collector := otlptest.Start(t, otlptest.HTTP)
	collector.Answer(otlptest.Refuse)
	server := start(t, collector, "provider")
	server.get("/rollouts/7", http.StatusOK)
	server.interrupt(0)
}

func TestPrometheusScrapes(t *testing.T) {
	server := start(t, nil, "prometheus")
	server.get("/rollouts/7", http.StatusOK)
	var scraped string
	require.Eventually(t, func() bool {
		scraped = server.get("/metrics", http.StatusOK)
		return regexp.MustCompile(`(?m)^gym_event_loop_lag_ms_milliseconds_count\{.*\} [1-9]`).MatchString(scraped)
	}, patience, 20*time.Millisecond, "a sample of the lag in a scrape")
	assert.Regexp(t, `(?m)^gym_server_responses_total\{.*http_response_status_code="200".*\} 1$`, scraped, "the scrapes themselves are not counted")
	assert.Regexp(t, `(?m)^gym_server_requests_in_flight\{.*\} 0$`, scraped)
	assert.Regexp(t, `(?m)^go_schedule_duration_seconds_count\{.*\} [1-9]`, scraped)
	assert.Regexp(t, `(?m)^target_info\{.*service_name="nemo-gym/server".*\} 1$`, scraped)
	server.interrupt(0)
}

func TestCallsOfGRPCAreCounted(t *testing.T) {
	collector := otlptest.Start(t, otlptest.GRPC)
	server := start(t, collector, "grpc")

	answer, err := command(t, "grpc", "-check", server.address).Output()
	require.NoError(t, err)
	assert.Equal(t, "SERVING\n", string(answer))
	answer, err = command(t, "grpc", "-check", server.address, "-watch", "300ms").Output()
	require.NoError(t, err)
	assert.Equal(t, "SERVING\n", string(answer))
	connection, err := grpc.NewClient(server.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	_, err = grpc_health_v1.NewHealthClient(connection).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "nobody"})
	assert.Equal(t, codes.NotFound, status.Code(err))
	require.NoError(t, connection.Close())
	server.interrupt(0)

	exported := exports{t, collector.Requests()}
	assert.Equal(t, map[string]float64{"200": 1, "404": 1}, exported.last(observer.ResponsesInstrument))
	assert.Equal(t, map[string]float64{"/grpc.health.v1.Health/Watch,response_started": 1}, exported.last(observer.RequestsCancelledInstrument))
	assert.Equal(t, map[string]float64{"": 0}, exported.last(observer.RequestsInFlightInstrument))
}

func TestWorkerPoolCountsEachJob(t *testing.T) {
	const jobs, workers = 200, 4
	collector := otlptest.Start(t, otlptest.GRPC)
	pool := start(t, collector, "workerpool", "-jobs", strconv.Itoa(jobs), "-workers", strconv.Itoa(workers))
	pool.wait(0)

	exported := exports{t, collector.Requests()}
	assert.Equal(t, map[string]float64{"": jobs}, exported.last(observer.DriverOfferedInstrument))
	assert.Equal(t, map[string]float64{"": jobs}, exported.last(observer.DriverAdmissionInstrument))
	assert.Equal(t, map[string]float64{"": 0}, exported.last(observer.DriverAbandonedInstrument))
	assert.Equal(t, map[string]float64{"": 0}, exported.last(observer.DriverActiveInstrument))
	assert.Equal(t, map[string]float64{"": 0}, exported.last(observer.DriverResidentInstrument))
}

func TestInterruptedWorkerPoolAbandonsWhatWaits(t *testing.T) {
	const jobs = 5000
	collector := otlptest.Start(t, otlptest.GRPC)
	pool := start(t, collector, "workerpool", "-jobs", strconv.Itoa(jobs), "-workers", "2")
	collector.WaitForMetric(t, observer.DriverAdmissionInstrument)
	pool.interrupt(1)

	exported := exports{t, collector.Requests()}
	admitted := exported.last(observer.DriverAdmissionInstrument)[""]
	assert.Equal(t, map[string]float64{"": jobs - admitted}, exported.last(observer.DriverAbandonedInstrument))
	assert.Contains(t, pool.output(), fmt.Sprintf("%.0f of %d jobs are done", admitted, jobs))
}

func TestHTTPTestExampleRuns(t *testing.T) {
	collector := otlptest.Start(t, otlptest.GRPC)
	server := start(t, collector, "httptest")
	assert.Equal(t, "1\n", server.get("/grades/YES", http.StatusOK))
	server.interrupt(0)
	assert.Equal(t, map[string]float64{"200": 1}, exports{t, collector.Requests()}.last(observer.ResponsesInstrument))
}

func TestExitCodes(t *testing.T) {
	for _, name := range examples {
		address := "-address"
		if name == "workerpool" {
			address = "-workers" // it does not listen
		}
		for _, test := range []struct {
			name      string
			arguments []string
			code      int
			says      string
		}{
			{"help", []string{"-help"}, 0, "The exit status is"},
			{"unknown flag", []string{"-port", "1"}, 2, "-port"},
			{"argument", []string{"8080"}, 2, "-help explains"},
			{"unusable", []string{address, "127.0.0.1:99999"}, map[bool]int{false: 1, true: 2}[name == "workerpool"], "99999"},
		} {
			t.Run(name+"/"+test.name, func(t *testing.T) {
				command := command(t, name, test.arguments...)
				output, _ := command.CombinedOutput() // its error is the code
				assert.Equal(t, test.code, command.ProcessState.ExitCode(), "exit code; output:\n%s", output)
				assert.Contains(t, string(output), test.says)
			})
		}
	}
}

// patience is how long a wait may take before the test fails.
const patience = 20 * time.Second

// program is a running example.
type program struct {
	t       *testing.T
	command *exec.Cmd
	address string // "" of a program that does not serve
	stdout  *bufio.Reader
	printed strings.Builder
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

// start starts an example that exports often, to a collector if there is one, and
// returns once it says where it serves.
func start(t *testing.T, collector *otlptest.Collector, name string, arguments ...string) *program {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("no process can be sent Ctrl-C there")
	}
	if name != "workerpool" {
		arguments = append(arguments, "-address", "127.0.0.1:0")
	}
	p := &program{t: t, command: command(t, name, arguments...)}
	p.command.Env = append(p.command.Env, "OTEL_METRIC_EXPORT_INTERVAL=50", "NEMO_GYM_OTEL_EVENT_LOOP_SAMPLE_INTERVAL_SECONDS=0.02")
	if collector != nil {
		p.command.Env = append(p.command.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.Endpoint())
	}
	p.command.Stderr = os.Stderr
	stdout, err := p.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	p.stdout = bufio.NewReader(stdout)
	firstLine, err := p.stdout.ReadString('\n')
	require.NoError(t, err, "first line of %s", name)
	p.printed.WriteString(firstLine)
	p.address = regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(firstLine)
	return p
}

func (p *program) output() string { return p.printed.String() }

// wait waits for the program to end with this exit status.
func (p *program) wait(code int) {
	p.t.Helper()
	_, err := io.Copy(&p.printed, p.stdout)
	require.NoError(p.t, err)
	_ = p.command.Wait() // its error is the code
	require.Equal(p.t, code, p.command.ProcessState.ExitCode(), "exit code; output:\n%s", p.output())
}

// interrupt does what Ctrl-C does.
func (p *program) interrupt(code int) {
	p.t.Helper()
	require.NoError(p.t, p.command.Process.Signal(os.Interrupt))
	p.wait(code)
}

// get makes a request, and returns the body of the response.
func (p *program) get(path string, status int) string {
	p.t.Helper()
	response, err := http.Get("http://" + p.address + path)
	require.NoError(p.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	require.Equal(p.t, status, response.StatusCode, "%s: %s", path, body)
	return string(body)
}

// giveUp makes a request, and gives it up once the server has it.
func (p *program) giveUp(collector *otlptest.Collector, path string) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, nil)
	require.NoError(p.t, err)
	failed := make(chan error, 1)
	go func() {
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
		}
		failed <- err
	}()
	collector.WaitFor(p.t, func(r otlptest.Request) bool {
		return values(r.Metric(observer.RequestsInFlightInstrument))[""] == 1
	})
	cancel()
	require.ErrorIs(p.t, <-failed, context.Canceled)
}
