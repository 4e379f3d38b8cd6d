package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	apiAlone   = "net/http and the OpenTelemetry API"
	withSnoop  = "the same and httpsnoop"
	rootImport = "with observer"
)

func importCosts() *family {
	f := &family{
		name:   size,
		about:  "Size of the binary of a small server, as go build makes it.",
		unit:   "MB",
		rounds: once,
	}
	for _, c := range []struct {
		name, directory string
		role            role
	}{
		{apiAlone, "bare", floor},
		{withSnoop, "snoop", floor},
		{rootImport, "root", ours},
		{"with observer and export (the SDK, gRPC)", "export", ours},
	} {
		f.cases = append(f.cases, &testCase{c.name, c.role, func(effort) (sample, error) {
			megabytes, err := binarySize("./internal/size/" + c.directory)
			return uncounted(megabytes), err
		}})
	}
	return f
}

// binarySize builds a command of this module.
func binarySize(command string) (megabytes float64, err error) {
	directory, err := os.MkdirTemp("", "bench")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(directory)
	binary := filepath.Join(directory, "server")
	if output, err := exec.Command("go", "build", "-o", binary, command).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("go build %s: %w\n%s", command, err, output)
	}
	info, err := os.Stat(binary)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / 1e6, nil
}
