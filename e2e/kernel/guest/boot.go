package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gym-observer/observer/e2e/kernel/internal/machine"
)

// patience is for one case, on an emulator that shares its processors.
const patience = 90 * time.Second

// boot is the machine's init. It writes a line for each case to the second serial
// port, so that what the kernel has to say stays on the first, and switches the
// machine off.
func boot(args []string) {
	defer func() {
		unix.Sync()
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) // if it returns, the kernel panics and the emulator ends
	}()
	for _, mount := range []struct{ kind, at string }{
		{"devtmpfs", "/dev"}, {"proc", "/proc"}, {"sysfs", "/sys"}, {"tmpfs", "/tmp"}, {"cgroup2", root},
	} {
		if err := unix.Mount("none", mount.at, mount.kind, 0, ""); err != nil {
			fmt.Printf("mounting %s: %v\n", mount.at, err)
			return
		}
	}
	results, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer results.Close()
	fmt.Fprintf(results, "kernel %s\n", release())
	if err := os.WriteFile(root+"/cgroup.subtree_control", []byte("+cpu +memory +cpuset"), 0); err != nil {
		fmt.Println(err)
	}
	var only []string
	for _, arg := range args {
		if names, found := strings.CutPrefix(arg, "-only="); found {
			only = strings.Split(names, ",")
		}
	}
	for _, c := range chosen(slices.Contains(args, "-whole")) {
		if len(only) > 0 && !slices.Contains(only, c.name) {
			continue
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		command := exec.CommandContext(ctx, "/init", "case", c.name)
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		command.Cancel = func() error { return unix.Kill(-command.Process.Pid, unix.SIGKILL) }
		command.WaitDelay = time.Second
		output, err := command.CombinedOutput()
		cancel()
		sweep()
		outcome := "passed"
		if err != nil {
			outcome = "failed"
			output = fmt.Appendf(output, "%v", err)
		} else if reason, skipped := strings.CutPrefix(string(output), skipMark); skipped {
			outcome, output = "skipped", []byte(reason)
		}
		fmt.Fprintf(results, "%s %s %.1f %q\n", outcome, c.name, time.Since(began).Seconds(), strings.TrimSpace(string(output)))
	}
	fmt.Fprintln(results, machine.Done)
}

// sweep waits for what a case has left behind, processes that are init's to wait
// for, and removes its groups, the lowest first. Where a process has not ended yet
// it tries again.
func sweep() {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
		var groups []string
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error { // what vanishes meanwhile is gone
			if err == nil && entry.IsDir() && path != root {
				groups = append(groups, path)
			}
			return nil
		})
		if len(groups) == 0 {
			return
		}
		for _, group := range slices.Backward(groups) {
			_ = unix.Rmdir(group) // the next round sees what is left
		}
	}
}

func release() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Release[:])
}
