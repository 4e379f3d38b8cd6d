package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// inGroup starts a process in the group that a descriptor is open for.
func inGroup(directory int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: directory}
}

// In a cgroup namespace with the mount from before, paths in the mount and of the
// group do not fit each other.
func namespaceOldMount(c *check) {
	group := c.group("old-mount/own", "cpu")
	c.set(filepath.Dir(group), "cpu.max", half)
	p := c.probe("group="+group, "namespace=mount", "namespace=cgroup")
	p.read()
	c.stopsFor(p, filepath.Dir(group), enough)
	after := p.read()
	c.logf("group %q, throttled %v, unseen %q", after.Group, after.Throttled.Time, after.Throttled.Unseen)
	c.that(after.ThrottledErr == "", "read without an error: %s", after.ThrottledErr)
	c.that(strings.Contains(after.Throttled.Unseen, "from outside of the cgroup namespace"), "the reading says why it is not whole: %q", after.Throttled.Unseen)
	c.that(after.Throttled.Time == 0 && after.CPULimit == 0, "nothing is guessed: %v, %v", after.Throttled.Time, after.CPULimit)
}

// The quota is inside of the namespace.
func namespaceFreshMount(c *check) {
	group := c.group("fresh-mount/own", "cpu")
	c.set(group, "cpu.max", half)
	p := c.probe("group="+group, "namespace=mount", "namespace=cgroup", "mount")
	w := p.witness(func() time.Duration { return c.throttled(group) })
	c.stopsFor(p, group, enough)
	after, _ := w.read()
	c.logf("group %q, throttled %v, unseen %q", after.Group, after.Throttled.Time, after.Throttled.Unseen)
	c.that(after.Throttled.Time > 0, "throttled")
	c.that(after.CPULimit == 0.5, "the limit is %v", after.CPULimit)
	c.that((after.Throttled.Unseen == "") == c.countsAbove(), "whole only where the kernel counts what is above: %q", after.Throttled.Unseen)
}

// The quota is outside of it.
func namespaceHiddenQuota(c *check) {
	group := c.group("hidden-quota/own", "cpu")
	quota := filepath.Dir(group)
	c.set(quota, "cpu.max", half)
	p := c.probe("group="+group, "namespace=mount", "namespace=cgroup", "mount")
	before := p.read()
	c.stopsFor(p, quota, enough)
	after := p.read()
	delay := after.Threads.Delay - before.Threads.Delay
	c.logf("throttled %v, run delay %v, idle %.2f, unseen %q", after.Throttled.Time, delay, after.Idle, after.Throttled.Unseen)
	// With a quota of a half of two processors, three quarters: what the emulator
	// and the reading itself take is in it.
	c.that(after.Idle > 0.2, "processors are idle beside it: %.2f", after.Idle)
	if c.countsAbove() {
		c.that(after.Throttled.Unseen == "", "the reading is whole: %s", after.Throttled.Unseen)
		c.that(after.Throttled.Time > 0, "what is above is counted")
	} else {
		c.that(after.Throttled.Unseen != "", "the reading is not whole")
	}
}

func oddNames(c *check) {
	for _, name := range []string{
		"two words", "a:b:c", `back\slash`, `\040`, "gone (deleted)", "tab\tand\vmore", "\xff\xfe latin \xe9", "\u00a0\u2028",
	} {
		group := c.group("odd/"+name+"/own", "cpu")
		c.set(filepath.Dir(group), "cpu.max", half)
		p := c.probe("group=" + group)
		r := p.read()
		p.end()
		// Bytes that are not UTF-8 do not survive JSON.
		c.that(r.GroupErr == "" && len(r.Group) == 4 && "/"+r.Group[0] == strings.ToValidUTF8(group, "\ufffd") || strings.Contains(name, "\xff") && r.GroupErr == "",
			"%q is found: %q %s", name, r.Group, r.GroupErr)
		c.that(r.CPULimit == 0.5, "%q has its quota: %v", name, r.CPULimit)
		c.that(r.Throttled.Unseen == "", "%q is whole: %s", name, r.Throttled.Unseen)

		// Once more, where the name is part of what is mounted, as text and as bytes.
		if !strings.ContainsAny(name, "\\\xff") {
			continue
		}
		p = c.probe("group="+group, "namespace=mount", "bind="+filepath.Dir(group))
		r = p.read()
		p.end()
		c.that(r.GroupErr == "" && len(r.Group) == 2, "%q is found below what is mounted of it: %q %s", name, r.Group, r.GroupErr)
		c.that(r.CPULimit == 0.5, "%q has its quota where it is mounted: %v", name, r.CPULimit)
	}
}

