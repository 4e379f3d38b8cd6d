package observer_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

// bareWriter has nothing but what a ResponseWriter must have.
type bareWriter struct {
	header http.Header
	status int
	bytes  int64
}

func (w *bareWriter) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

func (w *bareWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *bareWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.bytes += int64(len(p))
	return len(p), nil
}

// commonWriter, http1Writer and http2Writer have the methods of net/http's own.
type commonWriter struct {
	bareWriter
	strings []string // of each WriteString
}

func (w *commonWriter) WriteString(s string) (int, error) {
	w.strings = append(w.strings, s)
	return w.Write([]byte(s))
}

func (w *commonWriter) Flush() { w.WriteHeader(http.StatusOK) }

func (w *commonWriter) FlushError() error { w.Flush(); return nil }

func (*commonWriter) CloseNotify() <-chan bool { return nil }

func (*commonWriter) SetReadDeadline(time.Time) error { return nil }

func (*commonWriter) SetWriteDeadline(time.Time) error { return nil }

func (*commonWriter) EnableFullDuplex() error { return nil }

type http1Writer struct {
	commonWriter
	sources []io.Reader // of each ReadFrom
	refusal error       // of Hijack
}

func (w *http1Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, w.refusal }

func (w *http1Writer) ReadFrom(source io.Reader) (int64, error) {
	w.sources = append(w.sources, source)
	return io.Copy(&w.bareWriter, source)
}

type http2Writer struct{ commonWriter }

func (*http2Writer) Push(string, *http.PushOptions) error { return nil }

// otherWriter has the methods of both, which neither of net/http's has, and the
// two below have those of HTTP/2 and one more.
type otherWriter struct{ http1Writer }

func (*otherWriter) Push(string, *http.PushOptions) error { return nil }

type (
	pushingReader   struct{ http2Writer }
	pushingHijacker struct{ http2Writer }
)

func (*pushingReader) ReadFrom(io.Reader) (int64, error) { return 0, nil }

func (*pushingHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

// kinds are a writer that gets a direct wrapper and one that does not.
var kinds = map[string]func() (http.ResponseWriter, *http1Writer){
	"direct": func() (http.ResponseWriter, *http1Writer) { w := new(http1Writer); return w, w },
	"other":  func() (http.ResponseWriter, *http1Writer) { w := new(otherWriter); return w, &w.http1Writer },
}

// interfaces lists which of the optional interfaces of a writer w has.
func interfaces(w http.ResponseWriter) []string {
	var has []string
	add := func(name string, ok bool) {
		if ok {
			has = append(has, name)
		}
	}
	_, ok := w.(http.Flusher)
	add("Flusher", ok)
	_, ok = w.(interface{ FlushError() error })
	add("FlushError", ok)
	_, ok = w.(http.Hijacker)
	add("Hijacker", ok)
	_, ok = w.(http.Pusher)
	add("Pusher", ok)
	_, ok = w.(io.ReaderFrom)
	add("ReaderFrom", ok)
	_, ok = w.(io.StringWriter)
	add("StringWriter", ok)
	_, ok = w.(interface{ CloseNotify() <-chan bool })
	add("CloseNotifier", ok)
	_, ok = w.(interface {
		SetReadDeadline(time.Time) error
		SetWriteDeadline(time.Time) error
	})
	add("deadlines", ok)
	_, ok = w.(interface{ EnableFullDuplex() error })
	add("EnableFullDuplex", ok)
	return has
}

func TestWriterKeepsItsInterfaces(t *testing.T) {
	observe(t)
	for _, base := range []http.ResponseWriter{
		new(bareWriter), new(commonWriter), new(http1Writer), new(http2Writer),
		new(otherWriter), new(pushingReader), new(pushingHijacker), httptest.NewRecorder(),
	} {
		t.Run(fmt.Sprintf("%T", base), func(t *testing.T) {
			observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				assert.NotSame(t, base, w)
				assert.Equal(t, interfaces(base), interfaces(w))
				unwrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
				if assert.True(t, ok) {
					assert.Same(t, base, unwrapper.Unwrap())
				}
			})).ServeHTTP(base, httptest.NewRequest(http.MethodGet, "/", nil))
		})
	}
}

