package backend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheusapi "github.com/prometheus/client_golang/api/prometheus/v1"
)

// Prometheus is a Prometheus server with a database of its own.
type Prometheus struct {
	*Process
	prometheusapi.API // its queries

	URL string
}

// StartPrometheus starts a server with a configuration, and returns once it is
// ready. It skips the test where Prometheus is not installed.
func StartPrometheus(t testing.TB, configuration string) *Prometheus {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("skipped: prometheus is not installed; Debian has it in the package prometheus")
	}
	directory := t.TempDir()
	file := filepath.Join(directory, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddresses(t, 1)[0]
	p := &Prometheus{URL: "http://" + address}
	client, err := api.NewClient(api.Config{Address: p.URL})
	if err != nil {
		t.Fatal(err)
	}
	p.API = prometheusapi.NewAPI(client)
	p.Process = Start(t, program, nil, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(directory, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	Await(t, p.ready)
	return p
}

func (p *Prometheus) ready() error {
	if p.hasEnded() {
		return fmt.Errorf("prometheus ended: %w", p.err)
	}
	response, err := http.Get(p.URL + "/-/ready")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("prometheus answers %s", response.Status)
	}
	return nil
}

// Scraping returns a configuration that scrapes addresses at an interval, and
// believes the labels job and instance that it finds there: a collector sets them
// from service.name and service.instance.id, so that they tell the processes
// behind it apart, and not the collectors.
func Scraping(interval time.Duration, addresses ...string) string {
	targets, err := json.Marshal(addresses) // which is YAML, too
	if err != nil {
		panic(err) // strings can be marshalled
	}
	return fmt.Sprintf(`
global:
  scrape_interval: %[1]v
  scrape_timeout: %[1]v
  evaluation_interval: %[1]v
scrape_configs:
  - job_name: collector
    honor_labels: true
    static_configs:
      - targets: %[2]s
`, interval, targets)
}
