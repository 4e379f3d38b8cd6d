package main

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// newResources returns the resources server: its tools share one state under one
// lock.
func newResources(s settings) http.Handler {
	var state struct {
		sync.Mutex
		calls int
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /call", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(s.ResourcesDelay)
		state.Lock()
		state.calls++
		time.Sleep(s.ResourcesLock)
		state.Unlock()
		_, _ = io.WriteString(w, "a result")
	})
	return mux
}
