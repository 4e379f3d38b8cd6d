// Package kernel_test checks what internal/kernel reads, and what becomes of it,
// on Linux kernels that it starts in an emulator: where control groups, their
// namespaces, memory and processors can be laid out in every way that there is,
// whatever machine the test runs on.
package kernel_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/e2e/kernel/internal/machine"
)

var (
	whole = flag.Bool("whole", false, "run all cases, not just the quick ones")
	only  = flag.String("only", "", "run only the cases of these names, with commas between them")
)

// Linux 6.1 does not count what a quota above a group stops of its threads, and
// 6.12 does (cpu.stat.local, since 6.6).
var versions = []string{"6.1", "6.12"}

func TestCasesOnLiveKernels(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the kernels are for amd64, and their packages for Debian")
	}
	if err := machine.Available(); err != nil {
		t.Skip(err)
	}
	directory := t.TempDir()
	programs := map[string]string{
		"init":        build(t, directory, "build", "./guest"),
		"kernel.test": build(t, directory, "test", "-c", "github.com/gym-observer/observer/internal/kernel"),
	}
	cases := list(t, programs["init"])
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			kernel, err := machine.Kernel(version)
			if errors.Is(err, machine.ErrMissing) {
				t.Skip(err)
			}
			require.NoError(t, err)
			run(t, kernel, programs, cases)
		})
	}
}

// build makes a program that needs nothing else in the machine.
func build(t *testing.T, directory string, command ...string) string {
	t.Helper()
	program := filepath.Join(directory, filepath.Base(command[len(command)-1])+"."+command[0])
	last := len(command) - 1
	args := append(append(command[:last:last], "-o", program), command[last])
	build := exec.Command("go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return program
}

// list asks for the names of the cases, so that one that the machine says nothing
// of is missed.
func list(t *testing.T, guest string) []string {
	t.Helper()
	args := []string{"list"}
	if *whole || *only != "" {
		args = append(args, "-whole")
	}
	output, err := exec.Command(guest, args...).Output()
	require.NoError(t, err)
	names := strings.Fields(string(output))
	require.NotEmpty(t, names)
	if *only != "" {
		chosen := strings.Split(*only, ",")
		require.Subset(t, names, chosen)
		return chosen
	}
	return names
}

const (
	// silence is more than the minute and a half that a case may take, after which
	// the machine says something of it, and much more than a kernel takes from one
	// line of its start to the next.
	silence = 2 * time.Minute

	// toReport is what is left of the test's time for saying what was seen so far.
	toReport = 10 * time.Second
)

func run(t *testing.T, kernel string, programs map[string]string, cases []string) {
	m := machine.Machine{Kernel: kernel, Programs: programs, Directory: t.TempDir(), Silence: silence}
	if *whole || *only != "" {
		m.Arguments = append(m.Arguments, "-whole")
	}
	if *only != "" {
		m.Arguments = append(m.Arguments, "-only="+*only)
	}
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-toReport))
		defer cancel()
	}
	began := time.Now()
	text, err := m.Run(ctx)
	if errors.Is(err, machine.ErrCutShort) {
		t.Logf("once more: %v", err)
		m.Directory = t.TempDir()
		text, err = m.Run(ctx)
	}
	t.Logf("%s, %.0f s", filepath.Base(kernel), time.Since(began).Seconds())
	assert.NoError(t, err)

	results := parse(t, text)
	for _, name := range cases {
		t.Run(name, func(t *testing.T) {
			result, found := results[name]
			require.True(t, found, "the machine never came to say anything of it")
			switch result.outcome {
			case "passed":
				t.Logf("%s s: %s", result.seconds, result.text)
			case "skipped":
				t.Skip(result.text)
			default:
				t.Errorf("%s s: %s", result.seconds, result.text)
			}
		})
	}
}

type result struct{ outcome, seconds, text string }

// parse reads lines such as
//
//	passed own-quota 2.1 "throttled 1.2s"
func parse(t *testing.T, text string) map[string]result {
	results := make(map[string]result)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		var r result
		var name string
		if n, _ := fmt.Sscan(lines.Text(), &r.outcome, &name, &r.seconds); n < 3 {
			t.Log(lines.Text())
			continue
		}
		_, quoted, _ := strings.Cut(lines.Text(), `"`)
		said, err := strconv.Unquote(`"` + quoted)
		require.NoError(t, err, lines.Text())
		r.text = said
		results[name] = r
	}
	return results
}
