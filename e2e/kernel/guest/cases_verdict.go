package main

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gym-observer/observer"
)

// diagnoses waits for a verdict, of a process that goes on with what it does.
func diagnoses(c *check, p *subject, want string) answer {
	p.order(order{Do: "observe", Wait: true})
	var last answer
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		last = p.order(order{Do: "diagnose"})
		if last.Verdict == want {
			break
		}
	}
	c.logf("%s", last.Summary)
	c.that(last.Verdict == want, "the verdict is %q, and should be %q", last.Verdict, want)
	return last
}

func verdictOwnQuota(c *check) {
	group := c.group("verdict-own-quota")
	c.set(group, "cpu.max", "50000 100000")
	p := c.probe("group=" + group)
	p.order(order{Do: "spin", Count: 2, For: time.Minute})
	diagnoses(c, p, "cpu_throttled")
}

// What is not to be seen is not measured: neither the quota nor others.
func verdictHiddenQuota(c *check) {
	group := c.group("verdict-hidden-quota/own", "cpu")
	c.set(filepath.Dir(group), "cpu.max", "50000 100000")
	p := c.probe("group="+group, "namespace=mount", "namespace=cgroup", "mount")
	p.order(order{Do: "spin", Count: 2, For: time.Minute})
	if c.countsAbove() {
		diagnoses(c, p, "cpu_throttled")
		return
	}
	p.order(order{Do: "observe", Wait: true})
	var last answer
	for range 30 {
		time.Sleep(200 * time.Millisecond)
		last = p.order(order{Do: "diagnose"})
		if last.Verdict == "cpu_contended" {
			break
		}
	}
	c.that(last.Verdict != "cpu_contended", "nobody else has the processors")
	c.logf("%s", last.Summary)
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
	p.order(order{Do: "observe", Wait: true})
	var last answer
	for range 30 {
		time.Sleep(200 * time.Millisecond)
		last = p.order(order{Do: "diagnose"})
		if last.Verdict == "memory" {
			break
		}
	}
	c.that(last.Verdict == "none", "the verdict is %q, and should be none", last.Verdict)
	c.logf("%s", last.Summary)
}
