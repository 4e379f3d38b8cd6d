package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gym-observer/observer/client"
)

const (
	startPatience = 20 * time.Second // until a process is ready
	endPatience   = 20 * time.Second // until one has drained; the driver takes five seconds at most
)

// demonstrate runs the stack until ctx ends, or for as long as the settings say,
// and prints what comes of it.
func demonstrate(ctx context.Context, s settings, stdout, stderr io.Writer) error {
	miniature := &stack{settings: s, stderr: stderr, failed: make(chan error, processes)}
	defer miniature.end()
	if err := miniature.start(); err != nil {
		return err
	}
	miniature.introduce(stdout)

	began := time.Now()
	if s.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Duration)
		defer cancel()
	}
	if err := miniature.report(ctx, stdout); err != nil {
		return err
	}
	ended := time.Now()
	found := miniature.why()

	fmt.Fprintln(stdout, "Finishing the rollouts that run. Ctrl-C would leave them.")
	if err := miniature.end(); err != nil {
		return err
	}
	all := miniature.driver().totals
	fmt.Fprintf(stdout, "\n%d rollouts offered, %d finished, %d failed, %d abandoned at the end.\n",
		all.Offered, all.Finished, all.Failed, all.Abandoned)
	if all.Failed > 0 {
		fmt.Fprintf(stdout, "The last failure: %s\n", all.LastError)
	}
	if all.Finished == 0 {
		return errors.New("no rollout finished")
	}
	measured, ok := miniature.measured(began, ended)
	if !ok {
		fmt.Fprintf(stdout, "It ran too briefly for a table, which takes %v.\n", (windowsToSettle+2)*s.Window)
		return nil
	}
	_, err := io.WriteString(stdout, measured.text()+"observer why: "+found+"\n")
	return err
}

// whyPatience is for all four pages; each has two seconds.
const whyPatience = 10 * time.Second

// why is what the command of that name finds from the driver's address alone.
func (s *stack) why() string {
	ctx, cancel := context.WithTimeout(context.Background(), whyPatience)
	defer cancel()
	chain, _ := client.Follow(ctx, s.driver().url) // its summary says what is wrong
	return chain.Summary
}

// stack is the four processes.
type stack struct {
	settings
	stderr    io.Writer
	failed    chan error // has each process that ends by itself
	processes []*process // those that are called before those that call them
}

// processes is how many there are.
const processes = 4

// start starts the processes. Those that it has started are left to end.
func (s *stack) start() error {
	o := order{Settings: s.settings}
	for _, each := range []struct {
		role string
		url  *string // for those that call it
	}{{modelRole, &o.Model}, {resourcesRole, &o.Resources}, {agentRole, &o.Agent}, {driverRole, new(string)}} {
		o.Role = each.role
		p, err := startProcess(o, s.stderr, s.failed)
		if err != nil {
			return err
		}
		s.processes = append(s.processes, p)
		if err := p.waitUntilReady(); err != nil {
			return err
		}
		*each.url = p.url
	}
	return nil
}

func (s *stack) driver() *process { return s.processes[len(s.processes)-1] }

// end ends the processes that run, each before those that it calls.
func (s *stack) end() error {
	var errs []error
	for _, p := range slices.Backward(s.processes) {
		errs = append(errs, p.end())
	}
	return errors.Join(errs...)
}

func (s *stack) introduce(stdout io.Writer) {
	for _, p := range slices.Backward(s.processes) {
		fmt.Fprintf(stdout, "%-10s process %d, live page %s\n", p.role, p.command.Process.Pid, p.url+pagePath)
	}
	if s.Rate > 0 {
		fmt.Fprintf(stdout, "Open loop: %v rollouts a second arrive at random (seed %d).\n", s.Rate, s.Seed)
	} else {
		fmt.Fprintf(stdout, "Closed loop: %d rollouts exist at once.\n", s.Concurrency)
	}
	fmt.Fprintln(stdout, "Their metrics are in the table at the end, and go where the environment says, such as")
	fmt.Fprintln(stdout, "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317.")
	fmt.Fprintf(stdout, "Ask it in a second terminal: go run ./cmd/observer why %s\n", strings.TrimPrefix(s.driver().url, "http://"))
	fmt.Fprintln(stdout, "Ctrl-C ends it; -help explains.")
}

