package observer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"golang.org/x/net/http2"

	"github.com/gym-observer/observer"
)

// observation shows what was counted since observe. The totals are the
// process's and go on from test to test, so that tests look at differences.
type observation struct {
	*observed
	metrics *observer.RequestMetrics
	before  observer.RequestCounts
}

// observe observes this process until the test ends.
func observe(t testing.TB) *observation {
	t.Helper()
	o := start(t, "test")
	metrics := observer.Requests()
	return &observation{observed: o, metrics: metrics, before: metrics.Counts()}
}

// counted returns what was counted since, with nil for an empty map.
func (o *observation) counted() observer.RequestCounts {
	now := o.metrics.Counts()
	return observer.RequestCounts{
		InFlight:            now.InFlight - o.before.InFlight,
		OutboundInFlight:    now.OutboundInFlight - o.before.OutboundInFlight,
		UnhandledExceptions: now.UnhandledExceptions - o.before.UnhandledExceptions,
		Responses:           grown(o.before.Responses, now.Responses),
		Cancellations:       grown(o.before.Cancellations, now.Cancellations),
	}
}

func grown[K comparable](before, now map[K]int64) map[K]int64 {
	var grown map[K]int64
	for key, n := range now {
		if n -= before[key]; n != 0 {
			if grown == nil {
				grown = make(map[K]int64)
			}
			grown[key] = n
		}
	}
	return grown
}

type (
	counts        = observer.RequestCounts
	statuses      = map[int]int64
	cancellations = map[observer.Cancellation]int64
)

// leftBefore and leftAfter are one cancelled request before and after the
// response had started.
func leftBefore(route string) cancellations {
	return cancellations{{Route: route}: 1}
}

func leftAfter(route string) cancellations {
	return cancellations{{Route: route, ResponseStarted: true}: 1}
}

// site is a real server on loopback.
type site struct {
	*httptest.Server
	ended chan struct{} // a value for each request that the handler, with its middleware, is done with
	log   chan string   // what net/http logs
}

const (
	http1Protocol = "HTTP/1.1"
	http2Protocol = "HTTP/2.0"
)

var protocols = []string{http1Protocol, http2Protocol}

// newSite returns a site that does not run yet.
func newSite(t testing.TB, protocol string, handler http.Handler) *site {
	s := &site{ended: make(chan struct{}, 10_000), log: make(chan string, 10_000)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { s.ended <- struct{}{} }()
		handler.ServeHTTP(w, r)
	}))
	s.EnableHTTP2 = protocol == http2Protocol
	s.Config.ErrorLog = log.New(logTo(s.log), "", 0)
	t.Cleanup(s.Close)
	return s
}

// serve runs a site until the test ends.
func serve(t testing.TB, protocol string, handler http.Handler) *site {
	s := newSite(t, protocol, handler)
	if s.EnableHTTP2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	return s
}

type logTo chan<- string

func (entries logTo) Write(entry []byte) (int, error) {
	entries <- string(entry)
	return len(entry), nil
}

// receive returns the next value of a channel, or fails the test.
func receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(20 * time.Second):
		require.FailNow(t, "nothing came within 20 s")
		panic("not reached")
	}
}

func (s *site) request(t testing.TB, method, path string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
	require.NoError(t, err)
	return request
}

// do sends a request, waits until the handler is done with it, and returns the
// response with its body.
func (s *site) do(t testing.TB, request *http.Request) (*http.Response, string) {
	t.Helper()
	response, err := s.Client().Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	receive(t, s.ended)
	return response, string(body)
}

func (s *site) get(t testing.TB, path string) (*http.Response, string) {
	t.Helper()
	return s.do(t, s.request(t, http.MethodGet, path))
}

// fail sends a request that the handler lets end without a response.
func (s *site) fail(t testing.TB, path string) {
	t.Helper()
	response, err := s.Client().Do(s.request(t, http.MethodGet, path))
	if err == nil { // the head had gone out
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	require.Error(t, err)
	receive(t, s.ended)
}

// begin sends a request whose client leaves when told to, and returns when it
// has left.
func (s *site) begin(t testing.TB, request *http.Request) (leave func()) {
	ctx, cancel := context.WithCancel(request.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		response, err := s.Client().Do(request.WithContext(ctx))
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}()
	return func() {
		cancel()
		receive(t, gone)
	}
}

// dial opens a connection and sends a request on it, as its text.
func (s *site) dial(t testing.TB, path string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: example.com\r\n\r\n", path)
	require.NoError(t, err)
	return conn.(*net.TCPConn)
}

// untilLeft is a handler that says when it is entered and waits for the client
// to leave.
type untilLeft chan struct{}

func (entered untilLeft) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	entered <- struct{}{}
	<-r.Context().Done()
}

func TestH01ClientHangsUpBeforeAnyByte(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			o, entered, mux := observe(t), make(untilLeft), http.NewServeMux()
			mux.Handle("GET /slow/{id}", entered)
			s := serve(t, protocol, observer.Middleware(mux))

			leave := s.begin(t, s.request(t, http.MethodGet, "/slow/17"))
			receive(t, entered)
			assert.Equal(t, counts{InFlight: 1}, o.counted())
			leave()

			receive(t, s.ended)
			assert.Equal(t, counts{Cancellations: leftBefore("/slow/{id}")}, o.counted())
		})
	}
}

