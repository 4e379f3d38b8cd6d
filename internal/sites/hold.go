package sites

import (
	"slices"
	"strings"
)

// queue is a function in which others wait: the line where most do, and how
// those there wait.
type queue struct {
	line      int
	load      float64
	standings map[standing]bool
}

// standing is where and for what somebody waits.
type standing struct {
	wait     wait
	function string
}

func (g *goroutines) standing() standing {
	return standing{g.wait, g.Frames[g.at].Function}
}

// queuesOf finds the longest queue of each function.
func queuesOf(waiters []waiter) map[string]*queue {
	all := map[string]map[int]*queue{}
	for _, w := range waiters {
		for _, f := range w.g.Frames[:w.line+1] {
			if takesLock(f.Function) {
				continue
			}
			if all[f.Function] == nil {
				all[f.Function] = map[int]*queue{}
			}
			q := all[f.Function][f.Line]
			if q == nil {
				q = &queue{line: f.Line, standings: map[standing]bool{}}
				all[f.Function][f.Line] = q
			}
			q.load += w.load
			q.standings[w.g.standing()] = true
		}
	}
	longest := map[string]*queue{}
	for function, queues := range all {
		for _, q := range queues {
			if most := longest[function]; most == nil || q.load > most.load || q.load == most.load && q.line < most.line {
				longest[function] = q
			}
		}
	}
	return longest
}

// hold finds who holds what the waiters of a subject wait for: whoever is
// further on in the same function. It can name another branch of the function,
// and misses a holder that took the lock elsewhere. The runtime's mutex profile
// would be no better: where a queue never empties it records nothing.
func (s *snapshot) hold(subject Subject) {
	if len(s.waiters[subject]) == 0 {
		return
	}
	queues := queuesOf(s.waiters[subject])
	ownPool := slices.ContainsFunc(s.waiters[subject], func(w waiter) bool { return w.g.wait == forPool && w.g.outbound >= 0 })
	for i := range s.all {
		g := &s.all[i]
		at := furtherOn(g, queues)
		if at < 0 {
			continue
		}
		// Who waits for a connection of an observed http.Transport waits for nobody
		// who calls through another one.
		if ownPool && g.outbound < 0 && packageOf(g.Frames[at].Function) == "net/http" {
			continue
		}
		in := at
		if s.origin(g.Frames[at]) != application {
			line, ok := s.line(g.Frames, at, g.end())
			if !ok {
				continue
			}
			at = line
		}
		site := s.site(KindHold, g.Frames, at, g.end(), called, float64(g.Count))
		if in != at { // what the library does beyond its lock, and not the call into it
			site.In = s.site(KindHold, g.Frames, in, g.end(), called, 0).In
		}
		s.found = append(s.found, found{subject, site})
	}
}

// furtherOn is the outermost frame of g beyond the line at which others queue in
// the same function; -1 where there is none. The outermost is the application's,
// where both its function and a library's have a queue. Of two queries after one
// another, who waits in the second holds nothing that the first waits for: who
// waits as the queue does is not meant.
func furtherOn(g *goroutines, queues map[string]*queue) int {
	for i := g.end() - 1; i >= 0; i-- {
		f := g.Frames[i]
		q := queues[f.Function]
		if q != nil && f.Line > q.line && (g.wait == running || !q.standings[g.standing()]) {
			return i
		}
	}
	return -1
}

// takesLock reports whether a function is part of a lock itself.
func takesLock(function string) bool {
	if packageOf(function) == "runtime" {
		return true
	}
	for _, prefix := range []string{"sync.(*Mutex).", "sync.(*RWMutex).", "internal/sync.(*Mutex).", "internal/poll.(*fdMutex).", "sync.runtime_", "internal/sync.runtime_", "internal/poll.runtime_"} {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}
