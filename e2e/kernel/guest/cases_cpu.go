package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// spell is how long a case makes a probe suffer: some fifteen periods of a quota.
const spell = 1500 * time.Millisecond

// forever is longer than any case: a probe ends with the case.
const forever = 2 * patience

// enough is how long a quota is to stop a probe: two of its periods. The cases wait
// for it, and then compare numbers.
const enough = 200 * time.Millisecond

// half is a quota of half a processor: with less, the probe takes long to start.
const half = "50000 100000"

// throttles has a probe in group use more than a quota allows, and compares what
// was read with what the kernel says of the group; quota is the group with it.
func throttles(c *check, group, quota string) {
	p := c.probe("group=" + group)
	w := p.witness(func() time.Duration { return c.throttled(group) + c.stoppedBy(quota, group) })
	c.stopsFor(p, quota, enough)
	after, grown := w.read()
	c.logf("throttled %v, unseen %q, idle %.2f", grown, after.Throttled.Unseen, after.Idle)
	c.that(after.GroupErr == "" && after.ThrottledErr == "", "read without an error: %q, %q", after.GroupErr, after.ThrottledErr)
	c.that(after.Throttled.Unseen == "", "the reading is whole: %s", after.Throttled.Unseen)
	c.that(grown > 0, "a quota of a half stopped two goroutines")
	c.that(after.CPULimit == 0.5, "the limit is %v", after.CPULimit)
	c.that("/"+after.Group[0] == group, "the group is %q", after.Group)
	c.between(after.Threads.Delay, after.ThreadsLow.Delay, after.ThreadsHigh.Delay, "run delay")
}

// stoppedBy is what to add to [check.throttled] of a group where the kernel does
// not count there what the quota of another one stops.
func (c *check) stoppedBy(quota, group string) time.Duration {
	if quota == group || c.countsAbove() {
		return 0
	}
	return c.throttled(quota)
}

func ownQuota(c *check) {
	group := c.group("own-quota")
	c.set(group, "cpu.max", half)
	throttles(c, group, group)
}

func parentsQuota(c *check) {
	group := c.group("parents-quota/own", "cpu")
	c.set(filepath.Dir(group), "cpu.max", half)
	throttles(c, group, filepath.Dir(group))
}

func grandparentsQuota(c *check) {
	group := c.group("grandparents-quota/parent/own", "cpu")
	quota := filepath.Dir(filepath.Dir(group))
	c.set(quota, "cpu.max", half)
	throttles(c, group, quota)
}

func siblingsQuota(c *check) {
	own, sibling := c.group("siblings-quota/own", "cpu"), c.group("siblings-quota/other", "cpu")
	c.set(sibling, "cpu.max", half)
	p, other := c.probe("group="+own), c.probe("group="+sibling)
	before := p.read()
	p.order(order{Do: "spin", Count: 1, For: forever})
	c.stopsFor(other, sibling, enough)
	after := p.read()
	c.that(after.Throttled.Time == before.Throttled.Time, "throttled is %v", after.Throttled.Time)
	c.that(after.Throttled.Unseen == "", "the reading is whole: %s", after.Throttled.Unseen)
	c.that(after.CPULimit == 0, "the limit is %v", after.CPULimit)
}

func quotaChanges(c *check) {
	group := c.group("quota-changes")
	p := c.probe("group=" + group)
	w := p.witness(func() time.Duration { return c.throttled(group) })
	grown := func(what string, least time.Duration) time.Duration {
		if least > 0 {
			c.stopsFor(p, group, least)
		} else {
			p.spin(2, spell)
		}
		end, grown := w.read()
		c.logf("%s: %v", what, grown)
		c.that(end.Throttled.Unseen == "", "whole with %s: %s", what, end.Throttled.Unseen)
		return grown
	}
	c.that(grown("no quota", 0) == 0, "no quota throttles")
	c.set(group, "cpu.max", half)
	c.that(grown("a half", enough) > 0, "a half throttles")
	c.set(group, "cpu.max", "80000 100000")
	c.that(grown("four fifths", enough/2) > 0, "four fifths throttle")
	c.set(group, "cpu.max", "max 100000")
	p.spin(2, spell) // what had begun under the quota ends
	w.read()
	c.that(grown("the quota lifted", 0) == 0, "a lifted quota does not throttle")
	c.that(w.last.CPULimit == 0, "the limit is %v", w.last.CPULimit)
}

