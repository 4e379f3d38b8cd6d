package main

import (
	"fmt"
	"path/filepath"
	"time"
)

const mib = 1 << 20

// fills has a probe use 40 MiB, and compares with the kernel's own numbers of the
// group with the limit.
func fills(c *check, group, limited, file string) {
	c.set(limited, file, fmt.Sprint(128*mib))
	p := c.probe("group=" + group)
	p.order(order{Do: "allocate", Count: 40, Wait: true})
	r := p.read()
	want := c.number(limited, "memory.current", "") - c.number(limited, "memory.stat", "active_file ") -
		c.number(limited, "memory.stat", "inactive_file ") - c.number(limited, "memory.stat", "slab_reclaimable ")
	c.logf("%d of %d MiB, %s", r.Memory.Used/mib, r.Memory.Limit/mib, r.Memory.LimitName)
	c.that(r.MemoryErr == "", "read without an error: %s", r.MemoryErr)
	c.that(r.Memory.Limit == 128*mib && r.Memory.LimitName == file, "the limit is %d, %s", r.Memory.Limit, r.Memory.LimitName)
	c.that("/"+r.Memory.Directory == limited, "it is that of %s", r.Memory.Directory)
	c.that(max(r.Memory.Used-want, want-r.Memory.Used) < 4*mib, "%d are in use, the kernel's own files say %d", r.Memory.Used, want)
	c.that(r.Memory.Used > 40*mib, "what was allocated is in use: %d", r.Memory.Used)
	c.that(r.StalledErr == "", "the pressure is read: %s", r.StalledErr)
}

func memoryMax(c *check) {
	group := c.group("memory-max")
	fills(c, group, group, "memory.max")
}

func parentsMemoryMax(c *check) {
	group := c.group("parents-memory-max/own", "memory")
	fills(c, group, filepath.Dir(group), "memory.max")
}

// pause is between two looks at what the kernel does by itself.
func pause() { time.Sleep(100 * time.Millisecond) }

// past has a process in group want more than memory.high lets it have.
func past(c *check, group string) *subject {
	c.set(group, "memory.high", fmt.Sprint(40*mib))
	p := c.probe("group=" + group)
	p.order(order{Do: "allocate", Count: 60}) // which may take very long
	c.until(func() bool { return c.number(group, "memory.events", "high ") > 0 }, "memory.high reached", pause)
	return p
}

func memoryHigh(c *check) {
	group := c.group("memory-high")
	p := past(c, group)
	var r reading // the kernel adds up who waits every two seconds
	c.until(func() bool { return r.StalledErr != "" || r.Stalled > 0 && r.Memory.Share() > 0.9 }, "the process stalled", func() {
		pause()
		r = p.read()
	})
	c.logf("%d of %d MiB, stalled %v", r.Memory.Used/mib, r.Memory.Limit/mib, r.Stalled)
	c.that(r.Memory.Limit == 40*mib && r.Memory.LimitName == "memory.high", "the limit is %d, %s", r.Memory.Limit, r.Memory.LimitName)
	c.that(r.Memory.Share() > 0.9, "it is used up: %.2f", r.Memory.Share())
	c.that(r.StalledErr == "" && r.Stalled > 0, "all have waited for memory: %v %s", r.Stalled, r.StalledErr)
}

// warm has a process read more of a file than its group may keep.
func warm(c *check, group string) *subject {
	c.set(group, "memory.max", fmt.Sprint(96*mib))
	p := c.probe("group=" + group)
	for range 2 {
		p.order(order{Do: "cache", Path: "/dev/nvme0n1", Count: 128, Wait: true})
	}
	return p
}

func warmCache(c *check) {
	group := c.group("warm-cache")
	r := warm(c, group).read()
	current := c.number(group, "memory.current", "")
	c.logf("the kernel counts %d MiB, cannot drop %d of %d MiB", current/mib, r.Memory.Used/mib, r.Memory.Limit/mib)
	c.that(current > 80*mib, "the cache is warm: %d", current)
	c.that(r.Memory.Limit == 96*mib, "the limit is %d", r.Memory.Limit)
	c.that(r.Memory.Share() < 0.4, "what can be dropped is not in use: %.2f", r.Memory.Share())
}