func TestH02HTTP2CancelWithUnreadBody(t *testing.T) {
	o, entered, finish := observe(t), make(chan string), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /unread", func(_ http.ResponseWriter, r *http.Request) {
		entered <- r.RemoteAddr
		<-r.Context().Done()
	})
	mux.HandleFunc("GET /finishes", func(_ http.ResponseWriter, r *http.Request) {
		entered <- r.RemoteAddr
		<-finish
	})
	s := serve(t, http2Protocol, observer.Middleware(mux))
	endless, neverWritten := io.Pipe()
	defer neverWritten.Close()
	unread := s.request(t, http.MethodPost, "/unread")
	unread.Body = endless

	leave := s.begin(t, unread)
	first := receive(t, entered)
	finished := make(chan int)
	go func() {
		response, err := s.Client().Get(s.URL + "/finishes")
		if assert.NoError(t, err) {
			response.Body.Close()
			finished <- response.StatusCode
		}
	}()
	require.Equal(t, first, receive(t, entered), "both streams share a connection")
	leave()
	receive(t, s.ended)
	close(finish)

	assert.Equal(t, http.StatusOK, receive(t, finished))
	receive(t, s.ended)
	assert.Equal(t, counts{Responses: statuses{200: 1}, Cancellations: leftBefore("/unread")}, o.counted())
}

// net/http watches an idle connection by reading one byte ahead. Once that has
// come it watches no more.
func TestH03HangUpAfterAnExtraByteGoesUnnoticed(t *testing.T) {
	o, entered, closed := observe(t), make(chan struct{}), make(chan struct{})
	s := serve(t, http1Protocol, observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-closed
		w.WriteHeader(http.StatusOK)
		assert.NoError(t, r.Context().Err())
	})))

	conn := s.dial(t, "/")
	receive(t, entered)
	_, err := conn.Write([]byte("G"))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	close(closed)

	receive(t, s.ended)
	assert.Equal(t, counts{Responses: statuses{200: 1}}, o.counted())
}

func TestH04HalfClosedClientGetsItsAnswerAndCountsAsLeft(t *testing.T) {
	o := observe(t)
	s := serve(t, http1Protocol, observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done() // only so that net/http has noticed
		io.WriteString(w, "still here")
	})))

	conn := s.dial(t, "/")
	require.NoError(t, conn.CloseWrite())

	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	assert.Equal(t, "still here", string(body))
	assert.Equal(t, http.StatusOK, response.StatusCode)
	receive(t, s.ended)
	assert.Equal(t, counts{Cancellations: leftBefore(observer.UnmatchedRoute)}, o.counted())
}

func TestH05EventStreamClientLeaves(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			o, mux := observe(t), http.NewServeMux()
			mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
				tick := time.NewTicker(50 * time.Millisecond)
				defer tick.Stop()
				for {
					io.WriteString(w, "data: tick\n\n")
					w.(http.Flusher).Flush()
					select {
					case <-tick.C:
					case <-r.Context().Done():
						return
					}
				}
			})
			s := serve(t, protocol, observer.Middleware(mux))

			response, err := s.Client().Get(s.URL + "/events")
			require.NoError(t, err)
			_, err = io.ReadFull(response.Body, make([]byte, 3*len("data: tick\n\n")))
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())

			receive(t, s.ended)
			assert.Equal(t, counts{Responses: statuses{200: 1}, Cancellations: leftAfter("/events")}, o.counted())
		})
	}
}

func TestH06HandlerTimeout(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			o, answered, inner := observe(t), make(chan struct{}), make(chan error)
			slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				<-answered
				w.WriteHeader(http.StatusOK)
				_, err := io.WriteString(w, "too late")
				inner <- err
			})
			s := serve(t, protocol, observer.Middleware(http.TimeoutHandler(slow, 50*time.Millisecond, "")))

			response, _ := s.get(t, "/")
			close(answered)

			assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
			assert.ErrorIs(t, receive(t, inner), http.ErrHandlerTimeout)
			assert.Equal(t, counts{Responses: statuses{503: 1}}, o.counted())
		})
	}
}

func TestH07DeadlineIsNotADisconnect(t *testing.T) {
	o := observe(t)
	middleware := observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		w.WriteHeader(http.StatusGatewayTimeout)
	}))
	s := serve(t, http1Protocol, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 50*time.Millisecond)
		defer cancel()
		middleware.ServeHTTP(w, r.WithContext(ctx))
	}))

	response, _ := s.get(t, "/")

	assert.Equal(t, http.StatusGatewayTimeout, response.StatusCode)
	assert.Equal(t, counts{Responses: statuses{504: 1}}, o.counted())
}

