package sites

import (
	"slices"
	"strings"
)

// Subject is what is counted for one cause.
type Subject uint8

// The subjects, each with the goroutines that count.
const (
	Locks      Subject = iota // lock: those that wait for a mutex, or for a file descriptor's lock
	Outbound                  // downstream: those that wait inside this package's RoundTrip, less those for their own pool
	Admissions                // admission: those that wait inside MeteredAdmission
	Writes                    // output_write: those inside a write to a file or a connection
	Calls                     // blocked_thread: those in system calls and C, less those that wait for a child process
	Children                  // those that wait for a child process
	Waiting                   // wait: requests that wait for something in this process that no other cause covers, and calls out that wait for its own pool
	Perhaps                   // requests that wait in a select or a Cond, perhaps by design
	subjects
)

// Marks are the functions that tell whose goroutine a stack is, as
// [runtime.Frame] names them.
type Marks struct {
	Request   string   // serves a request
	Expected  string   // serves one that waits by design: left out
	Outbound  string   // makes an outbound request
	Declared  string   // makes one that waits by design: likewise
	Admission []string // waits for the limit
	Packages  []string // whose functions are never the application's line; one that ends in a slash stands for all below it
}

// MarksOf are those of the observer's package.
func MarksOf(pkg string) Marks {
	return Marks{
		Request:   pkg + ".(*middleware).ServeHTTP",
		Expected:  pkg + ".(*middleware).serveExpected",
		Outbound:  pkg + ".(*transport).RoundTrip",
		Declared:  pkg + ".(*transport).sendExpected",
		Admission: []string{pkg + ".(*MeteredAdmission).Acquire", pkg + ".(*MeteredAdmission).wait"},
		Packages:  []string{pkg, pkg + "/client", pkg + "/export", pkg + "/internal/"}, // and not its examples, which are programs
	}
}

// Now is what the counters say at the moment of a snapshot.
type Now struct {
	InFlight  int // requests
	Expected  int // of them, those that wait by design
	Streaming int // of the others, those whose head was flushed or whose connection was hijacked
}

// Reader reads snapshots: whose each goroutine is, what it waits for, and where.
// It is for one goroutine at a time, and worth keeping: it remembers names.
type Reader struct {
	build   Build
	marks   map[string]mark
	ours    []string
	origins map[string]origin // of functions; bounded by maxNames
}

type mark uint8

const (
	unmarked mark = iota
	markRequest
	markExpected
	markOutbound
	markDeclared
	markAdmission
	markDial
	markWrite
	markUpload
)

// maxNames bounds what is remembered of names: a program has some ten thousand
// functions, of which few ever wait.
const maxNames = 16384

// NewReader returns a Reader for stacks of a binary.
func NewReader(build Build, marks Marks) *Reader {
	r := &Reader{build: build, ours: marks.Packages, origins: map[string]origin{}, marks: map[string]mark{
		"net/http.(*Transport).dialConn": markDial,
		"os.(*File).Write":               markWrite,
		"os.(*File).WriteAt":             markWrite,
		"os.(*File).Sync":                markWrite,
		"os.(*File).ReadFrom":            markWrite,
		"net.(*conn).Write":              markWrite,
		"net/http.(*body).Read":          markUpload,
	}}
	for _, name := range marks.Admission {
		r.marks[name] = markAdmission
	}
	r.marks[marks.Request], r.marks[marks.Expected] = markRequest, markExpected
	r.marks[marks.Outbound], r.marks[marks.Declared] = markOutbound, markDeclared
	delete(r.marks, "")
	return r
}

// isOurs reports whether a package is the observer's own.
func (r *Reader) isOurs(pkg string) bool {
	return slices.ContainsFunc(r.ours, func(ours string) bool {
		return pkg == ours || strings.HasSuffix(ours, "/") && strings.HasPrefix(pkg, ours)
	})
}

// goroutines is one stack, judged.
type goroutines struct {
	Stack
	pause
	request   int // the frame of each mark; -1 where there is none
	outbound  int
	admission int
	expected  bool
	declared  bool // the outbound request waits by design
	dials     bool
	writes    bool
	uploads   bool    // reads the body of its request, as HTTP/1 has it
	served    float64 // the part of them that serve a request, or were started by one
}

// end is where the frames stop to be the application's affair: at the
// middleware, behind which is what serves every request.
func (g *goroutines) end() int {
	if g.request >= 0 {
		return g.request
	}
	return len(g.Frames)
}