// report prints a line now and then, until ctx ends. An error is that of a process
// that has ended before.
func (s *stack) report(ctx context.Context, stdout io.Writer) error {
	var tick <-chan time.Time
	if s.Every > 0 {
		ticker := time.NewTicker(s.Every)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case err := <-s.failed:
			return err
		case <-ctx.Done():
			return nil
		case now := <-tick:
			fmt.Fprintf(stdout, "%s  %s\n", now.Format(time.TimeOnly), s.line())
		}
	}
}

// line says what the last window of each process was like.
func (s *stack) line() string {
	driver, ok := s.driver().last()
	if !ok {
		return "no window is complete yet"
	}
	text := fmt.Sprintf("%5.1f rollouts/s, %3.0f active of %3.0f", driver.Rollouts/driver.Length.Seconds(), driver.Active, driver.Resident)
	for _, p := range slices.Backward(s.processes) {
		last, _ := p.last() // "" is no verdict yet
		text += fmt.Sprintf("  %s: %-10s", p.role, last.Verdict)
	}
	return strings.TrimRight(text, " ")
}

// process is one process of the stack.
type process struct {
	role    string
	url     string
	command *exec.Cmd
	input   io.Closer     // it ends when this is closed
	ready   chan struct{} // closed once it is, or has ended
	ended   chan struct{} // closed once it has ended; then err and totals are set
	err     error
	totals  totals

	mu      sync.Mutex // guards windows
	windows []window
}

func startProcess(o order, stderr io.Writer, failed chan<- error) (*process, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{role: o.Role, ready: make(chan struct{}), ended: make(chan struct{})}
	p.command = exec.Command(program)
	p.command.Env = append(os.Environ(), processVariable+"="+string(text))
	p.command.Stderr = stderr
	output, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.input, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the %s: %w", o.Role, err)
	}
	go func() {
		defer close(p.ended)
		p.err = errors.Join(p.listen(json.NewDecoder(output)), p.command.Wait())
		if p.err != nil {
			failed <- fmt.Errorf("the %s has ended: %w", p.role, p.err)
		}
	}()
	return p, nil
}

// listen takes the messages of the process until its end.
func (p *process) listen(messages *json.Decoder) error {
	once := sync.OnceFunc(func() { close(p.ready) })
	defer once()
	for {
		var m message
		switch err := messages.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch {
		case m.URL != "":
			p.url = m.URL
			once()
		case m.Totals != nil:
			p.totals = *m.Totals
		case m.Window != nil:
			p.mu.Lock()
			p.windows = append(p.windows, *m.Window)
			p.mu.Unlock()
		}
	}
}

// waitUntilReady returns an error for a process that ends before.
func (p *process) waitUntilReady() error {
	select {
	case <-p.ready:
	case <-time.After(startPatience):
		return fmt.Errorf("the %s is not ready after %v", p.role, startPatience)
	}
	if p.url == "" {
		<-p.ended
		return fmt.Errorf("the %s does not start: %w", p.role, p.err)
	}
	return nil
}

// end asks the process to end, and waits for it. It may be called again.
func (p *process) end() error {
	_ = p.input.Close()
	select {
	case <-p.ended:
	case <-time.After(endPatience):
		_ = p.command.Process.Kill()
		<-p.ended
		return fmt.Errorf("the %s did not end in %v", p.role, endPatience)
	}
	if p.err != nil {
		return fmt.Errorf("the %s: %w", p.role, p.err)
	}
	return nil
}

// last returns the last window, if there is one.
func (p *process) last() (window, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.windows) == 0 {
		return window{}, false
	}
	return p.windows[len(p.windows)-1], true
}
