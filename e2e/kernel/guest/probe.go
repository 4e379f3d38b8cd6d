package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/kernel"
	"go.opentelemetry.io/otel/metric/noop"
	"golang.org/x/sys/unix"
)

// reading is everything that internal/kernel has to say about the probe. An
// error stands beside each, since JSON has no errors.
type reading struct {
	Group    []string // directories
	GroupErr string

	Throttled    kernel.Throttled
	ThrottledErr string
	CPULimit     float64 // 0 for none

	Threads     kernel.ThreadTimes
	ThreadsLow  kernel.SchedTime // before them, added up by other code
	ThreadsHigh kernel.SchedTime // after them
	ThreadsErr  string

	Memory     kernel.MemoryUse
	MemoryErr  string
	Stalled    time.Duration
	StalledErr string

	Affinity int
	Idle     float64 // of the processors in the mask, since the reading before; -1 where it is not known
	Children int64
}

// order is what a case wants of a probe.
type order struct {
	Do    string        // what, as in do
	For   time.Duration // how long
	Count int
	Path  string
	Wait  bool // for its end
}

// answer is what came of it.
type answer struct {
	Err     string
	Reading reading

	// Of a diagnosis; its JSON is not made to be read back.
	At               time.Time
	Verdict, Summary string
	Unmeasured       []observer.Cause
}

// prober reads itself.
type prober struct {
	groups     kernel.CgroupFinder
	throttling kernel.ThrottlingTotal
	threads    *kernel.ThreadReader
	processors kernel.Processors

	keep  [][]byte // memory that is in use
	files []*os.File
	stop  func() // the observer
	tasks sync.WaitGroup
}

// probe does what it is told, an order a line, and answers each with a line.
func probe(in io.Reader, out io.Writer) {
	p := &prober{
		groups:  kernel.CgroupFinder{Mounts: new(kernel.MountWatch)},
		threads: kernel.NewThreadReader("/proc/self/task"),
		stop:    func() {},
	}
	defer func() { p.stop() }()
	orders, answers := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return
		}
		var a answer
		if err := p.do(o, &a); err != nil {
			a.Err = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return
		}
	}
}

