package backend

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// built is where the programs are that the tests build.
var built string

// Main runs the tests of a package that builds programs, and returns the exit
// code. TestMain calls it.
func Main(m *testing.M) (code int) {
	directory, err := os.MkdirTemp("", "observer-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	built = directory
	return m.Run()
}

// root returns the directory of the observer's module.
var root = sync.OnceValues(func() (string, error) {
	module, err := run("", "go", "env", "GOMOD")
	return filepath.Dir(filepath.Dir(module)), err // this one's is a directory below
})

// StartExample starts one of the programs in examples, with settings of its
// telemetry.
func StartExample(t testing.TB, name string, settings []string, arguments ...string) *Process {
	t.Helper()
	directory, err := buildExamples()
	if err != nil {
		t.Fatal(err)
	}
	return Start(t, filepath.Join(directory, name), settings, arguments...)
}

// buildExamples builds them in their own module, as somebody does who tries them.
var buildExamples = sync.OnceValues(func() (directory string, err error) {
	module, err := root()
	if err != nil {
		return "", err
	}
	_, err = run(module, "go", "build", "-o", built+string(filepath.Separator),
		"./examples/server", "./examples/driver", "./examples/slowdown")
	return built, err
})
