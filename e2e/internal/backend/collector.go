package backend

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// The values of OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	GRPC = "grpc"
	HTTP = "http/protobuf"
)

// Collector is an OpenTelemetry Collector that takes OTLP, lets itself be
// scraped, and writes a line about each export.
type Collector struct {
	*Process // the running one

	// OTLP is where it listens, by protocol; Scrape is where Prometheus finds it.
	OTLP   map[string]string
	Scrape string

	program, config string
}

// StartCollector starts a collector on ports of its own. It skips the test where
// the collector cannot be had.
func StartCollector(t testing.TB) *Collector {
	t.Helper()
	if _, err := fetchCollector(); err != nil {
		t.Skipf("skipped: the collector's modules cannot be had: %v", err)
	}
	program, err := buildCollector()
	if err != nil {
		t.Fatal(err)
	}
	addresses := freeAddresses(t, 3)
	c := &Collector{
		OTLP:    map[string]string{GRPC: addresses[0], HTTP: addresses[1]},
		Scrape:  addresses[2],
		program: program,
		config:  filepath.Join(t.TempDir(), "collector.yaml"),
	}
	if err := os.WriteFile(c.config, fmt.Appendf(nil, collectorConfig, c.OTLP[GRPC], c.OTLP[HTTP], c.Scrape), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Restart(t)
	return c
}

// collectorConfig has no processor: a batch would hide what single exports cost.
// An expired metric would be gone before a test has asked for it, and a sampled
// log would miss exports.
const collectorConfig = `
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: %s
      http:
        endpoint: %s
exporters:
  prometheus:
    endpoint: %s
    metric_expiration: 1h
  debug:
    verbosity: basic
service:
  telemetry:
    metrics:
      level: none
    logs:
      sampling:
        enabled: false
  pipelines:
    metrics:
      receivers: [otlp]
      exporters: [prometheus, debug]
`

// Restart starts a collector that was killed, with the same addresses and no
// memory of what it had.
func (c *Collector) Restart(t testing.TB) {
	t.Helper()
	c.Process = Start(t, c.program, nil, "--config", "file:"+c.config)
	c.WaitForOutput(t, "Everything is ready")
}

// Endpoint returns the URL for OTEL_EXPORTER_OTLP_ENDPOINT.
func (c *Collector) Endpoint(protocol string) string { return "http://" + c.OTLP[protocol] }

// fetchCollector loads its packages, which is what needs the network.
var fetchCollector = sync.OnceValues(func() (string, error) {
	directory, err := collectorModule()
	if err != nil {
		return "", err
	}
	return run(directory, "go", "list", "-deps", "-f", "{{with .Error}}{{.}}{{end}}", ".")
})

// buildCollector takes a minute for the first time, and seconds after that.
var buildCollector = sync.OnceValues(func() (program string, err error) {
	directory, err := collectorModule()
	if err != nil {
		return "", err
	}
	program = filepath.Join(built, "collector")
	_, err = run(directory, "go", "build", "-o", program, ".")
	return program, err
})

func collectorModule() (directory string, err error) {
	module, err := root()
	return filepath.Join(module, "e2e", "collector"), err
}

// freeAddresses returns loopback addresses on which nothing listens. They are
// reserved together, so that they differ; the programs that get them cannot be
// asked for the port that the kernel chose.
func freeAddresses(t testing.TB, n int) (addresses []string) {
	t.Helper()
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses
}
