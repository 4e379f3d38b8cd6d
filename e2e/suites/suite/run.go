package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// testTime is when a binary's tests give up by themselves, with all stacks:
	// net/http's need about one minute on two cores, grpc's three.
	testTime = 6 * time.Minute

	// killTime is when the binary is ended from outside.
	killTime = testTime + 30*time.Second
)

// outcome is what became of one test.
type outcome string

const (
	passed     outcome = "passes"
	failed     outcome = "fails"
	skipped    outcome = "is skipped"
	unfinished outcome = "does not finish"
	absent     outcome = "does not run"
)

// run is what one run of a binary gave.
type run struct {
	tests  map[string]outcome // by their names
	ended  bool               // as it should, whatever failed: not by a panic, nor out of time
	output string             // what it wrote
	counts []counts           // what the hook saw and the observer counted, a line for each process
}

// counts are what the hook reports.
type counts struct {
	Entered, Left, Sent, Got          int64 // as the hook saw them
	InFlight, Outbound, Lowest        int64 // as the observer counted them
	Responses, Exceptions, Goroutines int64
}

// run runs a binary in one mode; only says which tests, empty for all.
func (w *Workshop) run(ctx context.Context, s Suite, b binary, mode Mode, only string) (run, error) {
	ctx, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	report := w.path("report.jsonl")
	if err := os.Remove(report); err != nil && !os.IsNotExist(err) {
		return run{}, err
	}
	arguments := append(w.command[:len(w.command):len(w.command)], b.file,
		"-test.v=test2json", "-test.paniconexit0", "-test.timeout="+testTime.String())
	if only != "" {
		arguments = append(arguments, "-test.run="+only)
	}
	if s.Skip != "" {
		arguments = append(arguments, "-test.skip="+s.Skip)
	}
	arguments = append(arguments, b.flags...)
	command := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	command.Dir = b.folder
	command.WaitDelay = 5 * time.Second // for a child of the tests that keeps their output open
	command.Env = append(os.Environ(), "OBSERVER_SUITES_MODE="+string(mode), "OBSERVER_SUITES_REPORT="+report,
		"GODEBUG="+s.GODEBUG, "GOROOT="+w.path("go"), "PATH="+w.path("go", "bin")+string(os.PathListSeparator)+os.Getenv("PATH"), "PWD="+b.folder)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := command.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && ctx.Err() == nil && !errors.Is(err, exec.ErrWaitDelay) {
		return run{}, err // it could not be run
	}
	r := run{output: output.String()}
	r.tests, r.ended = parse(r.output)
	if err != nil && count(r.tests, failed) == 0 {
		r.ended = false // a TestMain that has found goroutines, or a way out past the tests
	}
	if mode == Without {
		return r, nil
	}
	text, err := os.ReadFile(report)
	if err != nil {
		if !r.ended {
			return r, nil // it did not get so far
		}
		return run{}, fmt.Errorf("%s has no counts: %w", b.label, err)
	}
	for line := range bytes.Lines(text) {
		var c counts
		if err := json.Unmarshal(line, &c); err != nil {
			return run{}, err
		}
		r.counts = append(r.counts, c)
	}
	return r, nil
}

// parse reads what a binary writes with -test.v=test2json, where a mark stands in
// front of each of the package's own lines, wherever a test's output has left off.
func parse(output string) (tests map[string]outcome, ended bool) {
	const mark = "\x16"
	tests = make(map[string]outcome)
	for part := range strings.SplitSeq(output, mark) {
		line, _, _ := strings.Cut(part, "\n")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[0] == "PASS", fields[0] == "FAIL":
			ended = true
		case len(fields) < 3:
		case fields[0] == "===" && fields[1] == "RUN":
			tests[fields[2]] = unfinished
		case fields[0] == "---":
			switch fields[1] {
			case "PASS:":
				tests[fields[2]] = passed
			case "FAIL:":
				tests[fields[2]] = failed
			case "SKIP:":
				tests[fields[2]] = skipped
			}
		}
	}
	return tests, ended
}

// sane returns what is wrong with the counts, nothing if all is right: at the end
// nothing is in flight but what the tests left behind, and it never was less.
func sane(all []counts) (wrong []string) {
	for _, c := range all {
		if inside := c.Entered - c.Left; c.InFlight != inside {
			wrong = append(wrong, fmt.Sprintf("%d requests are in flight at the end, want %d", c.InFlight, inside))
		}
		if inside := c.Sent - c.Got; c.Outbound != inside {
			wrong = append(wrong, fmt.Sprintf("%d outbound requests are in flight at the end, want %d", c.Outbound, inside))
		}
		if c.Lowest < 0 {
			wrong = append(wrong, fmt.Sprintf("%d were in flight while the tests ran", c.Lowest))
		}
		if c.Goroutines > 0 {
			wrong = append(wrong, fmt.Sprintf("%d goroutines are left after Stop", c.Goroutines))
		}
	}
	return wrong
}
