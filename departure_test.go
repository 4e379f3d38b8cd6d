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
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

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
		{"connection's own cause (H58)", withCause(fmt.Errorf("idle timeout: %w", net.ErrClosed)), true},
		{"connection's cause itself (H58)", withCause(net.ErrClosed), true},
		{"connection's cause among others (H58)", withCause(errors.Join(io.EOF, net.ErrClosed)), true},
		{"another network error", withCause(&net.OpError{Op: "read", Err: errors.New("reset")}), false},
		{"connection's cause of a deadline", func(parent context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeoutCause(parent, 0, net.ErrClosed)
			return ctx, cancel
		}, false},
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

func TestH58ConnectionsOwnCause(t *testing.T) {
	o := observe(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)
	observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		cancel(fmt.Errorf("stream 7: %w", net.ErrClosed))
	})).ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, counts{Responses: statuses{200: 1}, Cancellations: leftAfter(observer.UnmatchedRoute)}, o.counted())
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
