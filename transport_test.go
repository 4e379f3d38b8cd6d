package observer_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestH22OutboundMeansWaitingForHeaders(t *testing.T) {
	o := observe(t)
	entered, answer := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/unread", func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/waiting", func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-answer
	})
	s := serve(t, http1Protocol, mux)
	client := &http.Client{Transport: observer.Transport(s.Client().Transport)}

	for range 5 {
		response, err := client.Get(s.URL + "/unread")
		require.NoError(t, err)
		defer response.Body.Close()
	}
	assert.Zero(t, o.counted())
	answered := make(chan error)
	for range 3 {
		go func() {
			response, err := client.Get(s.URL + "/waiting")
			if err == nil {
				response.Body.Close()
			}
			answered <- err
		}()
		receive(t, entered)
	}
	assert.Equal(t, counts{OutboundInFlight: 3}, o.counted())
	close(answer)
	for range 3 {
		assert.NoError(t, receive(t, answered))
	}
	assert.Zero(t, o.counted())
}

// idler is a base transport that counts the calls of CloseIdleConnections.
type idler struct {
	http.RoundTripper
	closed int
}

func (i *idler) CloseIdleConnections() { i.closed++ }

func TestH23CloseIdleConnections(t *testing.T) {
	base := new(idler)
	(&http.Client{Transport: observer.Transport(observer.Transport(base))}).CloseIdleConnections()
	assert.Equal(t, 1, base.closed)
	(&http.Client{Transport: observer.Transport(roundTrip(nil))}).CloseIdleConnections()

	defaultTransport(t, base)
	(&http.Client{Transport: observer.Transport(nil)}).CloseIdleConnections()
	assert.Equal(t, 2, base.closed)
}

func TestH24FailingCalls(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	refused := "http://" + listener.Addr().String()
	require.NoError(t, listener.Close())
	cause := errors.New("base failed")

	t.Run("refused connection", func(t *testing.T) {
		o := observe(t)
		_, err := observer.Transport(nil).RoundTrip(httptest.NewRequest(http.MethodGet, refused, nil))
		var operation *net.OpError
		assert.ErrorAs(t, err, &operation)
		assert.Zero(t, o.counted())
	})
	t.Run("cancelled context", func(t *testing.T) {
		o, entered := observe(t), make(untilLeft)
		s := serve(t, http1Protocol, entered)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-entered
			assert.Equal(t, counts{OutboundInFlight: 1}, o.counted())
			cancel()
		}()
		_, err := observer.Transport(nil).RoundTrip(s.request(t, http.MethodGet, "/").WithContext(ctx))
		assert.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, o.counted())
	})
	t.Run("error", func(t *testing.T) {
		o := observe(t)
		request, answer := httptest.NewRequest(http.MethodGet, "/", nil), new(http.Response)
		response, err := observer.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
			assert.Same(t, request, r)
			assert.Equal(t, counts{OutboundInFlight: 1}, o.counted())
			return answer, cause
		})).RoundTrip(request)
		assert.Same(t, answer, response)
		assert.Same(t, cause, err)
		assert.Zero(t, o.counted())
	})
	t.Run("panic", func(t *testing.T) {
		o := observe(t)
		assert.PanicsWithValue(t, cause, func() {
			observer.Transport(roundTrip(func(*http.Request) (*http.Response, error) {
				panic(cause)
			})).RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil))
		})
		assert.Zero(t, o.counted())
	})
	t.Run("goexit", func(t *testing.T) {
		o, exited := observe(t), make(chan struct{})
		go func() {
			defer close(exited)
			observer.Transport(roundTrip(func(*http.Request) (*http.Response, error) {
				runtime.Goexit()
				return nil, nil
			})).RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil))
		}()
		receive(t, exited)
		assert.Zero(t, o.counted())
	})
}

func TestH25RedirectsAndDoubleWrapping(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/from", http.RedirectHandler("/to", http.StatusFound))
	mux.HandleFunc("/to", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "arrived") })
	s := serve(t, http1Protocol, mux)
	get := func(wrap func(http.RoundTripper) http.RoundTripper) (during []int64, after int64) {
		o := observe(t)
		client := &http.Client{Transport: wrap(roundTrip(func(r *http.Request) (*http.Response, error) {
			during = append(during, o.counted().OutboundInFlight)
			return s.Client().Transport.RoundTrip(r)
		}))}
		response, err := client.Get(s.URL + "/from")
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		assert.Equal(t, "arrived", string(body))
		return during, o.counted().OutboundInFlight
	}

	during, after := get(func(next http.RoundTripper) http.RoundTripper { return observer.Transport(next) })
	assert.Equal(t, []int64{1, 1}, during)
	assert.Zero(t, after)

	during, after = get(func(base http.RoundTripper) http.RoundTripper {
		return observer.Transport(observer.Transport(base))
	})
	assert.Equal(t, []int64{2, 2}, during)
	assert.Zero(t, after)
}

