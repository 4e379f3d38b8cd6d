package page

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// source is a process whose history a test writes.
type source struct {
	asked   atomic.Int64
	history atomic.Pointer[History]
}

func newSource() *source {
	s := new(source)
	s.history.Store(new(History))
	return s
}

func (s *source) snapshot() Snapshot {
	s.asked.Add(1)
	return Snapshot{Verdict: "none", History: s.history.Load()}
}

func (s *source) second(inFlight float64) {
	s.history.Load().AddSecond(&Second{At: InstantOf(time.Now()), Length: time.Second, InFlight: inFlight})
}

// viewing is one stream, whose writer a test may hold up.
type viewing struct {
	header  http.Header
	written chan string
	leave   context.CancelFunc
	done    chan struct{}

	free     chan struct{} // what the writer takes and gives back; without it, it hangs
	deadline time.Time
}

func (v *viewing) Header() http.Header { return v.header }
func (v *viewing) WriteHeader(int)     {}

func (v *viewing) Write(text []byte) (int, error) {
	<-v.free
	v.free <- struct{}{}
	v.written <- string(text)
	return len(text), nil
}

func (v *viewing) FlushError() error { return nil }

func (v *viewing) SetWriteDeadline(deadline time.Time) error {
	v.deadline = deadline
	return nil
}

// view opens a stream.
func view(t *testing.T, h *Handler) *viewing {
	ctx, leave := context.WithCancel(t.Context())
	v := &viewing{header: make(http.Header), written: make(chan string, 1000), leave: leave, done: make(chan struct{}), free: make(chan struct{}, 1)}
	v.free <- struct{}{}
	go func() {
		defer close(v.done)
		h.ServeHTTP(v, httptest.NewRequest(http.MethodGet, "/?format=events", nil).WithContext(ctx))
	}()
	synctest.Wait()
	return v
}

// received returns what has come, as far as it is an event of a name.
func (v *viewing) received(t *testing.T, name string) (documents []document) {
	t.Helper()
	for {
		select {
		case text := <-v.written:
			found := ""
			for line := range strings.Lines(text) {
				if after, ok := strings.CutPrefix(line, "event: "); ok {
					found = strings.TrimSpace(after)
				}
				if data, ok := strings.CutPrefix(line, "data: "); ok && found == name {
					var d document
					require.NoError(t, json.Unmarshal([]byte(data), &d))
					documents = append(documents, d)
				}
			}
			require.True(t, strings.HasSuffix(text, "\n\n"), "%q", text)
		default:
			return documents
		}
	}
}

func inFlightOf(documents ...document) (all []float64) {
	for _, d := range documents {
		for _, s := range d.History.Seconds {
			all = append(all, s.InFlight)
		}
	}
	return all
}

func TestStreamSendsTheWholeAndThenWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		h := New(text, s.snapshot)
		s.second(1)
		time.Sleep(time.Second)
		s.second(2)
		v := view(t, h)
		assert.Equal(t, "text/event-stream", v.header.Get("Content-Type"))
		whole := v.received(t, "whole")
		require.Equal(t, 1, len(whole))
		assert.Equal(t, []float64{1, 2}, inFlightOf(whole...))
		assert.NotEmpty(t, whole[0].Causes)

		for i := range 3 {
			s.second(float64(3 + i))
			time.Sleep(updateInterval)
		}
		synctest.Wait()
		updates := v.received(t, "")
		assert.Equal(t, 3, len(updates))
		assert.Equal(t, []float64{3, 4, 5}, inFlightOf(updates...))
		assert.Nil(t, updates[0].Causes)

		time.Sleep(5 * updateInterval) // while nothing is new
		synctest.Wait()
		assert.Equal(t, 5, len(v.received(t, "")), "signs of life")
		v.leave()
		<-v.done
	})
}

func TestNoRowIsLostToALaterViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		h := New(text, s.snapshot)
		first := view(t, h)
		var later []*viewing
		for i := range 20 {
			s.second(float64(i))
			time.Sleep(updateInterval / 3)
			later = append(later, view(t, h))
		}
		time.Sleep(2 * updateInterval)
		synctest.Wait()
		for _, v := range append(later, first) {
			numbers := make(map[uint64]bool)
			for {
				text, more := tryReceive(v.written)
				if !more {
					break
				}
				var d document
				_, data, _ := strings.Cut(text, "data: ")
				require.NoError(t, json.Unmarshal([]byte(data), &d))
				for _, row := range d.History.Seconds {
					numbers[row.Number] = true
				}
			}
			assert.Equal(t, 20, len(numbers))
			v.leave()
			<-v.done
		}
	})
}

func tryReceive(from chan string) (text string, received bool) {
	select {
	case text = <-from:
		return text, true
	default:
		return "", false
	}
}

func TestManyViewersCostOneEncoding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		h := New(text, s.snapshot)
		var all []*viewing
		for range 50 {
			all = append(all, view(t, h))
		}
		before := s.asked.Load()
		time.Sleep(10 * updateInterval)
		synctest.Wait()
		assert.Equal(t, int64(10), s.asked.Load()-before, "snapshots in ten intervals")
		for _, v := range all {
			assert.Equal(t, 10, len(v.received(t, "")))
			v.leave()
			<-v.done
		}
		before = s.asked.Load()
		time.Sleep(10 * updateInterval)
		assert.Equal(t, before, s.asked.Load(), "nobody looks any more")
	})
}

