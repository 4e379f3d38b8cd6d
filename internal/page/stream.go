package page

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// updateInterval is the time between two events.
	updateInterval = time.Second

	// viewerBacklog is how many events a viewer may be behind before it is
	// dropped. They are shared, so that a viewer behind costs no memory.
	viewerBacklog = 8

	// writePatience is how long a viewer may take to accept one event.
	writePatience = 10 * time.Second

	// retryAfter is when a browser whose stream has ended comes back.
	retryAfter = 3 * time.Second
)

// streams sends server-sent events to all who look. One goroutine encodes them,
// once for all, and runs only while somebody looks.
type streams struct {
	handler *Handler

	mu      sync.Mutex // guards what follows
	viewers map[*viewer]bool
	servers map[*http.Server]bool // those whose Shutdown ends their streams
	rest    context.CancelFunc    // ends the encoding; set while somebody looks
}

// viewer is one stream.
type viewer struct {
	history *History
	server  *http.Server // nil where that is not known
	events  chan []byte  // closed when the stream has to end
}

// serve sends one whole document, and then what changes, until the viewer
// leaves, is too slow, or the observer stops.
func (s *streams) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // or nginx would hold events back
	if r.ProtoMajor == 1 {
		header.Set("Connection", "close") // the deadline of the last event must not hit another request
	}
	if r.Method == http.MethodHead {
		return
	}
	snapshot := s.handler.snapshot()
	v := &viewer{history: snapshot.History, events: make(chan []byte, viewerBacklog)}
	v.server, _ = r.Context().Value(http.ServerContextKey).(*http.Server)
	if v.history != nil {
		// Before the document is made: rows that come twice do no harm, as they are
		// numbered. Rows that never come would.
		s.join(v)
		defer s.leave(v)
	}
	whole := fmt.Appendf(nil, "retry: %d\nevent: whole\ndata: %s\n\n", retryAfter.Milliseconds(), s.handler.encodeAll(snapshot))
	if send(w, whole) != nil || v.history == nil {
		return
	}
	for {
		select {
		case event, more := <-v.events:
			if !more || send(w, event) != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// send writes one event. A deadline of its own lets it work on a server with a
// WriteTimeout, and ends the wait for a viewer who hangs.
func send(w http.ResponseWriter, event []byte) error {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(writePatience)) // not every writer has one
	if _, err := w.Write(event); err != nil {
		return err
	}
	return control.Flush()
}

// join adds a viewer, and starts to encode if that is the first.
func (s *streams) join(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.viewers == nil {
		s.viewers, s.servers = make(map[*viewer]bool), make(map[*http.Server]bool)
	}
	if len(s.viewers) == 0 {
		ctx, rest := context.WithCancel(context.Background())
		s.rest = rest
		go s.run(ctx, v.history, v.history.position())
	}
	s.viewers[v] = true
	if v.server != nil && !s.servers[v.server] {
		// Shutdown waits for streams, and would do so for as long as somebody looks.
		s.servers[v.server] = true
		v.server.RegisterOnShutdown(func() { s.endOf(v.server) })
	}
}

func (s *streams) leave(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(v)
}

// run encodes an event at each interval.
func (s *streams) run(ctx context.Context, history *History, read position) {
	ticker := time.NewTicker(updateInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		snapshot := s.handler.snapshot()
		if snapshot.History != history {
			history, read = snapshot.History, position{}
		}
		var encoded []byte
		encoded, read = s.handler.encodeSince(snapshot, read)
		s.deliver(ctx, history, fmt.Appendf(nil, "data: %s\n\n", encoded))
	}
}

// deliver hands an event to those who look at a history. It ends the streams of
// all others, and of those who are too far behind.
func (s *streams) deliver(ctx context.Context, history *History, event []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return // who looks now is served by another
	}
	for v := range s.viewers {
		if v.history != history {
			s.end(v)
			continue
		}
		select {
		case v.events <- event:
		default:
			s.end(v)
		}
	}
}

// end ends one stream; s.mu is held.
func (s *streams) end(v *viewer) {
	s.remove(v)
	close(v.events)
}

// remove forgets a viewer that may be forgotten already; s.mu is held.
func (s *streams) remove(v *viewer) {
	if !s.viewers[v] {
		return
	}
	delete(s.viewers, v)
	if len(s.viewers) == 0 {
		s.rest()
	}
}

// endOf ends the streams of a server that shuts down.
func (s *streams) endOf(server *http.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.servers, server)
	for v := range s.viewers {
		if v.server == server {
			s.end(v)
		}
	}
}
