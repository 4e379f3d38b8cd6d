package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// enter goes where the arguments say, one after the other, and becomes the probe
// there. Namespaces and masks belong to a thread, and a new program starts with
// those of the thread that started it.
func enter(steps []string) {
	runtime.LockOSThread()
	for _, step := range steps {
		name, value, _ := strings.Cut(step, "=")
		if err := enterOne(name, value); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", step, err)
			os.Exit(1)
		}
	}
	err := syscall.Exec("/init", []string{"/init", "probe"}, os.Environ())
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func enterOne(name, value string) error {
	switch name {
	case "group": // the process moves into a group
		return os.WriteFile(filepath.Join(value, "cgroup.procs"), []byte("0"), 0)
	case "namespace": // "cgroup": the own group is the root of what is named; "mount": mounts are its own
		if value == "cgroup" {
			return unix.Unshare(unix.CLONE_NEWCGROUP)
		}
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		return unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	case "mount": // the v2 hierarchy, as the namespace has it, over the old one
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			return err
		}
		return unix.Mount("none", root, "cgroup2", 0, "")
	case "bind": // a part of the hierarchy over the whole
		return unix.Mount(value, root, "", unix.MS_BIND, "")
	case "proc": // with options
		if err := unix.Unmount("/proc", unix.MNT_DETACH); err != nil {
			return err
		}
		return unix.Mount("none", "/proc", "proc", 0, value)
	case "unmount":
		return unix.Unmount(value, unix.MNT_DETACH)
	case "user": // another user than root
		return unix.Setuid(1000)
	}
	return fmt.Errorf("no such step")
}
