package sites

import "strings"

// queues are functions in which others wait, each with the line where most do.
type queues map[string]int

func queuesOf(waiters []waiter) queues {
	lines := map[string]map[int]float64{}
	for _, w := range waiters {
		for _, f := range w.g.Frames[:w.line+1] {
			if takesLock(f.Function) {
				continue
			}
			if lines[f.Function] == nil {
				lines[f.Function] = map[int]float64{}
			}
			lines[f.Function][f.Line] += w.load
		}
	}
	longest := queues{}
	for function, loads := range lines {
		for line, load := range loads {
			if most := longest[function]; load > loads[most] || load == loads[most] && line < most {
				longest[function] = line
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
	waiters := s.waiters[subject]
	if len(waiters) == 0 {
		return
	}
	queues := queuesOf(waiters)
	// For two queries after one another, who waits in the second holds nothing
	// that the first waits for.
	likewise := map[standing]bool{}
	for _, w := range waiters {
		likewise[w.g.standing()] = true
	}
	for i := range s.all {
		g := &s.all[i]
		if g.wait != running && likewise[g.standing()] {
			continue
		}
		at := furtherOn(g, queues)
		if at < 0 {
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
// where both its function and a library's have a queue.
func furtherOn(g *goroutines, queues queues) int {
	for i := g.end() - 1; i >= 0; i-- {
		f := g.Frames[i]
		if line, ok := queues[f.Function]; ok && f.Line > line {
			return i
		}
	}
	return -1
}

// standing is where and for what somebody waits.
type standing struct {
	wait     wait
	function string
}

func (g *goroutines) standing() standing {
	return standing{g.wait, g.Frames[g.at].Function}
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