func (r *Reader) judge(s Stack) goroutines {
	g := goroutines{Stack: s, pause: r.pauseOf(s.Frames), request: -1, outbound: -1, admission: -1}
	for i, f := range s.Frames {
		switch r.marks[f.Function] {
		case markRequest:
			if g.request < 0 {
				g.request = i
			}
		case markExpected:
			g.expected = true
		case markOutbound:
			if g.request < 0 { // behind the middleware it would be somebody else's
				g.outbound = i
			}
		case markDeclared:
			g.declared = g.request < 0
		case markAdmission:
			if g.request < 0 {
				g.admission = i
			}
		case markDial:
			g.dials = true
		case markWrite:
			g.writes = true
		case markUpload:
			g.uploads = true
		}
	}
	return g
}

// Reading is what one snapshot says.
type Reading struct {
	found    []found
	requests float64 // goroutines of requests
	visible  float64 // of them, those that wait for their client or perhaps for an event, as most do that stream
	streams  float64 // of them, those that stream, by the counter
	waiting  float64 // of them, those that wait for something in this process that no other cause covers
	pooled   float64 // outbound requests that wait for a connection of this process's own pool
	outside  float64 // requests that wait for another server, on a connection that is not of http.Transport, or for a child process
}

type found struct {
	subject Subject
	site    Site // with its load
}

// Read reads one snapshot.
func (r *Reader) Read(stacks []Stack, now Now) Reading {
	s := snapshot{Reader: r, Reading: Reading{streams: float64(now.Streaming)}, all: make([]goroutines, 0, len(stacks))}
	dialling, pooled, cut, expected := 0, 0, 0, 0
	for _, stack := range stacks {
		if len(stack.Frames) == 0 || stack.Count <= 0 {
			continue
		}
		g := r.judge(stack)
		s.all = append(s.all, g)
		switch {
		case g.request >= 0, g.expected:
			s.requests += float64(g.Count)
		case g.Cut:
			cut += g.Count
		}
		if g.expected {
			expected += g.Count
		}
		if g.dials {
			dialling += g.Count
		}
		if g.wait == forPool {
			pooled += g.Count
		}
	}
	// As many of those in Transport.getConn wait for a connection under way as
	// are being made: that is the other server's doing. The others wait for the
	// pool.
	s.pool = 1
	if pooled > 0 {
		s.pool = max(0, float64(pooled-dialling)/float64(pooled))
	}
	// A stack that is cut may have its middleware beyond the cut. The counter
	// tells how many requests are not seen, and of those that wait by design they
	// are none that wait.
	missing := float64(now.InFlight) - s.requests - float64(max(0, now.Expected-expected))
	share := 0.0
	if cut > 0 {
		share = min(1, max(0, missing/float64(cut)))
	}
	for i := range s.all {
		g := &s.all[i]
		s.count(g)
		switch {
		case g.expected:
			g.served = 1
		case g.request >= 0:
			g.served = 1
			s.serve(g, float64(g.Count), nil, 0)
		case g.Cut && share > 0:
			s.requests += share * float64(g.Count)
			s.serve(g, share*float64(g.Count), nil, 0)
			g.served = share
		}
	}
	for i := range s.all {
		s.callOut(&s.all[i])
	}
	s.hold(Locks)
	s.hold(Waiting)
	return s.Reading
}

// snapshot is one that is being read.
type snapshot struct {
	*Reader
	Reading
	all     []goroutines
	pool    float64            // of those in Transport.getConn, the part that waits for the pool
	started map[string][]int   // the goroutines that a function started, by its name
	waiters [subjects][]waiter // for whom a holder is looked for
}

type waiter struct {
	g    *goroutines
	line int // the frame of its site
	load float64
}

// count counts what is counted whoever the goroutine serves.
func (s *snapshot) count(g *goroutines) {
	load := float64(g.Count)
	switch g.wait {
	case forLock:
		if at, ok := s.line(g.Frames, 0, g.end()); ok {
			s.found = append(s.found, found{Locks, s.site(KindWait, g.Frames, at, g.end(), innermost, load)})
			s.waiters[Locks] = append(s.waiters[Locks], waiter{g, at, load})
		} else {
			s.unnamed(Locks, load)
		}
	case inCall:
		s.add(Calls, g, 0, innermost, load)
	case forChild:
		s.add(Children, g, 0, innermost, load)
	}
	if g.writes && g.wait != forClient {
		s.add(Writes, g, 0, innermost, load)
	}
	if g.wait == running || g.wait == inRuntime || g.wait == forLock {
		return
	}
	if g.outbound >= 0 && !g.declared {
		if g.wait == forPool {
			s.pooled += load * s.pool
			load *= 1 - s.pool
		}
		if load > 0 {
			s.add(Outbound, g, g.outbound+1, called, load)
		}
	}
	if g.admission >= 0 {
		s.add(Admissions, g, g.admission+1, called, load)
	}
}

