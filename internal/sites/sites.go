// Package sites finds the lines of the application's code where goroutines wait,
// from snapshots of their stacks.
//
// It reads in one direction. A [Taker] takes a snapshot: the stacks of all
// goroutines, the same ones together. A [Reader] reads one: whose each goroutine
// is, what it waits for, which line that is, who holds what it waits for. A
// [Survey] adds up the snapshots of a window into the sites of each [Subject] and
// the load of each; [Turns] says in which windows that is worth its cost. All but
// the Taker is a pure function of frames, so that recorded stacks of other programs
// can stand in testdata. The rule of the verdict "wait" is internal/diagnosis's.
//
// A line that cannot be told is left out: a reader who was sent to a wrong line
// once does not come back.
package sites

import "strings"

// Frame is one call of a stack, as [runtime.Frame] has it.
type Frame struct {
	Function string // "example.com/shop/store.(*Cache).Put"; empty for C code without symbols
	File     string
	Line     int
}

// Stack is what some goroutines have in common: every call, innermost first.
type Stack struct {
	Frames []Frame
	Count  int  // goroutines with this stack
	Cut    bool // the record was too short: outer calls are missing
}

// The kinds of site: what is counted there.
const (
	KindWait  = "wait"  // goroutines that wait
	KindHold  = "hold"  // goroutines that hold what others wait for
	KindAlloc = "alloc" // bytes allocated a second
	KindHeap  = "heap"  // bytes in use
	KindCPU   = "cpu"   // processors
)

// MaxSites is how many sites of one cause are told. The largest is the answer;
// the fifth of a spread-out cause is already noise.
const MaxSites = 5

// Site is a place in the code, and how much of a cause is there.
type Site struct {
	Kind     string
	Function string  // of the application where it is in the stack, as [runtime.Frame] has it
	Location string  // "store/cache.go:42": the file below its module
	In       string  // the library function that waits or works; empty where it is the application's own
	Caller   string  // one application frame further out, as Location; empty where there is none
	Load     float64 // mean units at this site
	Share    float64 // of all of this kind that was looked at, 0 to 1

	// Stack is the functions of one of those that were there, the innermost first. The
	// lines of the application are in it, and others may have come another way.
	Stack []string

	frames []Frame // what Stack is made of, for the few sites that are told
}

// functionsOf are the functions of a stack, as a reader knows them.
func functionsOf(frames []Frame) []string {
	functions := make([]string, len(frames))
	for i, f := range frames {
		functions[i] = unescape(f.Function)
		if f.Function == "" {
			functions[i] = "(C code)"
		}
	}
	return functions
}

// Short is a function's name without the folders of its package:
// "store.(*Cache).Put".
func Short(function string) string {
	return unescape(function[strings.LastIndexByte(function, '/')+1:])
}

// packageOf is the import path of a function's package, or nothing for a name
// that has none.
func packageOf(function string) string {
	slash := strings.LastIndexByte(function, '/')
	dot := strings.IndexByte(function[slash+1:], '.')
	if dot < 0 {
		return ""
	}
	return unescape(function[:slash+1+dot])
}

// unescape undoes what the linker does to a dot in the last part of an import
// path, "gopkg.in/yaml%2ev3", and leaves all else alone.
func unescape(name string) string {
	if !strings.Contains(name, "%") {
		return name
	}
	return strings.NewReplacer("%2e", ".", "%2E", ".", "%22", `"`, "%25", "%").Replace(name)
}

// isClosure reports whether a name is the compiler's for a function literal, or
// for what go and defer call: "main.serve.func1.2", "main.serve.gowrap1".
func isClosure(function string) bool {
	last := function[strings.LastIndexByte(function, '.')+1:]
	for _, prefix := range []string{"func", "gowrap", "deferwrap"} {
		last = strings.TrimPrefix(last, prefix)
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}