// net/http cancels the request when its reading ahead fails, for whatever
// reason.
func TestH08ReadDeadlineCountsAsLeft(t *testing.T) {
	o := observe(t)
	s := serve(t, http1Protocol, observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.NoError(t, http.NewResponseController(w).SetReadDeadline(time.Now().Add(200*time.Millisecond)))
		<-r.Context().Done()
		w.WriteHeader(http.StatusOK)
	})))

	response, _ := s.get(t, "/")

	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.Equal(t, counts{Cancellations: leftBefore(observer.UnmatchedRoute)}, o.counted())
}

// panicky throws a value from a frame that a log must show.
type panicky struct{ value any }

func (p panicky) ServeHTTP(http.ResponseWriter, *http.Request) { p.throwFromHere() }

//go:noinline
func (p panicky) throwFromHere() {
	if p.value == "index" {
		_ = []int{}[len(p.value.(string))]
	}
	panic(p.value)
}

func TestH09PanicBeforeAnyByte(t *testing.T) {
	values := map[string]any{
		"string":        "boom",
		"error":         errors.New("boom"),
		"runtime error": "index",
		"nil":           nil,
		"wrapped abort": fmt.Errorf("no: %w", http.ErrAbortHandler),
		"abort's text":  errors.New(http.ErrAbortHandler.Error()),
		"struct":        struct{ A, B int }{1, 2},
		"uncomparable":  []int{1, 2},
	}
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	for _, protocol := range protocols {
		for name, value := range values {
			t.Run(protocol+"/"+name, func(t *testing.T) {
				o := observe(t)
				bare := serve(t, protocol, panicky{value})
				bare.fail(t, "/")
				s := serve(t, protocol, observer.Middleware(panicky{value}))
				s.fail(t, "/")

				assert.Equal(t, counts{UnhandledExceptions: 1}, o.counted())
				logged, want := receive(t, s.log), receive(t, bare.log)
				firstLine := func(entry string) string {
					line, _, _ := strings.Cut(address.ReplaceAllString(entry, "client"), "\n")
					return line
				}
				assert.Equal(t, firstLine(want), firstLine(logged))
				for _, entry := range []string{want, logged} {
					assert.Contains(t, entry, "panicky.throwFromHere")
				}
			})
		}
	}
}

func TestPanicKeepsItsValue(t *testing.T) {
	observe(t)
	for _, value := range []any{"boom", io.EOF, http.ErrAbortHandler, 7} {
		assert.PanicsWithValue(t, value, func() {
			observer.Middleware(panicky{value}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		})
	}
}

func TestAbortIsNoException(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			o := observe(t)
			s := serve(t, protocol, observer.Middleware(panicky{http.ErrAbortHandler}))
			s.fail(t, "/")
			assert.Zero(t, o.counted())
			s.Close()
			assert.Empty(t, s.log)
		})
	}
}

func TestH10ImpossibleStatus(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			o := observe(t)
			s := serve(t, protocol, observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var status int
				fmt.Sscanf(r.URL.Path, "/%d", &status)
				w.WriteHeader(status)
			})))

			s.fail(t, "/99")
			s.fail(t, "/1000")
			response, _ := s.get(t, "/600")

			assert.Equal(t, 600, response.StatusCode)
			assert.Equal(t, counts{UnhandledExceptions: 2, Responses: statuses{600: 1}}, o.counted())
		})
	}
}

func TestH11InformationalResponses(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			o, mux := observe(t), http.NewServeMux()
			send := func(statuses ...int) http.HandlerFunc {
				return func(w http.ResponseWriter, _ *http.Request) {
					for _, status := range statuses {
						w.WriteHeader(status)
					}
				}
			}
			mux.Handle("/hints", send(103, 103, 404))
			mux.Handle("/hint", send(103))
			mux.Handle("/continue", send(100))
			s := serve(t, protocol, observer.Middleware(mux))
			heads := func(path string) (heads []int) {
				request := s.request(t, http.MethodGet, path)
				response, _ := s.do(t, request.WithContext(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
					Got1xxResponse: func(status int, _ textproto.MIMEHeader) error {
						heads = append(heads, status)
						return nil
					},
				})))
				return append(heads, response.StatusCode)
			}

			assert.Equal(t, []int{103, 103, 404}, heads("/hints"))
			assert.Equal(t, []int{103, 200}, heads("/hint"))
			assert.Equal(t, []int{100, 200}, heads("/continue"))
			assert.Equal(t, counts{Responses: statuses{404: 1, 200: 2}}, o.counted())
		})
	}
}

func TestH12FirstStatusWins(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/flush-500", func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		w.WriteHeader(500)
	})
	mux.HandleFunc("/201-500", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(201)
		w.WriteHeader(500)
	})
	mux.HandleFunc("/write-404", func(w http.ResponseWriter, _ *http.Request) {
		w.Write(nil)
		w.WriteHeader(404)
	})
	mux.HandleFunc("/202-write-flush", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(202)
		io.WriteString(w, "nothing twice")
		w.(http.Flusher).Flush()
	})
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			o := observe(t)
			bare, s := serve(t, protocol, mux), serve(t, protocol, observer.Middleware(mux))
			for path, want := range map[string]int{"/flush-500": 200, "/201-500": 201, "/write-404": 200, "/202-write-flush": 202} {
				bare.get(t, path)
				response, _ := s.get(t, path)
				assert.Equal(t, want, response.StatusCode, path)
			}

			assert.Equal(t, counts{Responses: statuses{200: 2, 201: 1, 202: 1}}, o.counted())
			assert.Len(t, s.log, len(bare.log), "net/http logs the duplicates of the handlers, and none of the middleware")
			if protocol == http1Protocol { // HTTP/2 logs none
				assert.Len(t, bare.log, 3)
			}
		})
	}
}

