package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

// The suite lets a process suffer from each cause in turn, and asks whether the
// diagnosis names it:
//
//	go test ./examples/slowdown -v -culprits
//
// It takes minutes and wants the machine to itself. A neighbour that takes the
// processors is a cause of its own, and the diagnosis says so: a verdict that
// /proc/stat confirms is not held against it, the injection is tried again.
var (
	culprits = flag.Bool("culprits", false, "inject each cause in a process of its own; takes minutes, on a machine that is quiet")
	one      = flag.Bool("one", false, "with -culprits: only the first injection of each cause")
)

const (
	suiteWindow   = 2 * time.Second
	windowsToName = 4

	// windowsToPlace is how much longer the line may take: a profile of 5 s that
	// begins a window late.
	windowsToPlace = 5

	attempts = 3 // where neighbours disturb

	// disturbedAtLeast is the least share of the CPUs that others must take before
	// they can be to blame: the rule for cpu_contended asks for as much.
	disturbedAtLeast = 0.25
)

// childVariable makes the test binary the program that it tests.
const childVariable = "SLOWDOWN_TEST_CHILD"

func TestMain(m *testing.M) {
	if order := os.Getenv(helperVariable); order != "" {
		os.Exit(runHelper(order))
	}
	if os.Getenv(childVariable) != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// needProcessors are the causes whose injections need the machine, or would be each
// other's neighbours: they run alone, one after the other. The others wait, and use a
// few hundredths of a processor.
var needProcessors = []observer.Cause{
	observer.CauseCPUThrottled, observer.CauseStopTheWorld, observer.CauseGC, observer.CauseCPUContended,
	observer.CauseCPUSaturated, observer.CauseMemory, observer.CauseUnknown, observer.CauseNone,
}

func TestCulprits(t *testing.T) {
	needsQuiet(t)
	var alone, together []injection
	chosen := make(map[observer.Cause]bool)
	for _, i := range injections {
		switch {
		case *one && chosen[i.cause]:
		case slices.Contains(needProcessors, i.cause):
			alone = append(alone, i)
		default:
			together = append(together, i)
		}
		chosen[i.cause] = true
	}
	for _, i := range alone {
		t.Run(i.name(), func(t *testing.T) { nameTheCulprit(t, i) })
	}
	runTogether(sickAtATime, together, func(i injection) { t.Run(i.name(), func(t *testing.T) { nameTheCulprit(t, i) }) })
}

// nameTheCulprit asks for the right verdict and line, again where others disturb.
func nameTheCulprit(t *testing.T, i injection) {
	for attempt := 1; ; attempt++ {
		problem, explained := suffer(t, i)
		switch {
		case problem == "":
			return
		case !explained:
			t.Fatal(problem)
		case attempt == attempts:
			t.Skipf("the machine is not quiet: %s", problem)
		}
		t.Logf("trying again, since others took the processors: %s", problem)
	}
}

// suffer runs one injection and returns what was wrong with the verdict, and
// whether others explain that.
func suffer(t *testing.T, i injection) (problem string, explained bool) {
	child := startChild(t, "-cause", string(i.cause), "-kind", i.kind)
	defer child.kill()
	var first report // that named the cause
	for agreed := 0; ; {
		report := child.next()
		if slices.Contains(report.Diagnosis.Unmeasured, i.cause) && report.Window == windowsToName {
			t.Skipf("%s cannot be measured here", i.cause)
		}
		right := report.Diagnosis.Verdict == i.cause
		if right {
			if agreed++; agreed == 1 {
				first = report
			}
		}
		wanted := 2 // the verdict stays
		if i.cause == observer.CauseNone {
			wanted = windowsToName + 1
		}
		switch late := agreed == 0 && report.Window >= windowsToName; {
		case !right && (i.cause == observer.CauseNone || agreed > 0 || late):
			return fmt.Sprintf("window %d: %s (others used %s)", report.Window, report.Diagnosis.Summary, report.Machine),
				i.cause != observer.CauseCPUContended && (child.explained(report) || i.cause == observer.CauseNone && child.overloaded(report))
		case agreed >= wanted:
			if lines := planted(t, i); len(lines) > 0 {
				if wrong := place(lines, report.Diagnosis); wrong != "" && agreed < wanted+windowsToPlace {
					continue // a profile takes longer than the verdict, and the first may be too short
				} else if wrong != "" {
					return fmt.Sprintf("window %d: %s", report.Window, wrong), child.disturbed(report)
				}
				t.Logf("window %d: line %s", report.Window, report.Diagnosis.Summary)
			}
			t.Logf("window %d: %s (others used %s)", first.Window, first.Diagnosis.Summary, first.Machine)
			if status := child.interrupt(); status != named {
				return fmt.Sprintf("the exit status was %d", status), false
			}
			return "", false
		}
	}
}

func TestSlowTimeIsTheTimeThatWasInjected(t *testing.T) {
	needsQuiet(t)
	for _, length := range []time.Duration{4 * suiteWindow, 3*suiteWindow + suiteWindow/2} {
		t.Run(length.String(), func(t *testing.T) {
			child := startChild(t, "-cause", string(observer.CauseLock), "-suffer", length.String())
			defer child.kill()
			var before report
			var longest time.Duration
			recovered := 0
			last := child.until(func(r report) bool {
				if r.Window > 1 {
					longest = max(longest, r.Diagnosis.At.Sub(before.Diagnosis.At))
				}
				if verdict := r.Diagnosis.Verdict; verdict != observer.CauseLock && !child.explained(r) {
					assert.Equal(t, observer.CauseNone, verdict)
				}
				if over := r.Injected == before.Injected; over && r.Diagnosis.Verdict == observer.CauseNone {
					recovered++
				}
				before = r
				return recovered == 2
			})
			t.Logf("injected for %v, gym.slow_time stands at %v", last.Injected, last.SlowTime)
			if others := last.SlowTime[observer.CauseCPUContended]; others > 0 {
				t.Skipf("the machine is not quiet: others had the processors for %v of it", others)
			}
			assert.InDelta(t, float64(last.Injected), float64(last.SlowTime[observer.CauseLock]), longest.Seconds(),
				"gym.slow_time of lock after an injection of %v, in windows of up to %v", last.Injected, longest)
			child.interrupt()
		})
	}
}

func TestCaptureShowsTheStall(t *testing.T) {
	needsQuiet(t)
	tests := []struct {
		cause observer.Cause
		what  string
		shown func(trace string) bool
	}{
		{observer.CauseLock, "who waits for the mutex", mentions("slowdown.holdMutex")},
		{observer.CauseStopTheWorld, "what stops the world", mentions("stop-the-world (read mem stats)")},
		// Somebody asks every 50 ms, so that there is no such gap by itself.
		{observer.CauseUnknown, "a silence while the process is stopped", isSilentFor(250 * time.Millisecond)},
	}
	for _, test := range tests {
		t.Run(string(test.cause), func(t *testing.T) {
			directory := t.TempDir()
			child := startChild(t, "-cause", string(test.cause), "-capture", directory)
			defer child.kill()
			child.until(func(r report) bool { return r.Diagnosis.Verdict == test.cause })
			child.interrupt() // which waits for a capture under way
			folders, err := filepath.Glob(filepath.Join(directory, "*"))
			require.NoError(t, err)
			require.Len(t, folders, 1, "captures")
			for _, name := range []string{"diagnosis.json", "goroutines.txt"} {
				assert.FileExists(t, filepath.Join(folders[0], name))
			}
			trace, err := exec.Command("go", "tool", "trace", "-d=parsed", filepath.Join(folders[0], "trace.out")).CombinedOutput()
			require.NoError(t, err, "go tool trace says %.1000s", trace)
			t.Logf("%s: go tool trace prints %d lines of it", filepath.Base(folders[0]), bytes.Count(trace, []byte("\n")))
			assert.True(t, test.shown(string(trace)), "the trace shows %s", test.what)
		})
	}
}

func mentions(what string) func(trace string) bool {
	return func(trace string) bool { return strings.Contains(trace, what) }
}

// isSilentFor looks for two events so far apart.
func isSilentFor(least time.Duration) func(trace string) bool {
	stamps := regexp.MustCompile(`(?m)^M=.* Time=(\d+)`)
	return func(trace string) bool {
		var before time.Duration
		for _, stamp := range stamps.FindAllStringSubmatch(trace, -1) {
			nanoseconds, err := strconv.ParseInt(stamp[1], 10, 64)
			if err != nil {
				return false
			}
			now := time.Duration(nanoseconds)
			if before > 0 && now-before >= least {
				return true
			}
			before = now
		}
		return false
	}
}

func needsQuiet(t *testing.T) {
	if !*culprits {
		t.Skip("skipped: -culprits lets processes suffer for minutes, and needs a quiet machine")
	}
}

// child is this program in a process of its own, that suffers until it is
// interrupted.
type child struct {
	t       *testing.T
	command *exec.Cmd
	errors  bytes.Buffer
	reports *json.Decoder
	output  io.ReadCloser
	others  [2]float64 // CPUs that others had in the last two windows
}

func startChild(t *testing.T, arguments ...string) *child {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	c := &child{t: t}
	c.command = exec.Command(program, append(arguments, "-json", "-duration", "0", "-window", suiteWindow.String())...)
	c.command.Env = append(os.Environ(), childVariable+"=1")
	c.command.Stderr = &c.errors
	output, err := c.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.command.Start())
	c.reports, c.output = json.NewDecoder(output), output
	return c
}

