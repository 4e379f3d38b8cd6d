package main

import (
	"fmt"
	"sync"
	"time"
)

// The children of an idle process.
const (
	idleTimer    = "a bare timer of 100 ms"
	idleObserver = withObserver
	idleNothing  = "nothing at all"
)

func idleProcesses() *family {
	f := &family{
		name:   idle,
		about:  "CPU of a process that does nothing else, as a share of one core, by getrusage. The processes of one round run side by side.",
		unit:   "%",
		rounds: byChildRounds,
	}
	together := newTogether(idleTimer, idleObserver, idleNothing)
	for _, c := range []struct {
		name string
		role role
	}{{idleTimer, floor}, {idleObserver, ours}, {idleNothing, floor}} {
		f.cases = append(f.cases, &testCase{c.name, c.role, func(e effort) (sample, error) {
			return together.measure(c.name, func(name string) (float64, error) { return child("idle", name, e.idle.String()) })
		}})
	}
	return f
}

// together measures several cases at the same time, when the first of them is
// asked for, and keeps the values of the others for when they are.
type together struct {
	names  []string
	values map[string]float64
}

func newTogether(names ...string) *together {
	return &together{names: names, values: make(map[string]float64)}
}

func (t *together) measure(name string, one func(name string) (float64, error)) (sample, error) {
	if _, measured := t.values[name]; !measured {
		var mu sync.Mutex // guards the rest
		var failed error
		var all sync.WaitGroup
		for _, name := range t.names {
			all.Go(func() {
				value, err := one(name)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed = err
					return
				}
				t.values[name] = value
			})
		}
		all.Wait()
		if failed != nil {
			clear(t.values)
			return sample{}, failed
		}
	}
	value := t.values[name]
	delete(t.values, name)
	return uncounted(value), nil
}

// idleShare returns the percentage of a core that the process uses over a while.
func idleShare(what, forHowLong string) (float64, error) {
	length, err := time.ParseDuration(forHowLong)
	if err != nil {
		return 0, err
	}
	switch what {
	case idleNothing:
	case idleObserver:
		o, err := observe()
		if err != nil {
			return 0, err
		}
		defer o.Stop()
	case idleTimer:
		go func() {
			for range time.Tick(100 * time.Millisecond) {
			}
		}()
	default:
		return 0, fmt.Errorf("no idle process is called %q", what)
	}
	time.Sleep(500 * time.Millisecond) // what began it is over
	before, began := cpuTime(), time.Now()
	time.Sleep(length)
	return 100 * (cpuTime() - before).Seconds() / time.Since(began).Seconds(), nil
}
