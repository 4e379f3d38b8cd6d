package page

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"
	"weak"
)

const (
	// writePatience is how long a viewer may take to accept one piece of an answer.
	// Over a thin line a whole document takes a minute; a viewer that hangs takes
	// nothing.
	writePatience = 10 * time.Second
	pieceSize     = 16 << 10

	// shutdownGrace is what is left to an answer under way when its server shuts
	// down. Shutdown waits for the slowest, and looks twice a second.
	shutdownGrace = 250 * time.Millisecond
)

// response is one answer of the page, whatever it is. Each is written in pieces
// with a deadline of their own, and ends with the Shutdown of its server.
type response struct {
	ctx     context.Context // ends when the viewer is gone, or a grace after leaving
	leaving chan struct{}   // closed when the server shuts down
	control *http.ResponseController
	w       http.ResponseWriter

	mu     sync.Mutex // guards what follows
	cancel context.CancelFunc
	final  bool // the deadline that is set stays
	over   bool // the writer is no longer this answer's
}

// Write writes in pieces.
func (a *response) Write(text []byte) (written int, err error) {
	for piece := range slices.Chunk(text, pieceSize) {
		a.extend()
		n, err := a.w.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Flush sends what is written.
func (a *response) Flush() error {
	a.extend()
	return a.control.Flush()
}

// extend gives the viewer the time for another piece. A deadline of its own lets
// an answer take longer than the WriteTimeout of the server.
func (a *response) extend() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.final {
		_ = a.control.SetWriteDeadline(time.Now().Add(writePatience)) // not every writer has one
	}
}

// limit leaves so much time to what is written from now on, also to a write that
// waits for its viewer now.
func (a *response) limit(rest time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over {
		a.final = true
		_ = a.control.SetWriteDeadline(time.Now().Add(rest))
	}
}

// leave ends the answer within the grace: its server shuts down.
func (a *response) leave() {
	close(a.leaving)
	a.limit(shutdownGrace)
	time.AfterFunc(shutdownGrace, a.cancel)
}

// finish gives the connection back without a deadline: it must not hit the next
// request. What is written has to be sent before, as nothing would limit that.
func (a *response) finish() {
	_ = a.Flush()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if !a.final {
		_ = a.control.SetWriteDeadline(time.Time{})
	}
	a.cancel()
}

// underway has the answers under way, by their servers: a Shutdown would wait for
// as long as somebody looks, or does not even look.
type underway struct {
	mu      sync.Mutex // guards what follows
	servers map[weak.Pointer[http.Server]]*serving
}

type serving struct {
	leaving bool
	answers map[*response]bool
}

// begin makes an answer to r. All requests of the page come here and not only
// those that take long, since a hook that is given to a server that shuts down
// already is never called, and the page itself comes first.
func (s *underway) begin(w http.ResponseWriter, r *http.Request) (a *response, end func()) {
	ctx, cancel := context.WithCancel(r.Context())
	a = &response{ctx: ctx, cancel: cancel, leaving: make(chan struct{}), control: http.NewResponseController(w), w: w}
	// A viewer that has gone holds a write up until its deadline.
	stop := context.AfterFunc(r.Context(), func() { a.limit(0) })
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if server == nil {
		return a, func() { stop(); a.finish() }
	}
	key := weak.Make(server)
	s.mu.Lock()
	known := s.servers[key]
	if known == nil {
		known = &serving{answers: make(map[*response]bool)}
		s.add(server, key, known)
	}
	known.answers[a] = true
	leaving := known.leaving
	s.mu.Unlock()
	if leaving {
		a.leave()
	}
	return a, func() {
		stop()
		a.finish()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(known.answers, a)
	}
}

// add knows a server until it is collected; s.mu is held. Kept by a weak pointer
// alone, each server that ever served the page would leave an entry behind.
func (s *underway) add(server *http.Server, key weak.Pointer[http.Server], known *serving) {
	if s.servers == nil {
		s.servers = make(map[weak.Pointer[http.Server]]*serving)
	}
	s.servers[key] = known
	runtime.AddCleanup(server, s.forget, key)
	server.RegisterOnShutdown(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if known.leaving {
			return
		}
		known.leaving = true
		for a := range known.answers {
			a.leave()
		}
	})
}

func (s *underway) forget(key weak.Pointer[http.Server]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.servers, key)
}