// next returns what the child says at the end of the next window. It skips the
// test where this system cannot do what the child was asked for.
func (c *child) next() report {
	c.t.Helper()
	var r report
	if err := c.reports.Decode(&r); err != nil {
		c.output.Close()
		c.command.Wait()
		text := strings.TrimSpace(c.errors.String())
		if c.command.ProcessState.ExitCode() == notPossible {
			c.t.Skip(text)
		}
		c.t.Fatalf("%v: %s", err, text)
	}
	c.others[0], c.others[1] = c.others[1], 0
	if r.Machine != nil {
		c.others[1] = r.Machine.Others + r.Machine.Steal
	}
	return r
}

// until returns the first window that is the one that is looked for, which must
// come soon.
func (c *child) until(found func(report) bool) report {
	c.t.Helper()
	var r report
	for range 5 * windowsToName {
		if r = c.next(); found(r) {
			return r
		}
	}
	if c.explained(r) {
		c.t.Skipf("the machine is not quiet: %s (others used %s)", r.Diagnosis.Summary, r.Machine)
	}
	c.t.Fatalf("it did not come in %d windows", r.Window)
	return r
}

// explained reports whether what others did explains a verdict: they had the
// processors in one of the two windows that it stands on, and it says so, or
// says that it does not know, or has not settled.
func (c *child) explained(r report) bool {
	switch r.Diagnosis.Verdict {
	case observer.CauseCPUContended, observer.CauseUnknown, observer.CauseNone:
		return c.disturbed(r)
	}
	return false
}

// overloaded reports whether what others did explains a queue in a healthy
// process: its load is six tenths of what it can bear when it is alone.
func (c *child) overloaded(r report) bool {
	return r.Diagnosis.Verdict == observer.CauseCPUSaturated && c.disturbed(r)
}

func (c *child) disturbed(r report) bool {
	return r.Machine != nil && max(c.others[0], c.others[1]) >= disturbedAtLeast*float64(r.Machine.CPUs)
}

// interrupt ends the child as a person at a terminal would, and returns its exit
// status.
func (c *child) interrupt() int {
	c.command.Process.Signal(os.Interrupt)
	io.Copy(io.Discard, io.MultiReader(c.reports.Buffered(), c.output))
	var failed *exec.ExitError
	if err := c.command.Wait(); err != nil && !errors.As(err, &failed) {
		c.t.Error(err)
	}
	return c.command.ProcessState.ExitCode()
}

// kill ends a child that has not ended.
func (c *child) kill() {
	if c.command.ProcessState == nil {
		c.interrupt()
	}
}