func (p *prober) do(o order, a *answer) error {
	work := func() error { return errors.New("no such order: " + o.Do) }
	switch o.Do {
	case "read":
		a.Reading = p.read()
		return nil
	case "rest": // once all that it was told is done
		p.tasks.Wait()
		return nil
	case "spin": // that many goroutines use a processor
		work = func() error { spin(o.Count, o.For); return nil }
	case "allocate": // that many MiB, one after the other
		work = func() error {
			for range o.Count {
				block := make([]byte, 1<<20)
				for i := 0; i < len(block); i += os.Getpagesize() {
					block[i] = 1
				}
				p.keep = append(p.keep, block)
			}
			return nil
		}
	case "cache": // that many MiB of a file
		work = func() error {
			// It stays open: with the last descriptor of a disk its cache goes.
			file, err := os.Open(o.Path)
			if err != nil {
				return err
			}
			p.files = append(p.files, file)
			_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(file, int64(o.Count)<<20), make([]byte, 1<<20))
			return err
		}
	case "children":
		work = func() error {
			for range o.Count {
				child := exec.Command("/init", "probe")
				if _, err := child.StdinPipe(); err != nil {
					return err
				}
				if err := child.Start(); err != nil {
					return err
				}
			}
			return nil
		}
	case "threads": // that many, which wait
		work = func() error {
			for range o.Count {
				ready := make(chan struct{})
				go func() {
					runtime.LockOSThread()
					close(ready)
					select {}
				}()
				<-ready
			}
			return nil
		}
	case "come round": // that many readings of the threads
		work = func() error {
			for range o.Count {
				if _, err := p.threads.Read(); err != nil {
					return err
				}
			}
			return nil
		}
	case "move": // the process into a group
		work = func() error { return os.WriteFile(filepath.Join(o.Path, "cgroup.procs"), []byte("0"), 0) }
	case "thread": // one that spins in a threaded group
		work = func() error {
			runtime.LockOSThread()
			if err := os.WriteFile(filepath.Join(o.Path, "cgroup.threads"), []byte("0"), 0); err != nil {
				return err
			}
			for began := time.Now(); time.Since(began) < o.For; {
			}
			return nil
		}
	case "observe":
		work = func() error {
			started := observer.Start(context.Background(), "probe", observer.WithMeterProvider(noop.NewMeterProvider()), observer.WithWindow(time.Second))
			p.stop = func() { started.Stop() }
			return started.Err()
		}
	case "diagnose":
		d := observer.Diagnose()
		a.At, a.Verdict, a.Summary, a.Unmeasured = d.At, string(d.Verdict), d.Summary, d.Unmeasured
		return nil
	}
	if o.Wait {
		return work()
	}
	p.tasks.Go(func() {
		if err := work(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	return nil
}

func spin(count int, length time.Duration) {
	var spinning sync.WaitGroup
	for range count {
		spinning.Go(func() {
			for began := time.Now(); time.Since(began) < length; {
				for range 10_000 {
				}
			}
		})
	}
	spinning.Wait()
}

func (p *prober) read() (r reading) {
	files := kernel.Files("/")
	if group, err := p.groups.Find(files, "cpu"); err != nil {
		r.GroupErr = err.Error()
	} else {
		r.Group = group.Directories
		limit, err := group.CPULimit(files)
		if err != nil {
			r.GroupErr = err.Error()
		}
		if !math.IsInf(limit, 1) {
			r.CPULimit = limit
		}
	}
	if reading, err := p.groups.Throttling(files); err != nil {
		r.ThrottledErr = err.Error()
	} else {
		r.Throttled = p.throttling.Add(reading)
	}
	if group, err := p.groups.Find(files, "memory"); err != nil {
		r.MemoryErr = err.Error()
	} else {
		if r.Memory, err = group.Memory(files); err != nil {
			r.MemoryErr = err.Error()
		}
		if r.Stalled, err = group.MemoryStalled(files); err != nil {
			r.StalledErr = err.Error()
		}
	}
	r.ThreadsLow = threadsTruth()
	threads, err := p.threads.Read()
	r.ThreadsHigh = threadsTruth()
	if err != nil {
		r.ThreadsErr = err.Error()
	}
	r.Threads = threads
	if r.Children, err = p.threads.Children(); err != nil {
		r.Children = -1
	}
	r.Idle = -1
	mask, err := kernel.Affinity()
	if err == nil {
		r.Affinity = mask.Count()
	}
	if text, err := os.ReadFile("/proc/stat"); err == nil {
		if now, err := kernel.ParseProcessors(text, nil); err == nil {
			if share, known := now.Since(p.processors, mask); known {
				r.Idle = share.Idle
			}
			p.processors = now
		}
	}
	return r
}

// threadsTruth adds up all threads in the plainest way there is.
func threadsTruth() (sum kernel.SchedTime) {
	names, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		var run, delay, slices int64
		if _, err := fmt.Sscan(string(text), &run, &delay, &slices); err == nil {
			sum.Run += time.Duration(run)
			sum.Delay += time.Duration(delay)
			sum.Slices += slices
		}
	}
	return sum
}

// subject is a probe as a case sees it.
type subject struct {
	c       *check
	command *exec.Cmd
	orders  *json.Encoder
	in      io.Closer
	answers *json.Decoder
	errors  strings.Builder
}

// probe starts one, which first takes the steps of enter.
func (c *check) probe(steps ...string) *subject {
	p := &subject{c: c, command: exec.Command("/init", append([]string{"enter"}, steps...)...)}
	in, err := p.command.StdinPipe()
	c.must(err)
	out, err := p.command.StdoutPipe()
	c.must(err)
	p.command.Stderr = &p.errors
	c.must(p.command.Start())
	p.in, p.orders, p.answers = in, json.NewEncoder(in), json.NewDecoder(out)
	c.probes = append(c.probes, p)
	return p
}

// order has the probe do something.
func (p *subject) order(o order) answer {
	var a answer
	err := p.orders.Encode(o)
	if err == nil {
		err = p.answers.Decode(&a)
	}
	if err != nil {
		p.in.Close()
		_ = p.command.Wait() // what it had to say matters more
		p.c.must(fmt.Errorf("the probe ended (%w): %s", err, p.errors.String()))
	}
	if a.Err != "" {
		p.c.must(errors.New(o.Do + ": " + a.Err))
	}
	return a
}

func (p *subject) read() reading { return p.order(order{Do: "read"}).Reading }

func (p *subject) spin(count int, length time.Duration) {
	p.order(order{Do: "spin", Count: count, For: length, Wait: true})
}

func (p *subject) move(group string) { p.order(order{Do: "move", Path: group, Wait: true}) }

func (p *subject) pid() int { return p.command.Process.Pid }

func (p *subject) end() {
	p.in.Close()
	_ = unix.Kill(p.pid(), unix.SIGKILL)
	_ = p.command.Wait() // it was killed
}