func TestSlowViewerIsDroppedAndTheOthersAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		h := New(text, s.snapshot)
		slow, quick := view(t, h), view(t, h)
		<-slow.free // its connection takes nothing
		time.Sleep(viewerBacklog * updateInterval)
		synctest.Wait()
		h.streams.mu.Lock()
		assert.Equal(t, 2, len(h.streams.viewers), "it may be behind")
		h.streams.mu.Unlock()
		time.Sleep(5 * updateInterval)
		synctest.Wait()
		h.streams.mu.Lock()
		assert.Equal(t, 1, len(h.streams.viewers), "but not as far as that")
		h.streams.mu.Unlock()
		assert.Equal(t, viewerBacklog+5, len(quick.received(t, "")))
		assert.WithinDuration(t, time.Now(), quick.deadline, writePatience)
		slow.free <- struct{}{}
		<-slow.done
		quick.leave()
		<-quick.done
	})
}

func TestStreamEndsWithTheObserver(t *testing.T) {
	for name, next := range map[string]*History{"stopped": nil, "started again": new(History)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource()
				v := view(t, New(text, s.snapshot))
				s.history.Store(next)
				time.Sleep(updateInterval)
				synctest.Wait()
				select {
				case <-v.done:
				default:
					t.Error("the stream goes on")
				}
				v.leave()
			})
		})
	}
}

func TestStreamOfNothingSaysSoAndEnds(t *testing.T) {
	answer := get(handlerOf(Snapshot{Summary: "nothing observes"}), "/?format=events")
	assert.Regexp(t, `^retry: 3000\nevent: whole\ndata: \{.*"summary":"nothing observes".*\}\n\n$`, answer.Body.String())
}

func TestStreamOfAWriterThatFailsEnds(t *testing.T) {
	s := newSource()
	New(text, s.snapshot).ServeHTTP(failing{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/?format=events", nil))
}

type failing struct{ http.ResponseWriter }

func (failing) Write([]byte) (int, error) { return 0, errors.New("the connection is gone") }

// Streams over real connections.

func TestStreamOutlivesTheServersWriteTimeout(t *testing.T) {
	s := newSource()
	server := httptest.NewUnstartedServer(New(text, s.snapshot))
	server.Config.WriteTimeout = 100 * time.Millisecond
	server.Start()
	defer server.Close()
	answer, err := http.Get(server.URL + "?format=events")
	require.NoError(t, err)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	events := 0
	for events < 3 && lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: ") {
			events++
		}
	}
	require.NoError(t, lines.Err())
	assert.Equal(t, 3, events)
}

// A connection that nobody reads from costs its goroutine, until the deadline.
func TestHangingViewerHoldsUpNobody(t *testing.T) {
	s := newSource()
	s.history.Store(full())
	server := httptest.NewServer(New(text, s.snapshot))
	defer server.CloseClientConnections()
	for range 10 {
		connection, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		defer connection.Close()
		_, err = io.WriteString(connection, "GET /?format=events HTTP/1.1\r\nHost: page\r\n\r\n")
		require.NoError(t, err)
	}
	answer, err := http.Get(server.URL + "?format=json")
	require.NoError(t, err)
	defer answer.Body.Close()
	var d document
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&d))
	assert.Equal(t, 600, len(d.History.Seconds))
}

// full returns a history of the last ten minutes.
func full() *History {
	h, now := new(History), time.Now()
	for i := range rows {
		h.AddSecond(&Second{At: InstantOf(now.Add(time.Duration(i-rows+1) * 990 * time.Millisecond))})
	}
	return h
}

func TestViewersBetweenTwoEventsShareOneDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		s.second(1)
		h := New(text, s.snapshot)
		first := view(t, h)
		asked := s.asked.Load()
		whole := h.streams.wholeOf(s.snapshot())
		assert.Same(t, &whole[0], &h.streams.wholeOf(s.snapshot())[0])
		s.second(2)
		time.Sleep(updateInterval)
		synctest.Wait()
		assert.NotSame(t, &whole[0], &h.streams.wholeOf(s.snapshot())[0], "rows have come")
		assert.Greater(t, s.asked.Load(), asked)
		first.leave()
		<-first.done
	})
}

// deadlines is a writer that notes the deadlines that it was given.
type deadlines struct {
	*httptest.ResponseRecorder
	all []time.Time
}

func (d *deadlines) SetWriteDeadline(deadline time.Time) error {
	d.all = append(d.all, deadline)
	return nil
}

// Whatever it is that he is sent: each piece has its time, and the connection is
// given back without a deadline.
func TestSlowViewerHasTimeForEachPiece(t *testing.T) {
	s := newSource()
	s.history.Store(full())
	synctest.Test(t, func(t *testing.T) {
		h := New(text, s.snapshot)
		h.open = opening(&slowFile{ReaderAt: bytes.NewReader(make([]byte, 3*pieceSize))}, 3*pieceSize)
		for _, query := range queries {
			ctx, leave := context.WithTimeout(t.Context(), updateInterval/2)
			w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/"+query, nil))
			leave()
			require.Greater(t, len(w.all), w.Body.Len()/pieceSize, "%q", query)
			require.Greater(t, w.Body.Len(), pieceSize, "%q", query)
			assert.WithinDuration(t, time.Now(), w.all[0], writePatience, "%q", query)
			if query != "?format=events" { // whose viewer has gone
				assert.Zero(t, w.all[len(w.all)-1], "%q", query)
			}
		}
	})
}