func burst(c *check) {
	group := c.group("burst")
	c.set(group, "cpu.max", half)
	c.set(group, "cpu.max.burst", "20000")
	throttles(c, group, group)
	c.that(c.number(group, "cpu.stat", "nr_bursts") >= 0, "the kernel counts bursts")
}

func weight(c *check) {
	own, other := c.group("weight/own", "cpu"), c.group("weight/other", "cpu")
	c.set(other, "cpu.weight", "1000")
	c.set(own, "cpu.weight", "100") // with less, what the probe is asked for takes it a minute
	p, neighbour := c.probe("group="+own), c.probe("group="+other)
	before := p.read()
	after := p.waits(before, neighbour)
	c.logf("run delay %v, idle %.2f", after.Threads.Delay-before.Threads.Delay, after.Idle)
	c.that(after.Threads.Slices > before.Threads.Slices, "time slices are counted")
	c.between(after.Threads.Delay, after.ThreadsLow.Delay, after.ThreadsHigh.Delay, "run delay")
	c.that(after.Idle >= 0 && after.Idle < 0.2, "no processor is idle: %.2f", after.Idle)
	c.that(after.Throttled.Time == before.Throttled.Time && after.Throttled.Unseen == "", "no quota: %+v", after.Throttled)
}

// The quota is on the nearest group with the controller.
func controllerAbsent(c *check) {
	group := c.group("controller-absent/own")
	quota := filepath.Dir(group)
	c.that(c.number(group, "cpu.stat", "throttled_usec") == -1, "the own group has no controller")
	c.set(quota, "cpu.max", half)
	p := c.probe("group=" + group)
	w := p.witness(func() time.Duration { return c.throttled(quota) })
	c.stopsFor(p, quota, enough)
	after, grown := w.read()
	c.logf("throttled %v", grown)
	c.that(grown > 0, "throttled")
	c.that(after.Throttled.Unseen == "", "the reading is whole: %s", after.Throttled.Unseen)
	c.that(after.CPULimit == 0.5, "the limit is %v", after.CPULimit)
}

// One thread is in a group of its own with a quota; the process's group, which is
// all that is looked at, has none.
func threadedGroups(c *check) {
	process := c.group("threaded")
	thread := c.group("threaded/thread")
	c.set(thread, "cgroup.type", "threaded")
	c.set(process, "cgroup.subtree_control", "+cpu")
	c.set(thread, "cpu.max", half)
	p := c.probe("group=" + process)
	p.read()
	c.until(func() bool { return c.throttled(thread) > enough/2 }, "the thread stopped", func() {
		p.order(order{Do: "thread", Path: thread, For: spell, Wait: true})
	})
	after := p.read()
	c.logf("unseen %q", after.Throttled.Unseen)
	c.that(after.Throttled.Unseen != "", "the reading is not whole")
}

func cpuset(c *check) {
	group := c.group("cpuset")
	p := c.probe("group=" + group)
	affinity := func() int { return p.read().Affinity }
	c.that(affinity() == 2, "two processors to begin with")
	c.set(group, "cpuset.cpus", "1")
	c.that(affinity() == 1, "one processor when narrowed")
	p.spin(2, spell)
	narrow := p.read()
	c.logf("idle share of the one: %.2f", narrow.Idle)
	c.that(narrow.Idle >= 0 && narrow.Idle < 0.2, "the one processor is busy: %.2f", narrow.Idle)
	c.set(group, "cpuset.cpus", "0-1")
	c.that(affinity() == 2, "two processors when widened")
}

// The test of the package itself, on this kernel.
func throttlingTest(c *check) {
	// The group of the test is beside the one where it runs.
	group := c.group("throttling-test/own", "cpu")
	command := exec.Command("/kernel.test", "-test.v", "-test.run=^(TestThrottlingByThisKernel|TestCgroupOfThisProcess|TestH67MountWatch)$")
	command.Dir = "/tmp"
	directory, err := os.Open(group)
	c.must(err)
	defer directory.Close()
	command.SysProcAttr = inGroup(int(directory.Fd()))
	output, err := command.CombinedOutput()
	c.that(err == nil, "passed: %v", err)
	for _, name := range []string{"TestThrottlingByThisKernel", "TestCgroupOfThisProcess", "TestH67MountWatch"} {
		c.that(strings.Contains(string(output), "--- PASS: "+name+" "), "%s passed", name)
	}
	if c.failed {
		c.logf("%s", output)
	}
}

