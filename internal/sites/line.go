package sites

import "strings"

// line chooses the frame to name among those from a frame on and before another:
// the innermost of the application; else the innermost that is not the standard
// library's; else the outermost of the standard library.
func (r *Reader) line(frames []Frame, from, end int) (int, bool) {
	inLibrary, inStandard := -1, -1
	for i := from; i < end; i++ {
		f := frames[i]
		switch r.origin(f) {
		case application:
			if r.build.Location(f) != "" {
				return i, true
			}
		case library:
			if inLibrary < 0 && r.build.Location(f) != "" {
				inLibrary = i
			}
		case standard:
			if packageOf(f.Function) != "runtime" && r.build.Location(f) != "" {
				inStandard = i
			}
		}
	}
	if inLibrary >= 0 {
		return inLibrary, true
	}
	return inStandard, inStandard >= 0
}

// origin tells whose a frame is. What is this package's own counts as nobody's,
// but for its tests.
func (r *Reader) origin(f Frame) origin {
	known, ok := r.origins[f.Function]
	if !ok {
		pkg := packageOf(f.Function)
		known = r.build.origin(pkg, f.File)
		if m := r.marks[f.Function]; m >= markRequest && m <= markAdmission || r.isOurs(pkg) && !strings.HasSuffix(f.File, "_test.go") {
			known = nobodys
		}
		if len(r.origins) >= maxNames {
			clear(r.origins)
		}
		r.origins[f.Function] = known
	}
	return known
}

// direction says from which end the library's function is looked for.
type direction uint8

const (
	innermost direction = iota // what waits: "database/sql.(*DB).conn"
	called                     // what the line calls: "net.Dial"
)

// site describes the frame of a line in a stack.
func (r *Reader) site(kind string, frames []Frame, at, end int, in direction, load float64) Site {
	s := Site{Kind: kind, Function: frames[at].Function, Location: r.build.Location(frames[at]), Load: load, frames: frames}
	if in == innermost {
		for i := range at {
			if !r.telling(frames[i]) {
				continue
			}
			if s.In == "" {
				s.In = unescape(frames[i].Function)
			}
			// Behind a lock or a WaitGroup the library that uses it tells more.
			if packageOf(frames[i].Function) != "sync" {
				s.In = unescape(frames[i].Function)
				break
			}
		}
	} else {
		for i := at - 1; i >= 0; i-- {
			if r.telling(frames[i]) && r.origin(frames[i]) != application {
				s.In = unescape(frames[i].Function)
				break
			}
		}
	}
	for i := at + 1; i < end; i++ {
		if r.origin(frames[i]) != application {
			continue
		}
		if location := r.build.Location(frames[i]); location != "" && location != s.Location {
			s.Caller = location
			break
		}
	}
	return s
}

// inner are functions of the standard library that only its own authors know.
var inner = map[string]bool{"os.ignoringEINTR": true, "os.ignoringEINTRIO": true, "os.(*File).read": true, "os.(*File).write": true}

// Named is the site of work that a stack does, with what its line calls in the
// library: of an allocation, or of a sample of the processor.
func (r *Reader) Named(kind string, frames []Frame, load float64) Site {
	end := len(frames)
	for i, f := range frames {
		if r.marks[f.Function] == markRequest {
			end = i
			break
		}
	}
	at, ok := r.line(frames, 0, end)
	if !ok {
		return Site{Kind: kind, Load: load}
	}
	return r.site(kind, frames, at, end, called, load)
}

// telling reports whether a reader would know a function: it is not the
// runtime's, not internal, and no function literal.
func (r *Reader) telling(f Frame) bool {
	pkg := packageOf(f.Function)
	switch {
	case pkg == "", pkg == "runtime", pkg == "syscall", isClosure(f.Function), inner[f.Function], strings.HasPrefix(f.Function, "net.(*netFD)."):
		return false
	case r.origin(f) == nobodys && r.marks[f.Function] == unmarked && strings.Contains(pkg, "/internal/"): // what the observer puts between a handler and its writer
		return false
	case r.origin(f) == standard && (strings.HasPrefix(pkg, "internal/") || strings.Contains(pkg, "/internal") || strings.HasPrefix(pkg, "vendor/")):
		return false
	}
	return !strings.HasPrefix(f.Function[strings.LastIndexByte(f.Function, '.')+1:], "runtime_")
}
