package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/e2e/internal/backend"
)

const (
	kibibyte = 1 << 10
	mebibyte = 1 << 20
)

// measureFleet says what a fleet costs that has little to do. Empty is
// what the stack had resident before.
func measureFleet(t *testing.T, s stack, f fleet, relay *relay, empty memory) {
	export := s.measureExports(t, relay, 2*f.size())
	full, page := s.memory(t), s.page(t)
	one := func(query string) float64 { return s.mustAsk(t, query)[""] }
	seriesOf := func(job string) float64 {
		return one(`max(count by (instance) ({job="nemo-gym/` + job + `",instance!=""}))`)
	}
	series := one(`count(` + ofFleet + `)`)
	aSeries := func(before, after float64) float64 { return (after - before) / series / kibibyte }

	show := func(what, format string, values ...any) { t.Logf("%-21s "+format, append([]any{what}, values...)...) }
	show("processes", "%d servers, %d drivers", len(f.servers), f.drivers)
	show("an export", "%.0f data points, %.0f bytes on the wire", export.points, export.bytes)
	show("series", "%.0f a server, %.0f a driver", seriesOf("server"), seriesOf("driver"))
	show("series in all", "%.0f, of which %.0f are buckets", series, one(`count({job=~"nemo-gym/.*",instance!="",le!=""})`))
	show("the collector", "%.1f ms of CPU an export, with its part of a scrape", export.cpu*1000)
	show("its memory", "%.0f MiB, %.1f KiB a series", full.collector/mebibyte, aSeries(empty.collector, full.collector))
	show("its page", "%.0f bytes a series, scraped in %.2f s", page/series, one(`max(scrape_duration_seconds)`))
	show("memory of Prometheus", "%.0f MiB, %.1f KiB a series", full.prometheus/mebibyte, aSeries(empty.prometheus, full.prometheus))
	show("memory of a process", "%.1f MiB", one(`avg(process_memory_usage_bytes)`)/mebibyte)
}

// memory is what is resident, in bytes.
type memory struct{ collector, prometheus float64 }

func (s stack) memory(t *testing.T) memory {
	t.Helper()
	return memory{kernelOf(t, s.collector.PID()).residentBytes(), kernelOf(t, s.prometheus.PID()).residentBytes()}
}

// exportCost is what one export costs.
type exportCost struct {
	points, bytes float64
	cpu           float64 // seconds of the collector's
}

// measureExports takes the mean of at least so many exports.
func (s stack) measureExports(t *testing.T, relay *relay, atLeast int) exportCost {
	t.Helper()
	collector := kernelOf(t, s.collector.PID())
	seen, bytes, cpu := len(s.collector.Output()), float64(relay.sent.Load()), collector.cpuTime()
	var exports, points float64
	backend.Await(t, func() error {
		exports, points = received(s.collector.Output()[seen:])
		if exports < float64(atLeast) {
			return fmt.Errorf("the collector has had %v exports, want %v", exports, atLeast)
		}
		return nil
	})
	return exportCost{
		points: points / exports,
		bytes:  (float64(relay.sent.Load()) - bytes) / exports,
		cpu:    (collector.cpuTime() - cpu) / exports,
	}
}

// exportLine is what the debug exporter writes about each export.
var exportLine = regexp.MustCompile(`"data points": (\d+)`)

// received counts what the collector says that it has had.
func received(output string) (exports, points float64) {
	for _, line := range exportLine.FindAllStringSubmatch(output, -1) {
		n, _ := strconv.ParseFloat(line[1], 64) // it is digits
		exports++
		points += n
	}
	return exports, points
}

// page returns the size of what Prometheus is given, in bytes.
func (s stack) page(t *testing.T) float64 {
	t.Helper()
	response, err := http.Get("http://" + s.collector.Scrape + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	bytes, err := io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	return float64(bytes)
}