func TestH13ResponseController(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			o := observe(t)
			s := serve(t, protocol, observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				controller, later := http.NewResponseController(w), time.Now().Add(time.Minute)
				assert.NoError(t, controller.SetReadDeadline(later))
				assert.NoError(t, controller.SetWriteDeadline(later))
				assert.NoError(t, controller.EnableFullDuplex())
				assert.NoError(t, controller.Flush())
				w.WriteHeader(500) // the flush came first
			})))
			s.get(t, "/")
			assert.Equal(t, counts{Responses: statuses{200: 1}}, o.counted())
		})
	}
}

func TestH15RouteIsThePathTemplate(t *testing.T) {
	o, entered, mux := observe(t), make(untilLeft), http.NewServeMux()
	for _, pattern := range []string{"GET /a/{id}", "example.com/h/", "/b/{rest...}", "POST /p/{$}"} {
		mux.Handle(pattern, entered)
	}
	s := serve(t, http1Protocol, observer.Middleware(mux))
	for _, request := range []struct{ method, host, path string }{
		{"GET", "", "/a/17"},
		{"GET", "example.com", "/h/17"},
		{"GET", "", "/b/1/7"},
		{"POST", "", "/p/"},
		{"HEAD", "", "/a/17"},
	} {
		r := s.request(t, request.method, request.path)
		r.Host = request.host
		leave := s.begin(t, r)
		receive(t, entered)
		leave()
		receive(t, s.ended)
	}
	assert.Equal(t, counts{Cancellations: cancellations{
		{Route: "/a/{id}"}: 2, {Route: "/h/"}: 1, {Route: "/b/{rest...}"}: 1, {Route: "/p/{$}"}: 1,
	}}, o.counted())
}

func TestH16PatternHiddenByAnInnerCopy(t *testing.T) {
	copies := map[string]func(http.Handler) http.Handler{
		"MaxBytesHandler": func(h http.Handler) http.Handler { return http.MaxBytesHandler(h, 1<<20) },
		"TimeoutHandler":  func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Minute, "") },
		"WithContext": func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r.WithContext(r.Context()))
			})
		},
	}
	for name, copied := range copies {
		t.Run(name, func(t *testing.T) {
			entered, mux := make(untilLeft), http.NewServeMux()
			mux.Handle("GET /a/{id}", entered)
			askAgain := observer.WithRoute(func(r *http.Request) string {
				_, pattern := mux.Handler(r)
				return pattern
			})
			for route, middleware := range map[string]http.Handler{
				observer.UnmatchedRoute: observer.Middleware(copied(mux)),
				"/a/{id}":               observer.Middleware(copied(mux), askAgain),
			} {
				o, s := observe(t), serve(t, http1Protocol, middleware)
				leave := s.begin(t, s.request(t, http.MethodGet, "/a/17"))
				receive(t, entered)
				leave()
				receive(t, s.ended)
				assert.Equal(t, counts{Cancellations: leftBefore(route)}, o.counted())
			}
		})
	}
}

func TestH17NestedMuxes(t *testing.T) {
	o, entered := observe(t), make(untilLeft)
	outer, inner := http.NewServeMux(), http.NewServeMux()
	inner.Handle("GET /x/{id}", entered)
	outer.Handle("/sub/", http.StripPrefix("/sub", inner))
	s := serve(t, http1Protocol, observer.Middleware(outer))

	leave := s.begin(t, s.request(t, http.MethodGet, "/sub/x/1"))
	receive(t, entered)
	leave()

	receive(t, s.ended)
	assert.Equal(t, counts{Cancellations: leftBefore("/sub/")}, o.counted())
}