func TestWritersOfTheServerKeepTheirInterfacesAndGetTheDirectWrapper(t *testing.T) {
	wrappers := map[string]string{http1Protocol: "*response.http1Response", http2Protocol: "*response.http2Response"}
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			observe(t)
			var got [2][]string
			var wrapper string
			handler := func(i int) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					got[i] = interfaces(w)
					wrapper = fmt.Sprintf("%T", w)
				})
			}
			serve(t, protocol, handler(0)).get(t, "/")
			serve(t, protocol, observer.Middleware(handler(1))).get(t, "/")
			assert.Equal(t, got[0], got[1])
			assert.Equal(t, wrappers[protocol], wrapper)
		})
	}
}

func TestWriterIsTheBaseWhileNothingObserves(t *testing.T) {
	base := new(http1Writer)
	observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.Same(t, base, w)
	})).ServeHTTP(base, httptest.NewRequest(http.MethodGet, "/", nil))
}

func TestWriteStringReachesTheBase(t *testing.T) {
	observe(t)
	for kind, writer := range kinds {
		t.Run(kind, func(t *testing.T) {
			base, written := writer()
			handle(base, http.MethodGet, func(w http.ResponseWriter, _ func()) { io.WriteString(w, "body") })
			assert.Equal(t, []string{"body"}, written.strings)
		})
	}
}

// flushErrorWriter has no Flush beside its FlushError.
type flushErrorWriter struct{ bareWriter }

func (*flushErrorWriter) FlushError() error { return io.ErrClosedPipe }

func TestFlushErrorAlone(t *testing.T) {
	o := observe(t)
	handle(new(flushErrorWriter), http.MethodGet, func(w http.ResponseWriter, leave func()) {
		assert.ErrorIs(t, http.NewResponseController(w).Flush(), io.ErrClosedPipe)
		leave()
	})
	assert.Equal(t, counts{Responses: statuses{200: 1}, Cancellations: leftAfter(observer.UnmatchedRoute)}, o.counted())
}

// throwing is a source that panics after its first byte.
type throwing struct{ read bool }

func (s *throwing) Read(p []byte) (int, error) {
	if s.read {
		panic("no more")
	}
	s.read = true
	return copy(p, "x"), nil
}

// starts are the ways to start a response, on every kind of writer that has the
// method.
var starts = map[string]func(http.ResponseWriter){
	"WriteHeader":         func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) },
	"Write":               func(w http.ResponseWriter) { w.Write([]byte("x")) },
	"Write of nothing":    func(w http.ResponseWriter) { w.Write(nil) },
	"WriteString":         func(w http.ResponseWriter) { io.WriteString(w, "x") },
	"Flush":               func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
	"FlushError":          func(w http.ResponseWriter) { w.(interface{ FlushError() error }).FlushError() },
	"controller's Flush":  func(w http.ResponseWriter) { http.NewResponseController(w).Flush() },
	"ReadFrom":            func(w http.ResponseWriter) { w.(io.ReaderFrom).ReadFrom(strings.NewReader("x")) },
	"ReadFrom that fails": func(w http.ResponseWriter) { defer func() { recover() }(); w.(io.ReaderFrom).ReadFrom(new(throwing)) },
}

// handle lets a handler serve one request on base whose client leaves when the
// handler says so.
func handle(base http.ResponseWriter, method string, handler func(w http.ResponseWriter, leave func())) {
	r, leave := endable(method, cancelled)
	observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		handler(w, leave)
	})).ServeHTTP(base, r)
}