// serve counts what requests wait for: as many as load, at g, where g may be a
// goroutine that they started.
func (s *snapshot) serve(g *goroutines, load float64, parent *Site, depth int) {
	if g.admission >= 0 {
		return
	}
	if g.outbound >= 0 {
		if g.wait != forPool {
			return
		}
		load *= s.pool
	}
	if load <= 0 {
		return
	}
	if g.join && (g.wait == forGate || g.wait == forEvent) && depth < maxDepth {
		if children := s.children(g); len(children) > 0 {
			all := 0
			for _, i := range children {
				all += s.all[i].Count
			}
			here := s.siteOf(g, load)
			for _, i := range children {
				child := &s.all[i]
				child.served = 1
				s.serve(child, load*float64(child.Count)/float64(all), here, depth+1)
			}
			return
		}
	}
	subject := Waiting
	switch g.wait {
	case running, inCall, inRuntime, forLock:
		return // not a wait, or another cause's
	case forClient:
		if !g.uploads { // whose response has not begun
			s.visible += load
		}
		return
	case forEvent:
		s.visible += load
		subject = Perhaps
	case forNetwork, forChild:
		s.outside += load
	}
	if subject == Waiting {
		s.waiting += load
	}
	at, ok := s.line(g.Frames, 0, g.end())
	if !ok {
		s.unnamed(subject, load)
		return
	}
	site := s.site(KindWait, g.Frames, at, g.end(), innermost, load)
	if site.Caller == "" && parent != nil {
		site.Caller = parent.Location
	}
	s.found = append(s.found, found{subject, site})
	s.waiters[subject] = append(s.waiters[subject], waiter{g, at, load})
}

// callOut counts the calls out of goroutines that serve no request, as those of a
// driver, where they wait for the process's own pool: a wait as a request's is, but of
// no request.
func (s *snapshot) callOut(g *goroutines) {
	load := float64(g.Count) * (1 - g.served) * s.pool
	if g.outbound >= 0 && g.wait == forPool && !g.declared && load > 0 {
		s.add(Waiting, g, 0, innermost, load)
	}
}

// maxDepth is how far goroutines that wait for goroutines are followed.
const maxDepth = 4

func (s *snapshot) siteOf(g *goroutines, load float64) *Site {
	at, ok := s.line(g.Frames, 0, g.end())
	if !ok {
		return nil
	}
	site := s.site(KindWait, g.Frames, at, g.end(), innermost, load)
	return &site
}

// add counts goroutines at their line, looked for from a frame on.
func (s *snapshot) add(subject Subject, g *goroutines, from int, in direction, load float64) {
	at, ok := s.line(g.Frames, from, g.end())
	if !ok {
		s.unnamed(subject, load)
		return
	}
	s.found = append(s.found, found{subject, s.site(KindWait, g.Frames, at, g.end(), in, load)})
}

// unnamed counts what has no line, which is looked at all the same.
func (s *snapshot) unnamed(subject Subject, load float64) {
	s.found = append(s.found, found{subject, Site{Kind: KindWait, Load: load}})
}

// children are the goroutines that the function started which g waits in: those
// with one of its function literals in their stack. The function of the
// application's line is asked first, since a library's, such as errgroup's Go,
// has those of everybody.
func (s *snapshot) children(g *goroutines) []int {
	if s.started == nil {
		s.started = map[string][]int{}
		for i := range s.all {
			if s.all[i].request < 0 {
				s.noteParents(i)
			}
		}
	}
	end := g.end()
	line, ok := s.line(g.Frames, 0, end)
	if !ok {
		line = end - 1
	}
	for i := line; i >= g.at; i-- {
		if found := s.started[g.Frames[i].Function]; len(found) > 0 {
			return found
		}
		if g.send {
			break // a library that sends waits for others' ends, as errgroup with a limit
		}
		if i == line && g.group {
			// A helper may wait for what its caller started.
			for out := line + 1; out < end; out++ {
				if found := s.started[g.Frames[out].Function]; len(found) > 0 && s.origin(g.Frames[out]) == application {
					return found
				}
			}
		}
	}
	return nil
}

// noteParents notes under every function that a goroutine's closures belong to
// that it has started that goroutine.
func (s *snapshot) noteParents(i int) {
	for _, f := range s.all[i].Frames {
		name := f.Function
		if !isClosure(name) {
			continue
		}
		slash := strings.LastIndexByte(name, '/')
		for {
			dot := strings.LastIndexByte(name, '.')
			if dot <= slash {
				break
			}
			name = name[:dot]
			if under := s.started[name]; len(under) == 0 || under[len(under)-1] != i {
				s.started[name] = append(under, i)
			}
		}
	}
}
