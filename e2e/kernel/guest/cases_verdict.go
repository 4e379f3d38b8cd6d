package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gym-observer/observer"
)

// diagnoses waits for a verdict, of a process that goes on with what it does.
func diagnoses(c *check, p *subject, want string) answer {
	p.order(order{Do: "observe", Wait: true})
	var last answer
	defer func() { c.logf("%s", last.Summary) }() // also of a verdict that never came
	c.until(func() bool { return last.Verdict == want }, "the verdict "+want, func() {
		pause()
		last = p.order(order{Do: "diagnose"})
	})
	return last
}

// never looks at four windows, one more than a verdict needs, for one that is not
// to come, and returns the last.
func never(c *check, p *subject, wrong string) (last answer) {
	p.order(order{Do: "observe", Wait: true})
	windows := 0
	c.until(func() bool { return windows == 4 || last.Verdict == wrong }, "four windows", func() {
		pause()
		if a := p.order(order{Do: "diagnose"}); !a.At.Equal(last.At) {
			last = a
			windows++
		}
	})
	c.that(last.Verdict != wrong, "the verdict is %s: %s", last.Verdict, last.Summary)
	c.logf("%s", last.Summary)
	return last
}

func verdictOwnQuota(c *check) {
	group := c.group("verdict-own-quota")
	c.set(group, "cpu.max", "50000 100000")
	p := c.probe("group=" + group)
	p.order(order{Do: "spin", Count: 2, For: forever})
	diagnoses(c, p, "cpu_throttled")
}

// What is not to be seen is not measured: neither the quota nor others.
func verdictHiddenQuota(c *check) {
	group := c.group("verdict-hidden-quota/own", "cpu")
	c.set(filepath.Dir(group), "cpu.max", "50000 100000")
	p := c.probe("group="+group, "namespace=mount", "namespace=cgroup", "mount")
	p.order(order{Do: "spin", Count: 2, For: forever})
	if c.countsAbove() {
		diagnoses(c, p, "cpu_throttled")
		return
	}
	last := never(c, p, "cpu_contended") // nobody else has the processors
	for _, cause := range []string{"cpu_throttled", "cpu_contended"} {
		c.that(slices.Contains(last.Unmeasured, observer.Cause(cause)), "%s is unmeasured: %v", cause, last.Unmeasured)
	}
}

func verdictMemoryHigh(c *check) {
	last := diagnoses(c, past(c, c.group("verdict-memory-high")), "memory")
	c.that(strings.Contains(last.Summary, "memory.high"), "the sentence names memory.high: %s", last.Summary)
}

func verdictWarmCache(c *check) {
	p := warm(c, c.group("verdict-warm-cache"))
	last := never(c, p, "memory")
	c.that(last.Verdict == "none", "the verdict is %q, and should be none", last.Verdict)
}
