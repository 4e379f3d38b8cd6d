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
	"sync/atomic"
	"time"
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

	// Silence is how long the machine may say nothing, neither on its console nor
	// in its results, before it counts as one that hangs.
	Silence time.Duration
}

// DiskSize is the size of the machine's disk, /dev/nvme0n1, which is empty. It is
// there to be read.
const DiskSize = 256 << 20

// Run starts the machine, waits until it has switched itself off, and returns
// what init wrote to /dev/ttyS1. An error has the end of the console, where a
// machine that hangs shows how far it came.
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

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	command := exec.CommandContext(ctx, emulator,
		"-accel", "tcg,thread=multi", "-smp", "2", "-m", "2048",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", m.Kernel, "-initrd", initramfs,
		"-drive", "if=none,id=disk,format=raw,file="+disk, "-device", "nvme,serial=1,drive=disk",
		"-serial", "stdio", "-serial", "file:"+output,
		"-append", bootOptions+" -- "+strings.Join(m.Arguments, " "),
	)
	command.WaitDelay = time.Second
	console := &heard{}
	command.Stdout, command.Stderr = console, console
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		m.watch(ctx, cancel, console, output)
	}()
	runErr := command.Run()
	why := context.Cause(ctx) // before the watch is told to end
	cancel(nil)
	<-watched
	text, err := os.ReadFile(output)
	err = errors.Join(why, runErr, err)
	if err == nil && !strings.HasSuffix(strings.ReplaceAll(string(text), "\r", ""), "\n"+Done+"\n") {
		err = ErrCutShort
		if strings.Contains(console.text.String(), "Attempted to kill init") {
			err = errors.New("init has ended")
		}
	}
	if err != nil {
		return string(text), fmt.Errorf("%s: %w\nThe console ended with:\n%s", emulator, err, tail(console.text.String()))
	}
	return string(text), nil
}

// Done is the last line of init's results.
const Done = "done"

// ErrCutShort says that the machine was switched off, as by a panic of its kernel,
// while init had not ended. It is the kernel's or the emulator's doing. It was seen
// once, in the middle of cases that had passed before and passed again a minute later.
var ErrCutShort = errors.New("the machine was switched off before init was done")

// bootOptions have the kernel say where it is from the first moment on, for one
// that hangs before it has a console.
//
// With no_timer_check it does not try out whether the old timer ticks. It would
// give it some hundredths of a second, which can go by before an emulator that
// shares its processors comes round, and then panic.
const bootOptions = "console=ttyS0 earlyprintk=ttyS0 no_timer_check panic=-1 rdinit=/init mitigations=off"

// watch ends a machine that hangs.
func (m Machine) watch(ctx context.Context, end context.CancelCauseFunc, console *heard, output string) {
	const look = 500 * time.Millisecond
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	// Looks are counted, and not what the clock says: while this process stands
	// still, so does the machine.
	var before int64
	for silent := time.Duration(0); silent < m.Silence; silent += look {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		said := console.bytes.Load()
		if results, err := os.Stat(output); err == nil {
			said += results.Size()
		}
		if said != before {
			before, silent = said, 0
		}
	}
	end(fmt.Errorf("the machine hangs: it has said nothing for %v", m.Silence))
}

// heard is what a machine says on its console.
type heard struct {
	text  bytes.Buffer
	bytes atomic.Int64 // the length of text, for the watch
}

func (h *heard) Write(text []byte) (int, error) {
	h.bytes.Add(int64(len(text)))
	return h.text.Write(text)
}

// tail returns the last lines of what a machine said.
func tail(text string) string {
	const lines = 40
	all := strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "\r", "")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