// defaultTransport replaces http.DefaultTransport until the test ends.
func defaultTransport(t *testing.T, transport http.RoundTripper) {
	standard := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = standard })
	http.DefaultTransport = transport
}

func TestH26NilBaseAndNilBody(t *testing.T) {
	o := observe(t)
	wrapped := observer.Transport(nil)
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	answer := &http.Response{StatusCode: http.StatusNoContent}
	defaultTransport(t, roundTrip(func(r *http.Request) (*http.Response, error) { // after the call of Transport
		assert.Same(t, request, r)
		assert.Equal(t, counts{OutboundInFlight: 1}, o.counted())
		return answer, nil
	}))

	response, err := wrapped.RoundTrip(request)

	assert.NoError(t, err)
	assert.Same(t, answer, response)
	assert.Nil(t, response.Body)
	assert.Zero(t, o.counted())
}

func TestTransportAsItsOwnDefault(t *testing.T) {
	observe(t)
	defaultTransport(t, observer.Transport(nil))
	s := serve(t, http1Protocol, http.NotFoundHandler())
	response, err := http.Get(s.URL)
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, http.StatusNotFound, response.StatusCode)
	http.DefaultClient.CloseIdleConnections()
}

func TestBodyOfASwitchedProtocolStaysWritable(t *testing.T) {
	observe(t)
	s := serve(t, http1Protocol, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if assert.NoError(t, err) {
			defer conn.Close()
			line, _ := buffered.ReadString('\n')
			io.WriteString(conn, line)
		}
	}))
	request := s.request(t, http.MethodGet, "/")
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "echo")
	response, err := observer.Transport(nil).RoundTrip(request)
	require.NoError(t, err)
	defer response.Body.Close()
	both, ok := response.Body.(io.ReadWriter)
	require.True(t, ok)
	_, err = io.WriteString(both, "hello\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(both).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "hello", strings.TrimSpace(line))
}

func TestOutboundAcrossStopAndStart(t *testing.T) {
	observed, unobserved := make(chan struct{}), make(chan struct{})
	wait := func(until <-chan struct{}) (ended chan struct{}) {
		entered := make(chan struct{})
		ended = make(chan struct{})
		go func() {
			defer close(ended)
			observer.Transport(roundTrip(func(*http.Request) (*http.Response, error) {
				close(entered)
				<-until
				return nil, nil
			})).RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil))
		}()
		receive(t, entered)
		return ended
	}
	o := observe(t)
	first := wait(observed)
	o.Stop()
	second := wait(unobserved)
	observe(t)
	assert.Equal(t, counts{OutboundInFlight: 1}, o.counted())
	close(observed)
	receive(t, first)
	assert.Zero(t, o.counted())
	close(unobserved)
	receive(t, second)
	assert.Zero(t, o.counted())
}

// The text is another matter: see Transport.
func TestH85TimeoutIsKnownByItsKind(t *testing.T) {
	observe(t)
	release := make(chan struct{})
	s := serve(t, http1Protocol, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer close(release)
	client := &http.Client{Transport: observer.Transport(s.Client().Transport), Timeout: 5 * time.Millisecond}
	for range 100 {
		_, err := client.Post(s.URL, "", nil)
		var failed net.Error
		require.ErrorAs(t, err, &failed)
		assert.True(t, failed.Timeout(), "%v", err)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

func TestTransportAllocatesNothing(t *testing.T) {
	request, response := httptest.NewRequest(http.MethodGet, "/", nil), new(http.Response)
	transport := observer.Transport(roundTrip(func(*http.Request) (*http.Response, error) { return response, nil }))
	allocations := func() float64 {
		return testing.AllocsPerRun(100, func() { _, _ = transport.RoundTrip(request) })
	}
	assert.Zero(t, allocations())
	observe(t)
	assert.Zero(t, allocations())
}

func BenchmarkTransport(b *testing.B) {
	request, response := httptest.NewRequest(http.MethodGet, "/", nil), new(http.Response)
	bare := roundTrip(func(*http.Request) (*http.Response, error) { return response, nil })
	wrapped := observer.Transport(bare)
	send := func(transport http.RoundTripper) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = transport.RoundTrip(request)
			}
		}
	}
	b.Run("bare", send(bare))
	b.Run("off", send(wrapped))
	observe(b)
	b.Run("observed", send(wrapped))
}

func TestTransportAsItsOwnDefaultTwice(t *testing.T) {
	observe(t)
	standard := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = standard })
	http.DefaultTransport = roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, nil
	})
	http.DefaultTransport = observer.Transport(nil)
	http.DefaultTransport = observer.Transport(nil)
	response, err := http.DefaultTransport.RoundTrip(new(http.Request))
	require.NoError(t, err)
	assert.Equal(t, http.StatusTeapot, response.StatusCode)
}