func processMoved(c *check) {
	first, second := c.group("moved/first", "cpu"), c.group("moved/second", "cpu")
	p := c.probe("group=" + first)
	c.that(p.read().Throttled.Unseen == "", "whole to begin with")
	p.move(second)
	moved := p.read()
	c.logf("unseen %q", moved.Throttled.Unseen)
	c.that("/"+moved.Group[0] == second, "the new group is found: %q", moved.Group)
	c.that(strings.Contains(moved.Throttled.Unseen, "moved"), "the window of the move is not whole: %q", moved.Throttled.Unseen)
	c.that(p.read().Throttled.Unseen == "", "the next one is")
	c.must(os.Remove(first))
	c.that(p.read().Throttled.Unseen == "", "a group that it is not in any more does not matter")
}

func groupMadeAgain(c *check) {
	group, other := c.group("again/own", "cpu"), c.group("again/other", "cpu")
	c.set(group, "cpu.max", half)
	p := c.probe("group=" + group)
	p.read()
	c.stopsFor(p, group, enough)
	before := p.read()
	c.that(before.Throttled.Time > 0, "throttled")
	p.move(other)
	c.must(os.Remove(group))
	c.must(os.Mkdir(group, 0o755))
	p.move(group)
	after := p.read()
	c.logf("unseen %q", after.Throttled.Unseen)
	c.that(after.Throttled.Unseen != "", "the window is not whole")
	c.that(after.Throttled.Time == before.Throttled.Time, "the total stays")
	p.spin(2, spell/3)
	again := p.read()
	c.that(again.Throttled.Unseen == "" && again.Throttled.Time == after.Throttled.Time, "a new group without a quota: %+v", again.Throttled)
}

// A process sees itself whatever it sees of others.
func hidepid(c *check) {
	group := c.group("hidepid")
	p := c.probe("group="+group, "namespace=mount", "proc=hidepid=2", "user")
	r := p.read()
	c.that(r.ThreadsErr == "" && r.Threads.Run > 0, "threads are read: %s", r.ThreadsErr)
	c.that(r.GroupErr == "" && "/"+r.Group[0] == group, "the group is found: %q %s", r.Group, r.GroupErr)
	c.that(r.Children >= 0, "children are counted")
	p.spin(1, spell/3)
	c.that(p.read().Idle >= 0, "idle processors are known")
}

// Without what is not about processes.
func subsetPID(c *check) {
	group := c.group("subset-pid")
	p := c.probe("group="+group, "namespace=mount", "proc=subset=pid")
	p.read()
	p.spin(1, spell/3)
	r := p.read()
	c.that(r.ThreadsErr == "" && r.Threads.Run > 0, "threads are read: %s", r.ThreadsErr)
	c.that(r.GroupErr == "" && "/"+r.Group[0] == group, "the group is found: %q %s", r.Group, r.GroupErr)
	c.that(r.Idle == -1, "idle processors are not known: %v", r.Idle)
}

func noProc(c *check) {
	p := c.probe("group="+c.group("no-proc"), "namespace=mount", "unmount=/proc")
	p.read()
	r := p.read()
	c.logf("%s", r.ThreadsErr)
	for _, err := range []string{r.GroupErr, r.ThrottledErr, r.MemoryErr, r.ThreadsErr} {
		c.that(strings.Contains(err, "no such file"), "each reading says what is missing: %q", err)
	}
	c.that(r.Affinity == 2, "the affinity needs no file")
}