func TestH18ExactTotalsUnderLoad(t *testing.T) {
	const rounds = 100 // of ten requests each
	o, mux := observe(t), http.NewServeMux()
	var leaving sync.Map // path to the channel that says it is entered
	untilTold := func(write bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if write {
				w.(http.Flusher).Flush()
			}
			entered, _ := leaving.Load(r.URL.Path)
			close(entered.(chan struct{}))
			<-r.Context().Done()
		}
	}
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	mux.HandleFunc("/missing", http.NotFound)
	mux.Handle("/panic", panicky{"boom"})
	mux.Handle("/abort", panicky{http.ErrAbortHandler})
	mux.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) { runtime.Goexit() })
	mux.HandleFunc("/late-panic", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		w.(http.Flusher).Flush()
		panic("boom")
	})
	mux.HandleFunc("/before/{id}", untilTold(false))
	mux.HandleFunc("/after/{id}", untilTold(true))
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, _, err := http.NewResponseController(w).Hijack()
		if assert.NoError(t, err) {
			conn.Close()
		}
	})
	mux.HandleFunc("/steal", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if assert.NoError(t, err) {
			conn.Close()
		}
	})
	s := serve(t, http1Protocol, observer.Middleware(mux))
	s.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = rounds

	done, collected := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(collected)
		for {
			var metrics metricdata.ResourceMetrics
			assert.NoError(t, o.reader.Collect(context.Background(), &metrics))
			assert.GreaterOrEqual(t, o.metrics.Counts().InFlight, int64(0))
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	plain := func(path string) func(int) {
		return func(int) { // a POST, because a client sends a GET again when the connection ends
			response, err := s.Client().Post(s.URL+path, "", nil)
			if err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		}
	}
	hangUp := func(prefix string) func(int) {
		return func(round int) {
			path, entered := fmt.Sprintf("%s/%d", prefix, round), make(chan struct{})
			leaving.Store(path, entered)
			leave := s.begin(t, s.request(t, http.MethodGet, path))
			<-entered
			leave()
		}
	}
	script := []func(round int){
		plain("/ok"), plain("/missing"), plain("/panic"), plain("/abort"), plain("/exit"),
		plain("/late-panic"), plain("/upgrade"), plain("/steal"), hangUp("/before"), hangUp("/after"),
	}
	var clients sync.WaitGroup
	for round := range rounds {
		for _, request := range script {
			clients.Go(func() { request(round) })
		}
	}
	clients.Wait()
	for range rounds * len(script) {
		receive(t, s.ended)
	}
	close(done)
	receive(t, collected)

	assert.Equal(t, counts{
		UnhandledExceptions: 2 * rounds,
		Responses: statuses{
			http.StatusSwitchingProtocols: rounds,
			http.StatusOK:                 2 * rounds, // /ok and /after
			http.StatusAccepted:           rounds,
			http.StatusNotFound:           rounds,
		},
		Cancellations: cancellations{
			{Route: "/before/{id}"}:                       rounds,
			{Route: "/after/{id}", ResponseStarted: true}: rounds,
		},
	}, o.counted())
}

func TestH19SyntheticRequest(t *testing.T) {
	o := observe(t)
	middleware := observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	recorder := httptest.NewRecorder()
	middleware.ServeHTTP(recorder, new(http.Request))
	assert.Equal(t, http.StatusTeapot, recorder.Code)
	assert.Equal(t, counts{Responses: statuses{http.StatusTeapot: 1}}, o.counted())
}

func TestH20StatusIsAnInteger(t *testing.T) {
	o := observe(t)
	serve(t, http1Protocol, observer.Middleware(http.NotFoundHandler())).get(t, "/")

	o.collect(t).require(t, "gym.server.responses_total", attribute.Int("http.response.status_code", 404))
}

func TestH21NothingObserves(t *testing.T) {
	off := observe(t)
	off.Stop()
	s := serve(t, http1Protocol, observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "served")
	})))
	answer := func() string {
		response, body := s.get(t, "/")
		return fmt.Sprint(response.Status, response.Header["Content-Length"], body)
	}
	before := answer()
	goroutines := runtime.NumGoroutine()
	for range 99 {
		assert.Equal(t, before, answer())
	}
	assert.Less(t, runtime.NumGoroutine(), goroutines+50, "none for each request")
	assert.Zero(t, off.counted())

	o := observe(t)
	for range 10 {
		assert.Equal(t, before, answer())
	}
	assert.Equal(t, counts{Responses: statuses{200: 10}}, o.counted())
}

func TestRequestAcrossStopAndStart(t *testing.T) {
	entered, finish := make(chan struct{}), make(chan struct{})
	s := serve(t, http1Protocol, observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-finish
	})))
	o := observe(t)
	observed := s.begin(t, s.request(t, http.MethodGet, "/"))
	receive(t, entered)
	o.Stop()
	unobserved := s.begin(t, s.request(t, http.MethodGet, "/"))
	receive(t, entered)
	observe(t)
	assert.Equal(t, counts{InFlight: 1}, o.counted())
	close(finish)
	receive(t, s.ended)
	receive(t, s.ended)
	assert.Equal(t, counts{Responses: statuses{200: 1}}, o.counted(), "counted to its end if it began observed")
	observed()
	unobserved()
}

func TestNilHandlerIsTheDefaultMux(t *testing.T) {
	observe(t)
	standard := http.DefaultServeMux
	t.Cleanup(func() { http.DefaultServeMux = standard })
	s := serve(t, http1Protocol, observer.Middleware(nil, nil))

	http.DefaultServeMux = http.NewServeMux()
	http.HandleFunc("/nil", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the default") })

	_, body := s.get(t, "/nil")
	assert.Equal(t, "the default", body)
}

func TestHandlerGetsTheRequestItself(t *testing.T) {
	observe(t)
	var got *http.Request
	middleware := observer.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))
	sent := httptest.NewRequest(http.MethodGet, "/", nil)
	middleware.ServeHTTP(httptest.NewRecorder(), sent)
	assert.Same(t, sent, got)
}

