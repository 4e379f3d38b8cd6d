package main

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/gym-observer/observer"
)

var healthy = flag.Duration("healthy", 0, "watch each healthy workload for so `long`; with 3m that takes 24 minutes, and -timeout has to be longer")

// useProcessors are the healthy workloads that would be each other's neighbours:
// one runs at a time. The others use a few hundredths of a processor.
var useProcessors = []string{"open", "workers", "collecting", "herd", "bursts", "children"}

// How many of the others run at once. Somebody looks in on each 20 times a second, and
// a window that is late for a neighbour of one's own making would show nothing.
const (
	sickAtATime    = 4
	healthyAtATime = 8
)

// TestHealthyWorkloads watches every healthy workload, each in a process of its own,
// and asks for the right verdict in every window:
//
//	go test ./examples/slowdown -v -healthy 3m -timeout 60m
//
// A verdict that neighbours or the hypervisor explain is reported, and no failure.
func TestHealthyWorkloads(t *testing.T) {
	if *healthy == 0 {
		t.Skip("skipped: -healthy 3m watches each healthy workload for three minutes")
	}
	names := kinds(observer.CauseNone)
	require.Subset(t, names, useProcessors)
	t.Run("alone", func(t *testing.T) {
		for _, name := range useProcessors {
			t.Run(name, func(t *testing.T) { watchHealthy(t, name) })
		}
	})
	t.Run("together", func(t *testing.T) {
		light := slices.DeleteFunc(names, func(name string) bool { return slices.Contains(useProcessors, name) })
		runTogether(healthyAtATime, light, func(name string) { t.Run(name, func(t *testing.T) { watchHealthy(t, name) }) })
	})
}

// runTogether runs some that hardly use a processor, a number at once: t.Parallel would
// run as many as there are processors.
func runTogether[T any](atATime int, all []T, run func(T)) {
	var together errgroup.Group
	together.SetLimit(atATime)
	for _, one := range all {
		together.Go(func() error {
			run(one)
			return nil
		})
	}
	_ = together.Wait() // none returns one
}

// watchHealthy lets one workload run for as long as was asked for.
func watchHealthy(t *testing.T, name string) {
	child := startChild(t, "-healthy", name)
	defer child.kill()
	verdicts := make(map[observer.Cause]int)
	windows, confirmed, others := 0, 0, 0.0
	for began := time.Now(); time.Since(began) < *healthy; {
		report := child.next()
		windows++
		verdicts[report.Diagnosis.Verdict]++
		if report.Machine != nil {
			others += report.Machine.Others
		}
		if report.Diagnosis.Verdict == observer.CauseNone {
			continue
		}
		text := fmt.Sprintf("window %d at %s: %s (others used %s)", report.Window,
			report.Diagnosis.At.Format(time.TimeOnly), report.Diagnosis.Summary, report.Machine)
		if child.explained(report) || child.overloaded(report) {
			confirmed++
			t.Logf("confirmed: %s", text)
		} else {
			t.Errorf("false: %s", text)
		}
	}
	assert.Greater(t, windows, confirmed, "windows that others did not disturb")
	t.Logf("%d windows: %v; %d with a verdict that others explain, who used %.2f CPUs on average", windows, verdicts, confirmed, others/float64(windows))
}
