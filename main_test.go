package observer

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// childVariable names what a re-executed test binary does instead of its tests.
const childVariable = "OBSERVER_TEST_CHILD"

// ChildModes are the children that tests start with [Child], by name. A test
// file adds its own in an init function. An error fails the child.
var ChildModes = map[string]func() error{}

// Child returns a command that runs a mode in a process of its own, for what a
// test cannot do to the process that it shares: fill what is bounded, exit, be
// stopped. It is killed when the test ends. The environment is that of the
// tests, without telemetry settings, and what is given.
func Child(t testing.TB, mode string, environment ...string) *exec.Cmd {
	t.Helper()
	if ChildModes[mode] == nil {
		t.Fatalf("no child mode is named %q", mode)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program)
	command.Env = append(append(os.Environ(), childVariable+"="+mode), environment...)
	command.Stderr = os.Stderr
	return command
}

func TestMain(m *testing.M) {
	if mode := os.Getenv(childVariable); mode != "" {
		if err := ChildModes[mode](); err != nil {
			fmt.Fprintf(os.Stderr, "child %s: %v\n", mode, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// The settings of whoever runs the tests are not what is tested.
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "NEMO_") || strings.HasPrefix(name, "OTEL_") {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}