func TestOuterHandlerSeesThePattern(t *testing.T) {
	observe(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /a/{id}", func(http.ResponseWriter, *http.Request) {})
	r := httptest.NewRequest(http.MethodGet, "/a/17", nil)
	observer.Middleware(mux).ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, "GET /a/{id}", r.Pattern)
}

func TestGoexitCountsOnlyWhatWasWritten(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			o, mux := observe(t), http.NewServeMux()
			mux.HandleFunc("/silent", func(http.ResponseWriter, *http.Request) { runtime.Goexit() })
			mux.HandleFunc("/spoken", func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusAccepted)
				runtime.Goexit()
			})
			s := serve(t, protocol, observer.Middleware(mux))
			s.fail(t, "/silent")
			assert.Zero(t, o.counted())
			s.fail(t, "/spoken")
			assert.Equal(t, counts{Responses: statuses{202: 1}}, o.counted())
		})
	}
}

func TestPanicAfterTheHeadCountsBoth(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			o := observe(t)
			s := serve(t, protocol, observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusAccepted)
				panic("boom")
			})))
			s.fail(t, "/")
			assert.Equal(t, counts{UnhandledExceptions: 1, Responses: statuses{202: 1}}, o.counted())
		})
	}
}

func TestHijackedConnection(t *testing.T) {
	hijack := func(w http.ResponseWriter) net.Conn {
		conn, _, err := w.(http.Hijacker).Hijack()
		require.NoError(t, err)
		return conn
	}
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		want    counts
	}{
		{"without a status", func(w http.ResponseWriter, _ *http.Request) { hijack(w).Close() }, counts{}},
		{"after a status", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusSwitchingProtocols)
			hijack(w).Close()
		}, counts{Responses: statuses{101: 1}}},
		{"through a controller", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			require.NoError(t, err)
			conn.Close()
		}, counts{}},
		{"used afterwards", func(w http.ResponseWriter, _ *http.Request) {
			conn := hijack(w)
			defer conn.Close()
			w.WriteHeader(http.StatusInternalServerError)
			_, err := io.WriteString(w, "nobody reads this")
			assert.ErrorIs(t, err, http.ErrHijacked)
			_, _, err = w.(http.Hijacker).Hijack()
			assert.ErrorIs(t, err, http.ErrHijacked)
		}, counts{}},
		{"panics afterwards", func(w http.ResponseWriter, _ *http.Request) {
			defer hijack(w).Close()
			panic("boom")
		}, counts{UnhandledExceptions: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := observe(t)
			s := serve(t, http1Protocol, observer.Middleware(test.handler))
			conn := s.dial(t, "/")
			receive(t, s.ended)
			conn.Close()
			assert.Equal(t, test.want, o.counted())
		})
	}
}

// A hijacked connection outlives the handler, and net/http allows goroutines to
// use the writer all the while, if only to tell them so.
func TestHijackedWriterInOtherGoroutines(t *testing.T) {
	o := observe(t)
	var others sync.WaitGroup
	s := serve(t, http1Protocol, observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		require.NoError(t, err)
		for range 4 {
			others.Go(func() {
				defer conn.Close()
				w.WriteHeader(http.StatusOK)
				_, err := w.Write([]byte("x"))
				assert.ErrorIs(t, err, http.ErrHijacked)
			})
		}
	})))
	s.dial(t, "/")
	receive(t, s.ended)
	others.Wait()
	assert.Zero(t, o.counted())
}

// endable returns a request whose context the returned function ends.
func endable(method string, with func(context.Context) (context.Context, func())) (*http.Request, func()) {
	r := httptest.NewRequest(method, "/", nil)
	ctx, end := with(r.Context())
	return r.WithContext(ctx), end
}

func cancelled(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	return ctx, cancel
}

// steady returns the counts when nothing changes them any more: requests of other
// tests may end after their clients have.
func steady() observer.RequestCounts {
	for {
		before, listed := observer.Requests().Counts(), observer.WorkListed()
		time.Sleep(100 * time.Millisecond)
		if after := observer.Requests().Counts(); reflect.DeepEqual(before, after) && listed == observer.WorkListed() {
			return after
		}
	}
}

// headless panics when it is asked for its header, as net/http's HTTP/2 writer
// does after its handler has returned.
type headless struct{ *httptest.ResponseRecorder }

func (headless) Header() http.Header { panic("asked for the header") }

// endless is a context whose error the application computes.
type endless struct{ context.Context }

func (endless) Err() error { panic("asked for the error") }

func TestRequestEndsWhateverTheApplicationsWriterAndContextDo(t *testing.T) {
	observe(t)
	before, listed := steady().InFlight, observer.WorkListed()
	request, leave := endable(http.MethodGet, cancelled)
	broken := observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write(okBody)
		leave()
	}))
	assert.Panics(t, func() { broken.ServeHTTP(headless{httptest.NewRecorder()}, request) })
	assert.Panics(t, func() {
		broken.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil).WithContext(endless{t.Context()}))
	})
	assert.Equal(t, before, observer.Requests().Counts().InFlight)
	assert.Equal(t, listed, observer.WorkListed())
}

