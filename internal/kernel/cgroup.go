package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Cgroup is the control group of a process in the hierarchy that has one
// controller.
type Cgroup struct {
	// Unified says that the hierarchy is cgroup v2. In a hybrid tree some
	// controllers are in it and others each in a v1 hierarchy.
	Unified bool

	// Directories are the process's own group and then its ancestors, as paths
	// in an [fs.FS] rooted at "/". A container mostly sees no further than its
	// own group: the last one need not be the root of the hierarchy.
	Directories []string
}

// CgroupFinder looks up the groups of this process, which can be moved to others
// while it runs. It reads the mounts, which takes most of the time, only when the
// groups have changed or the one that it found is gone; where the group was not
// to be found, when the groups or the mounts have changed. The zero value is
// ready. It is not safe for concurrent use.
type CgroupFinder struct {
	// Mounts tells whether the mounts have changed. Where it is nil a group that
	// is not to be found is looked for each time, among all the mounts.
	Mounts MountWatcher

	cgroup string            // the text of /proc/self/cgroup
	found  map[string]Cgroup // by controller, according to that text
	hidden map[string]error  // likewise: why a group is not to be found, while the mounts stay
}

// MountWatcher is what [MountWatch] does.
type MountWatcher interface {
	Changed() bool // true the first time, and where it cannot tell
	Forget()       // until it is asked again
}

// ErrNoHierarchy is the reason, in an error of [CgroupFinder.Find], that no
// hierarchy has the controller, mounted or not: nothing is limited by it. It goes
// with [errors.ErrUnsupported].
var ErrNoHierarchy = errors.New("no hierarchy")

// Find looks up the group for a controller, "cpu" or "memory", with
// /proc/self/cgroup and /proc/self/mountinfo in fsys.
//
// An error that wraps [errors.ErrUnsupported] means that the group is not
// visible from here: no hierarchy has the controller ([ErrNoHierarchy]), or it is
// not mounted, or what is mounted is another part of the tree.
func (f *CgroupFinder) Find(fsys fs.FS, controller string) (Cgroup, error) {
	cgroup, err := fs.ReadFile(fsys, "proc/self/cgroup")
	if err != nil {
		return Cgroup{}, err
	}
	if f.found == nil || string(cgroup) != f.cgroup {
		f.cgroup, f.found, f.hidden = string(cgroup), make(map[string]Cgroup), make(map[string]error)
	}
	if known, found := f.found[controller]; found && known.exists(fsys) {
		return known, nil
	}
	// It is asked before the mounts are read, so that what changes meanwhile
	// counts the next time. A mount can change what is known of any controller.
	if f.Mounts == nil || f.Mounts.Changed() {
		clear(f.hidden)
	}
	if err := f.hidden[controller]; err != nil {
		return Cgroup{}, err
	}
	found, err := f.search(fsys, cgroup, controller)
	if err != nil {
		delete(f.found, controller)
		if errors.Is(err, errors.ErrUnsupported) {
			f.hidden[controller] = err
		}
		return Cgroup{}, err
	}
	f.found[controller] = found
	if f.Mounts != nil && len(f.hidden) == 0 {
		f.Mounts.Forget() // a group that is there can be looked at itself
	}
	return found, nil
}

// search looks for the group among the mounts.
func (f *CgroupFinder) search(fsys fs.FS, cgroup []byte, controller string) (Cgroup, error) {
	mountinfo, err := fs.ReadFile(fsys, "proc/self/mountinfo")
	if err != nil {
		return Cgroup{}, err
	}
	candidates, err := ParseCgroup(cgroup, mountinfo, controller)
	if err != nil {
		return Cgroup{}, err
	}
	for _, candidate := range candidates {
		if candidate.exists(fsys) {
			return candidate, nil
		}
	}
	return Cgroup{}, fmt.Errorf("%s: no such directory: %w", candidates[0].Directories[0], errors.ErrUnsupported)
}

// exists reports whether the group can be seen: its mount may be hidden below
// another one that was put on top later.
func (c Cgroup) exists(fsys fs.FS) bool {
	info, err := fs.Stat(fsys, c.Directories[0])
	return err == nil && info.IsDir()
}

// ParseCgroup finds where a process's group for a controller may be, from the
// text of its /proc/PID/cgroup and /proc/PID/mountinfo, the best place first. It
// returns at least one, or an error.
//
// Both texts speak of paths in the hierarchy: the first of the group, the second
// of the directory of the hierarchy that a mount shows (its root). Outside
// containers the root is "/". In a container without a cgroup namespace both are
// the host's paths, and the group is found below the root by cutting that off.
// In a cgroup namespace both are relative to the namespace's own group; for what
// lies outside it they begin with "/..". Where the group is not below the root
// that is mounted, the files that can be seen belong to others, and nothing is
// guessed from them.
//
// So it is in a cgroup namespace with the mount from before it: the group's files
// are there, but the kernel says "/.." for each step from the mount's root down to
// the group and not its name. The group could be found by looking for the process
// in the cgroup.procs of every group of the machine, and a window has no time for
// thousands of files.
func ParseCgroup(cgroup, mountinfo []byte, controller string) ([]Cgroup, error) {
	group, unified, err := groupPath(cgroup, controller)
	if err != nil {
		return nil, err
	}
	mounts, err := cgroupMounts(mountinfo, controller, unified)
	if err != nil {
		return nil, err
	}

	var candidates []Cgroup
	for _, mount := range mounts {
		below, visible := pathBelow(mount.root, group)
		if !visible {
			continue
		}
		candidates = append(candidates, Cgroup{Unified: unified, Directories: directories(mount.point, below)})
	}
	if len(candidates) == 0 {
		why := ""
		if slices.ContainsFunc(mounts, func(m cgroupMount) bool { return leadsUp(m.root) }) {
			why = ", from outside of the cgroup namespace"
		}
		return nil, fmt.Errorf("controller %s: group %.128q is below none of %d mounts%s: %w",
			controller, group, len(mounts), why, errors.ErrUnsupported)
	}
	// The mount that shows most ancestors; of equals the last mounted, which
	// covers an earlier one at the same place.
	slices.Reverse(candidates)
	slices.SortStableFunc(candidates, func(a, b Cgroup) int {
		return len(b.Directories) - len(a.Directories)
	})
	return candidates, nil
}

