package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// cgroupRoot is where systems mount the hierarchies.
const cgroupRoot = "/sys/fs/cgroup"

// quotaPeriod is the kernel's default, in microseconds.
const quotaPeriod = 100_000

// enterQuota moves this process into a new cgroup that may use so many CPUs, and
// returns the function that moves it back.
func enterQuota(cpus float64) (leave func() error, err error) {
	quota := strconv.Itoa(int(cpus * quotaPeriod))
	return enterGroup("cpu",
		limitFile{"cpu.cfs_quota_us", quota},
		limitFile{"cpu.max", quota + " " + strconv.Itoa(quotaPeriod)})
}

// fillCgroup uses memory of which Go's runtime knows nothing, in a cgroup with a
// limit. What the process had before is not charged to the new group.
func fillCgroup(ctx context.Context, _ *server) error {
	limit := strconv.Itoa(memoryLimit)
	leave, err := enterGroup("memory", limitFile{"memory.limit_in_bytes", limit}, limitFile{"memory.max", limit})
	if err != nil {
		return err
	}
	pages, err := syscall.Mmap(-1, 0, nearlyFull, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return errors.Join(err, leave())
	}
	for i := 0; i < len(pages); i += os.Getpagesize() {
		pages[i] = 1
	}
	<-ctx.Done()
	return errors.Join(syscall.Munmap(pages), leave())
}

// limitFile is a file of a group, with what to write.
type limitFile struct{ name, value string }

// enterGroup makes a cgroup with a limit below that of this process and moves it
// there. On v2 a group that has processes cannot limit those below it, so there
// the new one may stand beside the old one instead.
func enterGroup(controller string, v1, v2 limitFile) (leave func() error, err error) {
	own, unified, err := ownGroup(controller)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotPossible, err)
	}
	parents, limit := []string{own}, v1
	if unified {
		parents, limit = []string{own, filepath.Dir(own)}, v2
	}
	var failed []error
	for _, parent := range parents {
		group := filepath.Join(parent, fmt.Sprintf("slowdown-%d", os.Getpid()))
		if err := enter(group, limit); err != nil {
			failed = append(failed, err)
			continue
		}
		return func() error {
			return errors.Join(write(filepath.Join(own, "cgroup.procs"), strconv.Itoa(os.Getpid())), os.Remove(group))
		}, nil
	}
	return nil, fmt.Errorf("%w: %w", errNotPossible, errors.Join(failed...))
}

// enter makes one group and moves this process there, or leaves no group behind.
func enter(group string, limit limitFile) (err error) {
	if err := os.Mkdir(group, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(group)
		}
	}()
	if err := write(filepath.Join(group, limit.name), limit.value); err != nil {
		return err
	}
	return write(filepath.Join(group, "cgroup.procs"), strconv.Itoa(os.Getpid()))
}

// write writes to a file that exists: those of a cgroup are the kernel's.
func write(name, value string) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// ownGroup returns the directory of this process's group that a controller
// knows.
func ownGroup(controller string) (directory string, unified bool, err error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", false, err
	}
	for line := range strings.Lines(string(text)) {
		// hierarchy:controllers:path, where v2 is 0 and has no controllers
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for name := range strings.SplitSeq(fields[1], ",") {
			if name == controller {
				return filepath.Join(cgroupRoot, controller, fields[2]), false, nil
			}
		}
		if fields[0] == "0" {
			directory, unified = filepath.Join(cgroupRoot, fields[2]), true
		}
	}
	if !unified {
		return "", false, fmt.Errorf("no cgroup with the %s controller", controller)
	}
	return directory, true, nil
}
