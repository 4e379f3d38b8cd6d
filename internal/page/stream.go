package page

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gym-observer/observer/internal/monotonic"
)

const (
	// updateInterval is the time between two events.
	updateInterval = time.Second

	// viewerBacklog is how many events a viewer may be behind before it is
	// dropped. They are shared, so that a viewer behind costs no memory.
	viewerBacklog = 8

	// retryAfter is when a browser whose stream has ended comes back.
	retryAfter = 3 * time.Second
)

// streams sends server-sent events to all who look. One goroutine encodes them,
// once for all, and runs only while somebody looks.
type streams struct {
	handler *Handler

	mu      sync.Mutex // guards what follows
	viewers map[*viewer]bool
	whole   wholeEvent
	event   uint64             // how many changes there were of what a whole document has to contain
	rest    context.CancelFunc // ends the encoding; set while somebody looks
}

// streamsHere returns the streams that whoever asks may share. In a bubble of
// testing/synctest that is not its own, the page has others for each: a channel of
// the bubble that is used outside of it ends the process.
func (h *Handler) streamsHere() *streams {
	if monotonic.InBubble() == h.ofBubble {
		return &h.streams
	}
	return &streams{handler: h}
}

// wholeEvent is the whole document for all who come between two events. Made for
// each, it would cost 6 ms and 1.4 MiB: much, when many viewers come back at once.
type wholeEvent struct {
	making  sync.Mutex // held to make one
	encoded []byte     // nil without one
	history *History
}

// viewer is one stream.
type viewer struct {
	history *History
	events  chan []byte // closed when the stream has to end
}

// serve sends one whole document, and then what changes, until the viewer
// leaves, is too slow, or the observer stops or the server shuts down.
func (s *streams) serve(a *response, w http.ResponseWriter, r *http.Request) {
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
	if v.history != nil {
		// Before the document is made: rows that come twice do no harm, as they are
		// numbered. Rows that never come would.
		s.join(v)
		defer s.leave(v)
	}
	if send(a, s.wholeOf(snapshot)) != nil || v.history == nil {
		return
	}
	for {
		select {
		case event, more := <-v.events:
			if !more || send(a, event) != nil {
				return
			}
		case <-a.ctx.Done():
			return
		case <-a.leaving:
			return
		}
	}
}

// wholeOf returns the event with everything. It has all rows that the events
// before the next one have, also where it is an earlier viewer's.
func (s *streams) wholeOf(snapshot Snapshot) []byte {
	s.whole.making.Lock()
	defer s.whole.making.Unlock()
	s.mu.Lock()
	encoded, history, event := s.whole.encoded, s.whole.history, s.event
	s.mu.Unlock()
	if encoded != nil && history == snapshot.History {
		return encoded
	}
	encoded = fmt.Appendf(nil, "retry: %d\nevent: whole\ndata: %s\n\n", retryAfter.Milliseconds(), s.handler.encodeFirst(snapshot))
	s.mu.Lock()
	defer s.mu.Unlock()
	if event == s.event && snapshot.History != nil { // else rows have been delivered that it may not have
		s.whole.encoded, s.whole.history = encoded, snapshot.History
	}
	return encoded
}

// outdate forgets the whole document; s.mu is held.
func (s *streams) outdate() {
	s.event++
	s.whole.encoded, s.whole.history = nil, nil
}

// send writes one event.
func send(a *response, event []byte) error {
	if _, err := a.Write(event); err != nil {
		return err
	}
	return a.Flush()
}

// join adds a viewer, and starts to encode if that is the first.
func (s *streams) join(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.viewers == nil {
		s.viewers = make(map[*viewer]bool)
	}
	if len(s.viewers) == 0 {
		ctx, rest := context.WithCancel(context.Background())
		s.rest = rest
		go s.run(ctx, v.history, v.history.position())
	}
	s.viewers[v] = true
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
	s.outdate()
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
		s.outdate()
	}
}
