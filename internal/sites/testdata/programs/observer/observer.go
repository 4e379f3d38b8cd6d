// Package observer stands in for the one whose names tell whose a goroutine is,
// and prints the stacks of the program that it is built into.
package observer

import (
	"encoding/json"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

type middleware struct{ next http.Handler }

func Middleware(next http.Handler) http.Handler { return &middleware{next} }

func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.next.ServeHTTP(w, r) }

type frame struct {
	Function, File string
	Line           int
}

type stack struct {
	Frames []frame
	Count  int
	Cut    bool
}

// Serve starts a request whose handler waits.
func Serve(handler http.Handler) { go Middleware(handler).ServeHTTP(nil, nil) }

// Print prints what a reader of stacks needs, once all goroutines had time to
// get where they wait.
func Print() {
	time.Sleep(300 * time.Millisecond)
	records := make([]runtime.StackRecord, 1000)
	n, _ := runtime.GoroutineProfile(records)
	stacks := []stack{}
	for _, record := range records[1:n] {
		s := stack{Count: 1}
		frames := runtime.CallersFrames(record.Stack())
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			s.Frames = append(s.Frames, frame{f.Function, f.File, f.Line})
		}
		s.Cut = len(record.Stack()) == 32 && s.Frames[31].Function != "runtime.goexit"
		stacks = append(stacks, s)
	}
	var pc [1]uintptr
	runtime.Callers(0, pc[:])
	extern, _ := runtime.CallersFrames(pc[:]).Next()
	build := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		build = info.String()
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", " ")
	_ = out.Encode(map[string]any{"Build": build, "Extern": extern.File, "Stacks": stacks})
}
