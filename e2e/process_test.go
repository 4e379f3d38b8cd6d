package e2e_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/e2e/internal/backend"
)

// testProcess compares what a process says about itself with what the kernel
// says about it.
func testProcess(t *testing.T, s stack, processes string, kernel kernel) {
	// What only grows lies between two looks at the kernel.
	grows := func(metric string, look func() float64, grain float64) {
		t.Helper()
		before := look()
		exported := s.awaitAtLeast(t, sumOf(metric, processes), before)
		assert.LessOrEqual(t, exported, look()+grain, metric)
	}
	grows("process_cpu_time_seconds_total", kernel.cpuTime, 2*tick)
	grows("process_cpu_run_delay_seconds_total", kernel.runDelay, 0)

	// What goes up and down agrees at some moment.
	agrees := func(metric string, look func() float64, share float64) {
		t.Helper()
		backend.Await(t, func() error {
			found, err := s.ask(sumOf(metric, processes))
			if kernels := look(); err == nil && math.Abs(found[""]-kernels) > share*kernels {
				err = fmt.Errorf("%s is %v, the kernel says %v", metric, found, kernels)
			}
			return err
		})
	}
	agrees("process_memory_usage_bytes", kernel.residentBytes, 0.05)
	agrees("process_thread_count", kernel.threads, 0)
	agrees("process_open_file_descriptor_count", kernel.descriptors, 0)
	agrees("process_unix_file_descriptor_count", kernel.descriptors, 0)
}

// kernel reads what Linux says about a process, from outside of it.
type kernel struct {
	t         *testing.T
	directory string
}

// kernelOf skips the test where there is no Linux to ask.
func kernelOf(t *testing.T, pid int) kernel {
	t.Helper()
	directory := fmt.Sprintf("/proc/%d", pid)
	if _, err := os.Stat(filepath.Join(directory, "schedstat")); err != nil {
		t.Skipf("skipped: this system does not say what a process uses: %v", err)
	}
	return kernel{t, directory}
}

// tick is the unit of the times in stat, in seconds.
const tick = 0.01

// cpuTime returns the time that the process has used, in seconds. User and system
// time are each cut to a tick.
func (k kernel) cpuTime() float64 {
	k.t.Helper()
	text := k.read("stat")
	fields := strings.Fields(text[strings.LastIndex(text, ")"):]) // after the name, which may contain anything
	return (k.number(fields[12]) + k.number(fields[13])) * tick
}

// runDelay returns for how long its threads were ready without a processor, in
// seconds.
func (k kernel) runDelay() (sum float64) {
	k.t.Helper()
	files, err := filepath.Glob(filepath.Join(k.directory, "task", "*", "schedstat"))
	require.NoError(k.t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		sum += k.number(strings.Fields(string(text))[1]) / 1e9
	}
	return sum
}

func (k kernel) residentBytes() float64 {
	k.t.Helper()
	_, rest, _ := strings.Cut(k.read("status"), "VmRSS:")
	return k.number(strings.Fields(rest)[0]) * 1024
}

func (k kernel) threads() float64 { k.t.Helper(); return k.entries("task") }

func (k kernel) descriptors() float64 { k.t.Helper(); return k.entries("fd") }

func (k kernel) entries(name string) float64 {
	k.t.Helper()
	entries, err := os.ReadDir(filepath.Join(k.directory, name))
	require.NoError(k.t, err)
	return float64(len(entries))
}

func (k kernel) read(name string) string {
	k.t.Helper()
	text, err := os.ReadFile(filepath.Join(k.directory, name))
	require.NoError(k.t, err)
	return string(text)
}

func (k kernel) number(text string) float64 {
	k.t.Helper()
	number, err := strconv.ParseFloat(text, 64)
	require.NoError(k.t, err)
	return number
}
