package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strconv"
	"time"

	"github.com/felixge/httpsnoop"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
)

// wrapping is one way to measure a handler.
type wrapping struct {
	name     string
	role     role
	observed bool
	wrap     func(http.Handler) http.Handler
}

const (
	bareHandler  = "bare handler"
	floorWrapper = "floor wrapper: 24 bytes, passes on"
	withObserver = "observer"
	notRunning   = "observer, not running"
	withPromhttp = "promhttp: in flight, counter"
	promChain    = "promhttp: in flight, counter, duration"
	withOtelhttp = "otelhttp"
)

var wrappings = []wrapping{
	{bareHandler, floor, false, func(h http.Handler) http.Handler { return h }},
	{floorWrapper, floor, false, passOn},
	{withObserver, ours, true, middleware},
	{notRunning, ours, false, middleware},
	{withPromhttp, peer, false, promhttpCounted},
	{promChain, peer, false, promhttpTimed},
	{withOtelhttp, peer, false, func(h http.Handler) http.Handler {
		return otelhttp.NewHandler(h, "bench", otelhttp.WithMeterProvider(providerOf(sdkmetric.NewManualReader())))
	}},
	{"httpsnoop.CaptureMetrics", peer, false, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { httpsnoop.CaptureMetrics(h, w, r) })
	}},
}

// passOn is the least that a wrapper can do which looks at the response: it makes one
// object a request, and keeps the status. Whatever a wrapper adds to that is its own,
// on any machine.
func passOn(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(&passing{ResponseWriter: w}, r) })
}

type passing struct {
	http.ResponseWriter
	status int
}

func (w *passing) Unwrap() http.ResponseWriter { return w.ResponseWriter }
func (w *passing) Flush()                      { w.ResponseWriter.(http.Flusher).Flush() }
func (w *passing) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func middleware(h http.Handler) http.Handler { return observer.Middleware(h) }

func promhttpCounted(h http.Handler) http.Handler {
	return promhttp.InstrumentHandlerInFlight(
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "in_flight"}),
		promhttp.InstrumentHandlerCounter(
			prometheus.NewCounterVec(prometheus.CounterOpts{Name: "responses_total"}, []string{"code"}), h))
}

func promhttpTimed(h http.Handler) http.Handler {
	return promhttp.InstrumentHandlerDuration(
		prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "duration"}, []string{"code"}), promhttpCounted(h))
}

// trivial is the handler that is wrapped: net/http answers for it. It can be
// called again with the same writer. One that writes cannot, behind promhttp,
// which then sends the head anew each time, and net/http logs that.
var trivial = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

var ok = []byte("ok")

// writing is the least that answers by itself.
var writing = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(ok) })

// page is what the real handlers answer with.
var page = bytes.Repeat([]byte("0123456789abcdef"), 128)

// answering is a handler as most are: two headers, one of them the length, and 2 KiB.
var answering = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	header := w.Header()
	header["Content-Type"] = plainText
	header["Content-Length"] = pageLength
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(page)
})

// The values are made once: the bench is about the writer.
var (
	plainText  = []string{"text/plain; charset=utf-8"}
	pageLength = []string{strconv.Itoa(len(page))}
)

// streaming sends ten chunks, each on its way at once.
var streaming = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	flusher, ok := w.(http.Flusher)
	for range 10 {
		_, _ = w.Write(page[:200])
		if ok {
			flusher.Flush()
		}
	}
})

// proxying passes on what a server answers at once.
var proxying = &httputil.ReverseProxy{
	Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "127.0.0.1" },
	Transport: answerAtOnce{},
}

type answerAtOnce struct{}

func (answerAtOnce) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(page)),
		Header: http.Header{"Content-Type": plainText, "Content-Length": pageLength},
		Body:   io.NopCloser(bytes.NewReader(page)),
	}, nil
}

func realMiddleware() *family {
	return middlewareFamily(realHandler, answering, withFakeWriter,
		"A handler that sets two headers and writes 2 KiB, with a writer that has the methods of net/http's and does nothing.")
}

func streamingMiddleware() *family {
	return middlewareFamily("middleware, ten chunks", streaming, withFakeWriter, "The same with ten writes, each flushed.")
}

func proxyingMiddleware() *family {
	return middlewareFamily("middleware, reverse proxy", proxying, withFakeWriter,
		"The same with net/http/httputil's ReverseProxy, whose server answers 2 KiB at once.")
}

func liveMiddleware() *family {
	return middlewareFamily(live, trivial, inLiveHandler,
		"A handler that does nothing, called many times by the handler of one real request with that one's writer and request.")
}

func fakeMiddleware() *family {
	return middlewareFamily(fake, trivial, withFakeWriter,
		"The same with a writer that has the methods of net/http's and does nothing.")
}

func writingMiddleware() *family {
	return middlewareFamily("middleware, fake writer, two bytes", writing, withFakeWriter,
		"The same with a handler that writes two bytes.")
}

// middlewareFamily measures each wrapping of a handler with the writer and the
// request that within gives.
func middlewareFamily(name string, handler http.Handler, within func(http.HandlerFunc) error, about string) *family {
	f := &family{name: name, about: about, unit: "ns"}
	for _, w := range wrappings {
		run := func(_ *observed, e effort) (got sample, err error) {
			wrapped := w.wrap(handler)
			err = within(func(w http.ResponseWriter, r *http.Request) {
				got = operation{repeat: func(n int) {
					for range n {
						wrapped.ServeHTTP(w, r)
					}
				}}.time(e)
			})
			return got, err
		}
		f.cases = append(f.cases, &testCase{w.name, w.role, observedOrNot(w.observed, run)})
	}
	return f
}

// inLiveHandler calls use inside the handler of one request to a server of its
// own.
func inLiveHandler(use http.HandlerFunc) error {
	server := httptest.NewServer(use)
	defer server.Close()
	response, err := http.Get(server.URL)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func withFakeWriter(use http.HandlerFunc) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	use(&fakeWriter{header: make(http.Header)}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	return nil
}

// fakeWriter has the methods of net/http's HTTP/1 writer.
type fakeWriter struct{ header http.Header }

func (w *fakeWriter) Header() http.Header                 { return w.header }
func (w *fakeWriter) Write(p []byte) (int, error)         { return len(p), nil }
func (w *fakeWriter) WriteHeader(int)                     {}
func (w *fakeWriter) WriteString(s string) (int, error)   { return len(s), nil }
func (w *fakeWriter) ReadFrom(r io.Reader) (int64, error) { return io.Copy(io.Discard, r) }
func (w *fakeWriter) Flush()                              {}
func (w *fakeWriter) FlushError() error                   { return nil }
func (w *fakeWriter) CloseNotify() <-chan bool            { return nil }
func (w *fakeWriter) SetReadDeadline(time.Time) error     { return nil }
func (w *fakeWriter) SetWriteDeadline(time.Time) error    { return nil }
func (w *fakeWriter) EnableFullDuplex() error             { return nil }
func (w *fakeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.ErrUnsupported
}
