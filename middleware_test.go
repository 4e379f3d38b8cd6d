package observer_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
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

func TestStatusThatNetHTTPForbidsEndsTheRequest(t *testing.T) {
	observe(t)
	before := steady()
	observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(1000) })).
		ServeHTTP(new(http1Writer), httptest.NewRequest(http.MethodGet, "/", nil))
	assert.Equal(t, before, observer.Requests().Counts())
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