// waits has a probe want two processors beside a neighbour that takes them, until
// its threads have waited long enough since a reading, and returns the reading then.
// The neighbour does not go on: beside it, four thousand threads are read for a minute.
func (p *subject) waits(before reading, neighbour *subject) (after reading) {
	p.c.until(func() bool { return after.ThreadsLow.Delay-before.ThreadsHigh.Delay > spell/2 }, "a run delay", func() {
		neighbour.order(order{Do: "spin", Count: 2, For: 2 * spell})
		p.spin(2, 2*spell)
		neighbour.order(order{Do: "rest"})
		after = p.read()
	})
	return after
}

// Many threads that wait, two that run, and neighbours.
func manyThreads(c *check, threads int) {
	own, other := c.group("threads/own", "cpu"), c.group("threads/other", "cpu")
	p, neighbour := c.probe("group="+own), c.probe("group="+other)
	p.order(order{Do: "threads", Count: threads, Wait: true})
	p.order(order{Do: "come round", Count: 3, Wait: true}) // where there are more threads than one reading takes
	before := p.read()
	after := p.waits(before, neighbour)
	delay := after.Threads.Delay - before.Threads.Delay
	low, high := after.ThreadsLow.Delay-before.ThreadsHigh.Delay, after.ThreadsHigh.Delay-before.ThreadsLow.Delay
	c.logf("run delay %v of %v to %v, whole %t", delay, low, high, after.Threads.Whole)
	if after.Threads.Whole {
		c.between(delay, low, high, "run delay")
	} else {
		c.that(threads > 3_000, "all of %d threads are read", threads)
	}
}

func children(c *check) {
	p := c.probe("group=" + c.group("children"))
	if p.read().Children < 0 {
		c.skip("this kernel does not list children")
	}
	p.order(order{Do: "children", Count: 5, Wait: true})
	c.that(p.read().Children == 5, "five children live: %d", p.read().Children)
}

// A v1 hierarchy for the cpu controller beside v2, which loses it.
func hybrid(c *check) {
	c.set(root, "cgroup.subtree_control", "-cpu")
	const v1 = "/tmp/cpu"
	c.must(os.MkdirAll(v1, 0o755))
	var err error
	for range 400 { // groups that are gone give their controllers back a little later
		if err = unix.Mount("none", v1, "cgroup", 0, "cpu"); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		c.skip("no v1 hierarchy with the cpu controller: " + err.Error())
	}
	group := v1 + "/own"
	c.must(os.Mkdir(group, 0o755))
	c.set(group, "cpu.cfs_quota_us", "50000")
	p := c.probe("group="+c.group("hybrid"), "group="+group)
	w := p.witness(func() time.Duration {
		if local := c.number(group, "cpu.stat.local", "throttled_time"); local >= 0 {
			return time.Duration(local)
		}
		return time.Duration(c.number(group, "cpu.stat", "throttled_time"))
	})
	var after reading
	var grown time.Duration
	c.until(func() bool { return grown > 0 }, "throttled", func() {
		p.spin(2, spell)
		after, grown = w.read()
	})
	c.logf("throttled %v", grown)
	c.that(after.Throttled.Unseen == "", "the reading is whole: %s", after.Throttled.Unseen)
	c.that(after.CPULimit == 0.5, "the limit is %v", after.CPULimit)
	c.that(after.MemoryErr == "", "memory is v2's: %s", after.MemoryErr)

	hidden := c.probe("group="+group, "namespace=mount", "unmount="+v1)
	hidden.spin(2, spell)
	unseen := hidden.read()
	c.logf("unseen %q", unseen.Throttled.Unseen)
	c.that(unseen.Throttled.Unseen != "", "the reading is not whole where the hierarchy is not mounted")
}