// A function for the route that hangs holds up its own request, which is counted
// by then, but for the departure.
func TestRequestIsCountedBeforeItsRouteIsAskedFor(t *testing.T) {
	observe(t)
	before, listed := steady(), observer.WorkListed()
	asked, release := make(chan struct{}), make(chan struct{})
	request, leave := endable(http.MethodGet, cancelled)
	handler := observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write(okBody)
		leave()
	}), observer.WithRoute(func(*http.Request) string {
		close(asked)
		<-release
		return "/found"
	}))
	served := make(chan struct{})
	go func() {
		defer close(served)
		handler.ServeHTTP(httptest.NewRecorder(), request)
	}()
	<-asked
	during := observer.Requests().Counts()
	assert.Equal(t, before.Responses[http.StatusOK]+1, during.Responses[http.StatusOK])
	assert.Equal(t, listed, observer.WorkListed())
	assert.Equal(t, before.InFlight+1, during.InFlight)
	close(release)
	<-served
	after := observer.Requests().Counts()
	assert.Equal(t, before.InFlight, after.InFlight)
	found := observer.Cancellation{Route: "/found", ResponseStarted: true}
	assert.Equal(t, before.Cancellations[found]+1, after.Cancellations[found])
}

func TestStatusThatNetHTTPForbidsEndsTheRequest(t *testing.T) {
	observe(t)
	before := steady()
	observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(1000) })).
		ServeHTTP(new(http1Writer), httptest.NewRequest(http.MethodGet, "/", nil))
	assert.Equal(t, before, observer.Requests().Counts())
}

func TestWhatCountsAsADeparture(t *testing.T) {
	withCause := func(cause error) func(context.Context) (context.Context, func()) {
		return func(parent context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(parent)
			return ctx, func() { cancel(cause) }
		}
	}
	for _, test := range []struct {
		name string
		with func(context.Context) (context.Context, func())
		left bool
	}{
		{"plain cancel", cancelled, true},
		{"cause that is the error itself", withCause(context.Canceled), true},
		{"cause of the application's own", withCause(errors.New("draining")), false},
		{"cause that wraps the error", withCause(fmt.Errorf("draining: %w", context.Canceled)), false},
		{"deadline", func(parent context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(parent, 0)
			return ctx, cancel
		}, false},
		{"cancel with a deadline as its cause", withCause(context.DeadlineExceeded), false},
		{"error that only resembles", func(parent context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancel(parent)
			return resembling{ctx}, cancel
		}, false},
		{"context that has not ended", func(parent context.Context) (context.Context, func()) { return parent, func() {} }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := observe(t)
			r, end := endable(http.MethodGet, test.with)
			observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				end()
			})).ServeHTTP(httptest.NewRecorder(), r)
			want := counts{Responses: statuses{200: 1}}
			if test.left {
				want = counts{Cancellations: leftBefore(observer.UnmatchedRoute)}
			}
			assert.Equal(t, want, o.counted())
		})
	}
}

// resembling is a context with an error that is not context.Canceled itself.
type resembling struct{ context.Context }

func (c resembling) Err() error {
	if err := c.Context.Err(); err != nil {
		return fmt.Errorf("gone: %w", err)
	}
	return nil
}

// The context that counts is the one that the middleware received, and when the
// handler returns, not later.
func TestDepartureIsDecidedOnTheStackFromTheReceivedContext(t *testing.T) {
	o := observe(t)
	r, end := endable(http.MethodGet, cancelled)
	observer.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		*r = *r.WithContext(ctx) // some routers do
		cancel()
	})).ServeHTTP(httptest.NewRecorder(), r)
	end() // as net/http does after every request
	assert.Equal(t, counts{Responses: statuses{200: 1}}, o.counted())
}

// fleeting is a context that ends between the first look at it and the second.
type fleeting struct {
	context.Context
	looks int
}

func (c *fleeting) Err() error {
	if c.looks++; c.looks == 1 {
		return nil
	}
	return context.Canceled
}

func TestClientThatLeavesAfterTheHandlerReturned(t *testing.T) {
	o := observe(t)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).
		ServeHTTP(httptest.NewRecorder(), r.WithContext(&fleeting{Context: r.Context()}))
	assert.Equal(t, counts{Responses: statuses{200: 1}}, o.counted())
}

func TestClosingTheServerLooksLikeADeparture(t *testing.T) {
	o, entered := observe(t), make(untilLeft)
	s := serve(t, http1Protocol, observer.Middleware(entered))
	s.dial(t, "/")
	receive(t, entered)
	require.NoError(t, s.Config.Close())
	receive(t, s.ended)
	assert.Equal(t, counts{Cancellations: leftBefore(observer.UnmatchedRoute)}, o.counted())
}

func TestPanicAfterTheClientLeft(t *testing.T) {
	for _, test := range []struct {
		name       string
		value      any
		exceptions int64
	}{
		{"any value", "boom", 1},
		{"abort", http.ErrAbortHandler, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := observe(t)
			r, leave := endable(http.MethodGet, cancelled)
			assert.PanicsWithValue(t, test.value, func() {
				observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					leave()
					panic(test.value)
				})).ServeHTTP(httptest.NewRecorder(), r)
			})
			assert.Equal(t, counts{
				UnhandledExceptions: test.exceptions,
				Cancellations:       leftBefore(observer.UnmatchedRoute),
			}, o.counted())
		})
	}
}