func TestWhatStartsAResponse(t *testing.T) {
	for kind, writer := range kinds {
		for name, start := range starts {
			t.Run(kind+"/"+name, func(t *testing.T) {
				o := observe(t)
				base, _ := writer()
				handle(base, http.MethodGet, func(w http.ResponseWriter, leave func()) {
					start(w)
					leave()
				})
				assert.Equal(t, counts{
					Responses:     statuses{200: 1},
					Cancellations: leftAfter(observer.UnmatchedRoute),
				}, o.counted(), "started, then left")

				o = observe(t)
				base, _ = writer()
				handle(base, http.MethodGet, func(w http.ResponseWriter, leave func()) {
					leave()
					start(w)
				})
				assert.Equal(t, counts{Cancellations: leftBefore(observer.UnmatchedRoute)}, o.counted(), "left, then started")
			})
		}
	}
}

func TestWhatDoesNotStartAResponse(t *testing.T) {
	for name, act := range map[string]func(http.ResponseWriter){
		"nothing":                func(http.ResponseWriter) {},
		"Header":                 func(w http.ResponseWriter) { w.Header().Set("Content-Length", "0") },
		"informational":          func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) },
		"ReadFrom of nothing":    func(w http.ResponseWriter) { w.(io.ReaderFrom).ReadFrom(strings.NewReader("")) },
		"ReadFrom with an error": func(w http.ResponseWriter) { w.(io.ReaderFrom).ReadFrom(iotest.ErrReader(io.EOF)) },
		"deadline":               func(w http.ResponseWriter) { http.NewResponseController(w).SetWriteDeadline(time.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			o := observe(t)
			handle(new(http1Writer), http.MethodGet, func(w http.ResponseWriter, leave func()) {
				act(w)
				leave()
			})
			assert.Equal(t, counts{Cancellations: leftBefore(observer.UnmatchedRoute)}, o.counted())
		})
	}
}

func TestCompleteResponseIsNoCancellation(t *testing.T) {
	declare := func(length string, body ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", length)
			for _, part := range body {
				io.WriteString(w, part)
			}
		}
	}
	status := func(status int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(status) }
	}
	for _, test := range []struct {
		name, method string
		answer       func(http.ResponseWriter)
		complete     bool
	}{
		{"written in full", "GET", declare("6", "abc", "def"), true},
		{"a byte short", "GET", declare("7", "abc", "def"), false},
		{"nothing declared", "GET", func(w http.ResponseWriter) { io.WriteString(w, "abc") }, false},
		{"invalid length", "GET", declare("3 bytes", "abc"), false},
		{"negative length", "GET", declare("-1", "abc"), false},
		{"empty body declared", "GET", func(w http.ResponseWriter) { declare("0")(w); w.WriteHeader(200) }, true},
		{"HEAD", "HEAD", declare("1000", ""), true},
		{"204", "GET", status(204), true},
		{"304", "GET", status(304), true},
		{"200 without a body", "GET", status(200), false},
		{"declared after the head", "GET", func(w http.ResponseWriter) { io.WriteString(w, "abc"); declare("3")(w) }, false},
		{"declaration removed after the head", "GET", func(w http.ResponseWriter) { declare("3", "abc")(w); w.Header().Del("Content-Length") }, true},
		{"read from a source", "GET", func(w http.ResponseWriter) {
			declare("1000")(w)
			w.(io.ReaderFrom).ReadFrom(strings.NewReader(strings.Repeat("x", 1000)))
		}, true},
		{"read from a source that is short", "GET", func(w http.ResponseWriter) {
			declare("1000")(w)
			w.(io.ReaderFrom).ReadFrom(strings.NewReader(strings.Repeat("x", 999)))
		}, false},
	} {
		for kind, writer := range kinds {
			t.Run(kind+"/"+test.name, func(t *testing.T) {
				o := observe(t)
				base, written := writer()
				handle(base, test.method, func(w http.ResponseWriter, leave func()) {
					test.answer(w)
					leave()
				})
				want := counts{Responses: statuses{written.status: 1}}
				if !test.complete {
					want.Cancellations = leftAfter(observer.UnmatchedRoute)
				}
				assert.Equal(t, want, o.counted())
			})
		}
	}
}