// groupPath returns the path of a controller's group from lines such as
//
//	4:cpu,cpuacct:/docker/0123   a v1 hierarchy, with its controllers
//	1:name=systemd:/init.scope   a v1 hierarchy without controllers
//	0::/system.slice/api.service the v2 hierarchy, with the remaining ones
func groupPath(cgroup []byte, controller string) (group string, unified bool, err error) {
	unifiedGroup := ""
	for line := range bytes.Lines(cgroup) {
		line, complete := strings.CutSuffix(string(line), "\n")
		fields := strings.SplitN(line, ":", 3) // a path may have colons
		if !complete || len(fields) < 3 || !strings.HasPrefix(fields[2], "/") {
			return "", false, fmt.Errorf("no group in %.128q", line)
		}
		switch {
		case slices.Contains(strings.Split(fields[1], ","), controller):
			return fields[2], false, nil
		case fields[0] == "0" && fields[1] == "":
			unifiedGroup = fields[2]
		}
	}
	if unifiedGroup == "" {
		return "", false, fmt.Errorf("controller %s: %w: %w", controller, ErrNoHierarchy, errors.ErrUnsupported)
	}
	return unifiedGroup, true, nil
}

// cgroupMount is one mount of a hierarchy.
type cgroupMount struct {
	root  string // the directory of the hierarchy that it shows
	point string // where it shows it
}

// cgroupMounts returns the mounts of the v2 hierarchy, or of the v1 hierarchy
// with the controller, from lines such as (proc_pid_mountinfo(5))
//
//	31 23 0:27 /docker/0123 /sys/fs/cgroup/cpu ro,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
//	id parent device root point options [optional fields] - type source options
func cgroupMounts(mountinfo []byte, controller string, unified bool) ([]cgroupMount, error) {
	var mounts []cgroupMount
	for line := range bytes.Lines(mountinfo) {
		mount, filesystem, found := bytes.Cut(line, []byte(" - "))
		if !found {
			return nil, fmt.Errorf("no mount in %.128q", line)
		}
		// There can be thousands of mounts, and two or three of them are these.
		if !bytes.HasPrefix(filesystem, []byte("cgroup")) && len(filesystem) > 1 {
			continue
		}
		// A space alone separates: the kernel escapes those in a path, and no
		// other kind of white space.
		left, right := strings.Split(string(mount), " "), strings.Split(strings.TrimSuffix(string(filesystem), "\n"), " ")
		if len(left) < 6 || right[0] == "" {
			return nil, fmt.Errorf("no mount in %.128q", line)
		}
		switch right[0] {
		case "cgroup":
			options := strings.Split(right[len(right)-1], ",")
			if unified || !slices.Contains(options, controller) {
				continue
			}
		case "cgroup2":
			if !unified {
				continue
			}
		default:
			continue
		}
		mounts = append(mounts, cgroupMount{root: unescape(left[3]), point: unescape(left[4])})
	}
	return mounts, nil
}

// unescape undoes how the kernel writes a space, tab, line feed and backslash in
// a path of mountinfo: a backslash and three octal digits.
func unescape(escaped string) string {
	before, rest, found := strings.Cut(escaped, `\`)
	if !found {
		return escaped
	}
	var text strings.Builder
	for found {
		text.WriteString(before)
		if char, err := strconv.ParseUint(rest[:min(3, len(rest))], 8, 8); err == nil && len(rest) >= 3 {
			text.WriteByte(byte(char))
			rest = rest[3:]
		} else {
			text.WriteByte('\\')
		}
		before, rest, found = strings.Cut(rest, `\`)
	}
	text.WriteString(before)
	return text.String()
}

// pathBelow returns group as seen from root, "" for root itself. It is not
// visible there if it is elsewhere in the tree, or if the way to it leads up.
// Neither path is cleaned: "/.." is the parent of a cgroup namespace's own
// group, not the top.
func pathBelow(root, group string) (below string, visible bool) {
	below, visible = strings.CutPrefix(group, strings.TrimSuffix(root, "/"))
	if !visible || below != "" && below[0] != '/' {
		return "", false // another one whose name only begins alike
	}
	below = strings.Trim(below, "/")
	return below, !slices.Contains(strings.Split(below, "/"), "..")
}

// leadsUp reports whether a path is that of an ancestor of the cgroup namespace's
// own group, or of what is beside one.
func leadsUp(path string) bool { return path == "/.." || strings.HasPrefix(path, "/../") }

// directories returns the path of a group that is at below under a mount, and
// those of its ancestors up to the mount.
func directories(point, below string) []string {
	top := strings.TrimPrefix(path.Clean("/"+point), "/")
	if top == "" {
		top = "." // the root of an fs.FS
	}
	var found []string
	for directory := path.Join(top, below); directory != top; directory = path.Dir(directory) {
		found = append(found, directory)
	}
	return append(found, top)
}