// A proxy answers 502 when its own client's departure cancelled the call.
func TestHeadWrittenForNobody(t *testing.T) {
	entered := make(untilLeft)
	upstream := serve(t, http1Protocol, entered)
	upstreamURL, err := url.Parse(upstream.URL)
	require.NoError(t, err)
	o := observe(t)
	proxy := httputil.NewSingleHostReverseProxy(upstreamURL)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	s := serve(t, http1Protocol, observer.Middleware(proxy))

	leave := s.begin(t, s.request(t, http.MethodGet, "/"))
	receive(t, entered)
	leave()

	receive(t, s.ended)
	assert.Equal(t, counts{Cancellations: leftBefore(observer.UnmatchedRoute)}, o.counted())
}

func TestWithRoute(t *testing.T) {
	for _, test := range []struct {
		name, want string
		route      func(*http.Request) string
	}{
		{"template", "/a/{id}", func(*http.Request) string { return "/a/{id}" }},
		{"pattern", "/a/{id}", func(*http.Request) string { return "GET example.com/a/{id}" }},
		{"nothing", observer.UnmatchedRoute, func(*http.Request) string { return "" }},
		{"no path", observer.UnmatchedRoute, func(*http.Request) string { return "hello" }},
		{"panic", observer.UnmatchedRoute, func(*http.Request) string { panic("no route") }},
		{"no function", "/pattern", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := observe(t)
			mux, leave := http.NewServeMux(), func() {}
			mux.HandleFunc("/pattern", func(http.ResponseWriter, *http.Request) { leave() })
			var asked []*http.Request
			option := observer.WithRoute(nil)
			if test.route != nil {
				option = observer.WithRoute(func(r *http.Request) string {
					asked = append(asked, r)
					return test.route(r)
				})
			}
			middleware := observer.Middleware(mux, nil, option)

			middleware.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/pattern", nil))
			assert.Empty(t, asked, "the client stayed")

			var r *http.Request
			r, leave = endable(http.MethodGet, cancelled)
			r.URL.Path = "/pattern"
			middleware.ServeHTTP(httptest.NewRecorder(), r)
			if test.route != nil {
				require.Len(t, asked, 1)
				assert.Same(t, r, asked[0])
			}
			assert.Equal(t, counts{Responses: statuses{200: 1}, Cancellations: leftBefore(test.want)}, o.counted())
		})
	}
}

func TestRoutePanicKeepsTheHandlersPanic(t *testing.T) {
	o := observe(t)
	r, leave := endable(http.MethodGet, cancelled)
	middleware := observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		leave()
		panic("the handler's")
	}), observer.WithRoute(func(*http.Request) string { panic("the route's") }))
	assert.PanicsWithValue(t, "the handler's", func() { middleware.ServeHTTP(httptest.NewRecorder(), r) })
	assert.Equal(t, counts{UnhandledExceptions: 1, Cancellations: leftBefore(observer.UnmatchedRoute)}, o.counted())
}

// golang.org/x/net has a writer of its own for HTTP/2.
func TestOtherHTTP2Server(t *testing.T) {
	o := observe(t)
	s := newSite(t, http1Protocol, observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, 2, r.ProtoMajor)
		assert.Equal(t, "*response.http2Response", fmt.Sprintf("%T", w))
		w.WriteHeader(http.StatusAccepted)
	})))
	//lint:ignore SA1019 servers that still call it are the subject
	require.NoError(t, http2.ConfigureServer(s.Config, nil))
	s.TLS = s.Config.TLSConfig
	s.EnableHTTP2 = true
	s.StartTLS()
	s.get(t, "/")
	assert.Equal(t, counts{Responses: statuses{202: 1}}, o.counted())
}

func TestMiddlewareAllocations(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(okBody) })
	middleware := observer.Middleware(handler)
	for name, base := range map[string]http.ResponseWriter{"http1": new(http1Writer), "http2": new(http2Writer)} {
		t.Run(name, func(t *testing.T) {
			r, leave := endable(http.MethodGet, cancelled)
			defer leave()
			allocations := func() float64 {
				return testing.AllocsPerRun(100, func() { middleware.ServeHTTP(base, r) })
			}
			assert.Zero(t, allocations(), "while nothing observes")
			observe(t)
			assert.EqualValues(t, 1, allocations())
		})
	}
}

var okBody = []byte("ok")

func BenchmarkMiddleware(b *testing.B) {
	r, leave := endable(http.MethodGet, cancelled)
	defer leave()
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(okBody) })
	middleware := observer.Middleware(bare)
	serve := func(handler http.Handler, w http.ResponseWriter) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(w, r)
			}
		}
	}
	b.Run("bare", serve(bare, new(http1Writer)))
	b.Run("off", serve(middleware, new(http1Writer)))
	observe(b)
	b.Run("http1", serve(middleware, new(http1Writer)))
	b.Run("http2", serve(middleware, new(http2Writer)))
	b.Run("other", serve(middleware, new(otherWriter)))
}