func TestLengthDeclaredByAnOuterHandler(t *testing.T) {
	o, base := observe(t), new(http1Writer)
	base.Header().Set("Content-Length", "3")
	handle(base, http.MethodGet, func(w http.ResponseWriter, leave func()) {
		io.WriteString(w, "abc")
		leave()
	})
	assert.Equal(t, counts{Responses: statuses{200: 1}}, o.counted())
}

func TestMethodIsTheClients(t *testing.T) {
	o := observe(t)
	r, leave := endable(http.MethodHead, cancelled)
	observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Method = http.MethodGet
		w.WriteHeader(http.StatusOK)
		leave()
	})).ServeHTTP(new(http1Writer), r)
	assert.Equal(t, counts{Responses: statuses{200: 1}}, o.counted())
}

func TestCompleteResponseWrittenForNobodyIsACancellation(t *testing.T) {
	o := observe(t)
	handle(new(http1Writer), http.MethodHead, func(w http.ResponseWriter, leave func()) {
		leave()
		w.WriteHeader(http.StatusNoContent)
	})
	assert.Equal(t, counts{Cancellations: leftBefore(observer.UnmatchedRoute)}, o.counted())
}

func TestClientLeavesACompleteResponseOfARealServer(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			o := observe(t)
			s := serve(t, protocol, observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "4")
				io.WriteString(w, "done")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			response, err := s.Client().Do(s.request(t, http.MethodGet, "/").WithContext(ctx))
			require.NoError(t, err)
			_, err = io.ReadFull(response.Body, make([]byte, 4))
			require.NoError(t, err)
			leave()
			s.CloseClientConnections()
			receive(t, s.ended)
			assert.Equal(t, counts{Responses: statuses{200: 1}}, o.counted())
		})
	}
}

func TestCancelledHijackIsNoCancellation(t *testing.T) {
	for kind, writer := range kinds {
		t.Run(kind, func(t *testing.T) {
			o := observe(t)
			base, _ := writer()
			handle(base, http.MethodGet, func(w http.ResponseWriter, leave func()) {
				_, _, err := w.(http.Hijacker).Hijack()
				assert.NoError(t, err)
				leave()
			})
			assert.Zero(t, o.counted())
		})
	}
}

func TestRefusedHijackIsNone(t *testing.T) {
	o := observe(t)
	handle(&http1Writer{refusal: http.ErrNotSupported}, http.MethodGet, func(w http.ResponseWriter, _ func()) {
		_, _, err := w.(http.Hijacker).Hijack()
		assert.ErrorIs(t, err, http.ErrNotSupported)
		w.WriteHeader(http.StatusNotImplemented)
	})
	assert.Equal(t, counts{Responses: statuses{501: 1}}, o.counted())
}

func TestWriterUsedAfterTheHandlerReturnedCountsNothing(t *testing.T) {
	for _, base := range []http.ResponseWriter{new(http1Writer), new(otherWriter)} {
		o := observe(t)
		var kept http.ResponseWriter
		handle(base, http.MethodGet, func(w http.ResponseWriter, _ func()) { kept = w })
		counted := o.counted()
		kept.WriteHeader(http.StatusInternalServerError)
		io.WriteString(kept, "late")
		assert.Equal(t, counts{Responses: statuses{200: 1}}, counted)
		assert.Equal(t, counted, o.counted())
	}
}

// The writer of http.TimeoutHandler is safe for concurrent use, and stays so.
func TestWriterUsedByManyGoroutines(t *testing.T) {
	o := observe(t)
	s := serve(t, http1Protocol, http.TimeoutHandler(observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		var writers sync.WaitGroup
		for range 8 {
			writers.Go(func() {
				w.WriteHeader(http.StatusAccepted)
				w.Write([]byte("x"))
			})
		}
		writers.Wait()
	})), time.Minute, ""))

	_, body := s.get(t, "/")

	assert.Equal(t, "xxxxxxxx", body)
	assert.Equal(t, counts{Responses: statuses{202: 1}}, o.counted())
}
