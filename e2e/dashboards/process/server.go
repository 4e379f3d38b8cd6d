package main

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"github.com/gym-observer/observer"
)

// pause is between two rounds of whatever happens all the time.
const pause = 50 * time.Millisecond

// patience is that of the clients who leave.
const patience = 40 * time.Millisecond

func handler(model string) http.Handler {
	client := &http.Client{Transport: observer.Transport(nil)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /turn", func(w http.ResponseWriter, r *http.Request) {
		request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, model, nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		response, err := client.Do(request)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		response.Body.Close()
	})
	mux.HandleFunc("GET /fail", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "as asked", http.StatusInternalServerError)
	})
	mux.HandleFunc("GET /crash", func(http.ResponseWriter, *http.Request) { panic("as asked") })
	mux.HandleFunc("GET /wait", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	return mux
}

// visit asks for everything in turn, until ctx ends. /missing is not there.
func visit(ctx context.Context, server string) {
	for ctx.Err() == nil {
		for _, path := range []string{"/turn", "/missing", "/fail", "/crash", "/wait", "/stream"} {
			get(ctx, server+path)
		}
		time.Sleep(pause)
	}
}

// get leaves out of impatience. Errors are what the server is asked for.
func get(ctx context.Context, url string) {
	ctx, leave := context.WithTimeout(ctx, patience)
	defer leave()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	var buffer [512]byte
	for err == nil {
		_, err = response.Body.Read(buffer[:])
	}
}

// collect makes the collector run more often than this little garbage would.
func collect(ctx context.Context) {
	for ctx.Err() == nil {
		runtime.GC()
		time.Sleep(pause)
	}
}
