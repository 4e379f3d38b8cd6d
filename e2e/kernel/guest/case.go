package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// root is where the v2 hierarchy is mounted.
const root = "/sys/fs/cgroup"

// aCase is one layout of the kernel's things, with what is to be read of it.
type aCase struct {
	name  string
	quick bool // part of the quick set
	run   func(c *check)
}

// chosen returns the cases of a set.
func chosen(whole bool) []aCase {
	var set []aCase
	for _, c := range cases {
		if whole || c.quick {
			set = append(set, c)
		}
	}
	return set
}

const skipMark = "skipped: "

// check is what a case says its findings to. The machine has no testing package,
// and no source to point into.
type check struct {
	failed bool
	log    strings.Builder
	probes []*subject
}

// stopped is what a case panics with when it cannot go on.
type stopped struct{ skip string }

func runCase(name string) {
	c := &check{}
	for _, one := range cases {
		if one.name == name {
			c.do(one.run)
		}
	}
	fmt.Print(c.log.String())
	if c.failed {
		os.Exit(1)
	}
}

func (c *check) do(run func(*check)) {
	defer func() {
		for _, p := range c.probes {
			p.end()
		}
		switch s := recover().(type) {
		case nil:
		case stopped:
			if s.skip != "" {
				c.log.Reset()
				c.log.WriteString(skipMark + s.skip)
			}
		default:
			panic(s)
		}
	}()
	run(c)
}

func (c *check) logf(format string, args ...any) { fmt.Fprintf(&c.log, format+"; ", args...) }

func (c *check) errorf(format string, args ...any) {
	line := callers()
	c.failed = true
	fmt.Fprintf(&c.log, "%s: ", line)
	c.logf(format, args...)
}

func (c *check) skip(reason string) { panic(stopped{reason}) }

// must stops the case at an error.
func (c *check) must(err error) {
	if err != nil {
		c.errorf("%v", err)
		panic(stopped{})
	}
}

// that notes what does not hold.
func (c *check) that(holds bool, format string, args ...any) {
	if !holds {
		c.errorf("not so: "+format, args...)
	}
}

// between notes a time that is not within a tenth, or 20 ms, of what the kernel
// says: what it said before and after, since who waits for a processor waits on
// while it reads, and longer where the emulator is slow.
func (c *check) between(got, low, high time.Duration, what string) {
	c.that(got >= low-low/10-20*time.Millisecond && got <= high+high/10+20*time.Millisecond,
		"%s is %v, the kernel's own files say %v to %v", what, got, low, high)
}

// until does something again and again until what it is to bring about is there,
// and stops the case where that does not come. How long it takes is the
// emulator's business.
func (c *check) until(reached func() bool, what string, do func()) {
	for deadline := time.Now().Add(patience * 2 / 3); ; {
		do()
		if reached() {
			return
		}
		if time.Now().After(deadline) {
			c.errorf("it did not come: %s", what)
			panic(stopped{})
		}
	}
}

// stopsFor has a probe want two processors until the kernel has stopped the group
// for so long.
func (c *check) stopsFor(p *subject, group string, least time.Duration) {
	truth := func() time.Duration {
		return time.Duration(c.number(group, "cpu.stat", "throttled_usec")) * time.Microsecond
	}
	before := truth()
	c.until(func() bool { return truth()-before > least }, fmt.Sprintf("%s stopped for %v", group, least), func() { p.spin(2, spell) })
}

// witness compares what a probe reads with what the kernel says, before and
// after: a process that is stopped by a quota is stopped by reading, too.
type witness struct {
	p         *subject
	truth     func() time.Duration
	low, high time.Duration // at the last reading
	last      reading
}

func (p *subject) witness(truth func() time.Duration) *witness {
	w := &witness{p: p, truth: truth}
	w.read()
	return w
}

// read takes a reading, and returns how much the time throttled grew.
func (w *witness) read() (r reading, grown time.Duration) {
	low := w.truth()
	r = w.p.read()
	high := w.truth()
	grown = r.Throttled.Time - w.last.Throttled.Time
	if w.last.Affinity > 0 { // not the first one
		w.p.c.that(grown >= low-w.high && grown <= high-w.low, "throttled grew by %v, the kernel's own file by %v to %v", grown, low-w.high, high-w.low)
	}
	w.low, w.high, w.last = low, high, r
	return r, grown
}

// group makes a control group, and each on the way to it with the controllers
// given for what is below.
func (c *check) group(path string, controllers ...string) string {
	directory := root
	for i, name := range strings.Split(path, "/") {
		if i > 0 && len(controllers) > 0 {
			c.set(directory, "cgroup.subtree_control", "+"+strings.Join(controllers, " +"))
		}
		directory = filepath.Join(directory, name)
		if err := os.Mkdir(directory, 0o755); err != nil && !os.IsExist(err) {
			c.must(err)
		}
	}
	return directory
}

// set writes to a file of a group.
func (c *check) set(group, file, text string) {
	c.must(os.WriteFile(filepath.Join(group, file), []byte(text), 0))
}

// number reads a key of a file of a group, or its only number if key is "". It
// is -1 where there is none.
func (c *check) number(group, file, key string) int64 {
	text, err := os.ReadFile(filepath.Join(group, file))
	if os.IsNotExist(err) {
		return -1
	}
	c.must(err)
	for line := range strings.Lines(string(text)) {
		value, found := strings.CutPrefix(strings.TrimSpace(line), key)
		if number, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); found && err == nil {
			return number
		}
	}
	return -1
}

// throttled is what the kernel has stopped of a group: of its own threads by any
// quota where the kernel counts that, else by its own.
func (c *check) throttled(group string) time.Duration {
	if local := c.number(group, "cpu.stat.local", "throttled_usec"); local >= 0 {
		return time.Duration(local) * time.Microsecond
	}
	return time.Duration(c.number(group, "cpu.stat", "throttled_usec")) * time.Microsecond
}

// countsAbove reports whether this kernel counts what quotas above a group stop
// of its threads, as Linux 6.6 and later do.
func (c *check) countsAbove() bool {
	_, err := os.Stat(root + "/cpu.stat.local")
	return err == nil
}

// callers returns where in the cases a check stands.
func callers() string {
	var counters [8]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(3, counters[:])])
	for {
		frame, more := frames.Next()
		if name := filepath.Base(frame.File); strings.HasPrefix(name, "cases_") || !more {
			return fmt.Sprintf("%s:%d", name, frame.Line)
		}
	}
}
