package main

import (
	"io"
	"net/http"
	"time"
)

// newResources returns the resources server: its tools read a disk, and share one
// state under one lock.
func newResources(s settings) http.Handler {
	state := &guarded{takes: s.ResourcesLock}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /call", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(s.ResourcesDelay)
		if s.ResourcesDisk > 0 {
			if err := readDisk(s.ResourcesDisk); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		state.add()
		_, _ = io.WriteString(w, "a result")
	})
	return mux
}
