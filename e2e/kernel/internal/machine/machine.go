// Package machine starts a Linux kernel in an emulator, with a program of ours
// as the first and only one.
package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const emulator = "qemu-system-x86_64"

// Available returns an error that wraps [ErrMissing] where there is no emulator.
func Available() error {
	if _, err := exec.LookPath(emulator); err != nil {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return nil
}

// Machine is what to start.
type Machine struct {
	Kernel    string            // the path of a kernel
	Programs  map[string]string // by their path in the machine; "init" is started
	Arguments []string          // for init
	Directory string            // for the files of one run
}

// DiskSize is the size of the machine's disk, /dev/nvme0n1, which is empty. It is
// there to be read.
const DiskSize = 256 << 20

// Run starts the machine, waits until it has switched itself off, and returns
// what init wrote to /dev/ttyS1. The console is in the error, if there is one.
//
// Without KVM, which a container mostly does not have, the emulator is some ten
// times slower than the machine that it runs on.
func (m Machine) Run(ctx context.Context) (results string, err error) {
	initramfs := filepath.Join(m.Directory, "initramfs")
	if err := writeInitramfs(initramfs, m.Programs); err != nil {
		return "", fmt.Errorf("writing %s: %w", initramfs, err)
	}
	disk := filepath.Join(m.Directory, "disk")
	if err := os.WriteFile(disk, nil, 0o644); err != nil {
		return "", err
	}
	if err := os.Truncate(disk, DiskSize); err != nil {
		return "", err
	}
	output := filepath.Join(m.Directory, "results")

	command := exec.CommandContext(ctx, emulator,
		"-accel", "tcg,thread=multi", "-smp", "2", "-m", "2048",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", m.Kernel, "-initrd", initramfs,
		"-drive", "if=none,id=disk,format=raw,file="+disk, "-device", "nvme,serial=1,drive=disk",
		"-serial", "stdio", "-serial", "file:"+output,
		"-append", "console=ttyS0 quiet panic=-1 rdinit=/init mitigations=off -- "+strings.Join(m.Arguments, " "),
	)
	var console bytes.Buffer
	command.Stdout, command.Stderr = &console, &console
	runErr := command.Run()
	text, err := os.ReadFile(output)
	if err := errors.Join(runErr, ctx.Err(), err); err != nil {
		return string(text), fmt.Errorf("%s: %w\n%s", emulator, err, tail(console.String()))
	}
	return string(text), nil
}

// tail returns the end of what a machine said.
func tail(text string) string { return text[max(0, len(text)-4000):] }
