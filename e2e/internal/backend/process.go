// Package backend starts what surrounds the library where it runs: a collector,
// a Prometheus and the example programs. Each is a child process on loopback
// addresses. It ends with the test that started it, which shows its output where
// it fails.
package backend

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience is how long anything may take that a test waits for. It is long
// because a busy machine is no failure.
const Patience = 2 * time.Minute

const (
	pollInterval = 50 * time.Millisecond
	lastWords    = 4 << 10 // bytes of a process's output that a failed test shows

	// pipePatience is how long the output of a process that has ended may stay open,
	// because one that it started still has it.
	pipePatience = 10 * time.Second
)

// Process is a child process. Its methods are safe for concurrent use.
type Process struct {
	name    string
	command *exec.Cmd
	output  *output
	ended   chan struct{}
	err     error // of Wait; set before ended is closed
}

// Start starts a program in the environment of the test, but with no settings of
// telemetry except those that are given. It ends with the test.
func Start(t testing.TB, program string, environment []string, arguments ...string) *Process {
	t.Helper()
	p := &Process{name: filepath.Base(program), output: newOutput(), ended: make(chan struct{})}
	p.command = exec.Command(program, arguments...)
	p.command.Env = append(withoutTelemetry(os.Environ()), environment...)
	p.command.Stdout, p.command.Stderr = p.output, p.output // one pipe, hence in order
	p.command.SysProcAttr = endsWithParent()
	p.command.WaitDelay = pipePatience
	if err := p.command.Start(); err != nil {
		t.Fatalf("starting %s: %v", program, err)
	}
	go func() {
		p.err = p.command.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			text := p.Output()
			t.Logf("%s, process %d, wrote at last:\n%s", p.name, p.PID(), text[max(0, len(text)-lastWords):])
		}
	})
	return p
}

// withoutTelemetry drops what the programs would otherwise take from whoever
// runs the tests.
func withoutTelemetry(environment []string) (rest []string) {
	for _, variable := range environment {
		if !strings.HasPrefix(variable, "OTEL_") && !strings.HasPrefix(variable, "NEMO_") {
			rest = append(rest, variable)
		}
	}
	return rest
}

// PID returns the number of the process.
func (p *Process) PID() int { return p.command.Process.Pid }

// Output returns what the process has written so far, to standard output and
// standard error.
func (p *Process) Output() string { return p.output.String() }

// WaitForOutput waits until the output matches, and returns the match and its
// groups.
func (p *Process) WaitForOutput(t testing.TB, pattern string) (groups []string) {
	t.Helper()
	expression := regexp.MustCompile(pattern)
	timeout := time.NewTimer(Patience)
	defer timeout.Stop()
	for {
		changed := p.output.changes()
		ended := p.hasEnded() // before the look, so that the last words are seen
		if groups := expression.FindStringSubmatch(p.Output()); groups != nil {
			return groups
		}
		if ended {
			t.Fatalf("%s ended (%v) before it wrote %q", p.name, p.err, pattern)
		}
		select {
		case <-changed:
		case <-p.ended:
		case <-timeout.C:
			t.Fatalf("%s has not written %q in %v", p.name, pattern, Patience)
		}
	}
}

func (p *Process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Interrupt ends the process as a person at a terminal would, and requires that
// it ends well.
func (p *Process) Interrupt(t testing.TB) {
	t.Helper()
	if err := p.command.Process.Signal(os.Interrupt); err != nil {
		t.Fatalf("interrupting %s: %v", p.name, err)
	}
	p.Wait(t)
}

// Wait waits for the process to end, and requires that it ends well.
func (p *Process) Wait(t testing.TB) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(Patience):
		t.Fatalf("%s has not ended in %v", p.name, Patience)
	}
	if p.err != nil {
		t.Fatalf("%s ended with %v", p.name, p.err)
	}
}

// Kill ends the process at once, without a chance to say anything, and returns
// when it is gone. It may be called again.
func (p *Process) Kill() {
	_ = p.command.Process.Kill() // its error says that the process has ended
	<-p.ended
}

// output keeps what a process writes.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced at each write
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// changes returns a channel that is closed at the next write.
func (o *output) changes() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed
}

// Await calls check until it returns nil. If it does not do so in time, the test
// fails with its last error.
func Await(t testing.TB, check func() error) {
	t.Helper()
	err := check()
	for began := time.Now(); err != nil; err = check() {
		if time.Since(began) > Patience {
			t.Fatalf("waited for %v: %v", Patience, err)
		}
		time.Sleep(pollInterval)
	}
}

// run runs a command to its end and returns what it printed; its error has that,
// too.
func run(directory, program string, arguments ...string) (string, error) {
	command := exec.Command(program, arguments...)
	command.Dir = directory
	text, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, text)
	}
	return strings.TrimSpace(string(text)), nil
}
