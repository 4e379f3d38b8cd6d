package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	prometheusapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/e2e/internal/backend"
)

var fleetSize = flag.Int("fleet", 20, "how many `processes` the fleet has; 200 need 5 GB of memory")

const (
	// fleetInterval is between two exports, which is the library's default, and
	// between two scrapes.
	fleetInterval = 10 * time.Second

	serversPerDriver = 49
)

// ofFleet selects the series of all its processes, and not what rules make of them.
const ofFleet = `{job=~"nemo-gym/.*",instance!=""}`

// TestFleet sends from many processes through one collector, tells them apart,
// and measures what they cost.
func TestFleet(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped: what a fleet costs is read from Linux")
	}
	collector := backend.StartCollector(t)
	configuration := backend.Scraping(fleetInterval, collector.Scrape) + fmt.Sprintf("rule_files: [%q]\n", documentedRules(t))
	s := stack{collector, backend.StartPrometheus(t, configuration)}
	relay := startRelay(t, collector.OTLP[backend.GRPC])
	empty := s.memory(t)
	fleet := startFleet(t, *fleetSize, relay.address)

	t.Run("processes stay distinct", func(t *testing.T) {
		s.await(t, `sum by (process_pid, http_response_status_code) (`+
			`gym_server_responses_total`+ofServer+` * on (job, instance) group_left (process_pid) target_info)`, fleet.ask(t))
		s.awaitOne(t, `count(count by (instance) (gym_load))`, float64(fleet.size())) // a window of each is over
		s.awaitOne(t, `count(count by (instance) (`+ofFleet+`))`, float64(fleet.size()))
		s.awaitOne(t, `count(count by (process_pid) (target_info))`, float64(fleet.size()))
	})
	t.Run("cost", func(t *testing.T) { measureFleet(t, s, fleet, relay, empty) })
	t.Run("dashboard answers", func(t *testing.T) { testDashboard(t, s) })
	t.Run("rules record", func(t *testing.T) { testRules(t, s) })
}

// fleet is many processes: servers, and some drivers with a server each of their
// own.
type fleet struct {
	servers []server
	drivers int
}

type server struct {
	*backend.Process
	client *client
}

// startFleet starts n processes, and returns when they serve.
func startFleet(t *testing.T, n int, collector string) (f fleet) {
	t.Helper()
	settings := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + collector, "NEMO_GYM_OTEL_EVENT_LOOP_TASK_COUNT=true"}
	directory := t.TempDir()
	for i := range n {
		if i%(1+serversPerDriver) != 0 {
			process := backend.StartExample(t, "server", settings, "-clients", "0", "-every", "0")
			f.servers = append(f.servers, server{Process: process})
			continue
		}
		f.drivers++
		backend.StartExample(t, "driver", settings, "-resident", "1", "-limit", "1", "-duration", "0", "-every", "0",
			"-output", filepath.Join(directory, strconv.Itoa(i)))
	}
	for i := range f.servers {
		f.servers[i].client = newClient(t, f.servers[i].Process)
	}
	return f
}

func (f fleet) size() int { return len(f.servers) + f.drivers }

// ask gives each server a number of requests of its own, and returns the
// responses by status and process. One request is given up, for the dashboard.
func (f fleet) ask(t *testing.T) values {
	t.Helper()
	f.servers[0].client.hangUpBefore(t, "/search")
	const atATime = 8
	var clients sync.WaitGroup
	for first := range atATime {
		clients.Go(func() {
			for i := first; i < len(f.servers); i += atATime {
				for range 1 + i%20 {
					f.servers[i].client.get(t, "/rollouts/0")
				}
				for id := range 1 + i/20 {
					f.servers[i].client.get(t, fmt.Sprintf("/rollouts/%d", 1+id))
				}
			}
		})
	}
	clients.Wait()
	counted := make(values)
	for _, server := range f.servers {
		for status, n := range server.client.counted() {
			counted[fmt.Sprintf("%s %d", status, server.PID())] = n
		}
	}
	return counted
}

// ours tells queries of the observer's metrics from those of another library,
// which a panel may show beside them, where there are any.
var ours = regexp.MustCompile(`\b(gym|process)_|\bgo_schedule_`)

// testDashboard asks what the panels ask.
func testDashboard(t *testing.T, s stack) {
	const file = "../dashboards/grafana.json"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	variables := strings.NewReplacer("$job", ".*", "$instance", ".*", "$__rate_interval", "1m", "$__range", "5m")
	queries := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries++
			found, err := s.ask(variables.Replace(target.Expr))
			assert.NoError(t, err, "panel %s", panel.Title)
			if ours.MatchString(target.Expr) {
				assert.NotEmpty(t, found, "panel %s: %s", panel.Title, target.Expr)
			}
		}
	}
	require.Positive(t, queries, "queries in %s", file)
}

// documentedRules returns a file with the rules that FLEET.md recommends.
func documentedRules(t *testing.T) (file string) {
	t.Helper()
	text, err := os.ReadFile("../docs/FLEET.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```yaml\n(groups:.*?)```").FindSubmatch(text)
	require.NotNil(t, block, "a block with rules in FLEET.md")
	file = filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, block[1], 0o600))
	return file
}

// testRules waits for each of the rules to have recorded something.
func testRules(t *testing.T, s stack) {
	rules, err := s.prometheus.Rules(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, rules.Groups, 1)
	for _, rule := range rules.Groups[0].Rules {
		name := rule.(prometheusapi.RecordingRule).Name
		s.awaitPositive(t, fmt.Sprintf("count(%s)", name))
	}
	t.Logf("%v series of %v processes are left", s.mustAsk(t, `count({__name__=~"job:.*"})`)[""], *fleetSize)
}
