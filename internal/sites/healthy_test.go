package sites_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/number"
	"github.com/gym-observer/observer/internal/sites"
)

// healthy is a workload whose requests wait by design: for their client, or for
// events.
type healthy struct {
	http2   bool
	streams bool // each flushes its head, or is hijacked
	perhaps bool // told as a sentence
	upload  bool // the client sends a body that does not end
	kernel  bool // copies, from one file or connection to another: these are the net package's own
	handler func(end <-chan struct{}) http.HandlerFunc
}

var workloads = map[string]healthy{
	"long poll": {perhaps: true, handler: func(end <-chan struct{}) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) {
			select { // planted: long poll
			case <-end:
			case <-time.After(time.Hour):
			}
		}
	}},
	"events in a select": {perhaps: true, streams: true, handler: func(end <-chan struct{}) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			events := make(chan string)
			flush(w)
			for {
				select { // planted: events in a select
				case event := <-events:
					_, _ = fmt.Fprintln(w, event)
				case <-end:
					return
				case <-r.Context().Done():
					return
				}
			}
		}
	}},
	"events from a channel": {streams: true, handler: func(end <-chan struct{}) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			flush(w)
			for range end {
				flush(w)
			}
		}
	}},
	"events over HTTP/2": {streams: true, http2: true, handler: func(end <-chan struct{}) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			flush(w)
			<-end
		}
	}},
	"hijacked": {streams: true, handler: func(end <-chan struct{}) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			go func() { <-end; _ = conn.Close() }()
			_, _ = conn.Read(make([]byte, 1))
		}
	}},
	"hijacked, buffered": {streams: true, handler: func(end <-chan struct{}) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, buffered, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			go func() { <-end; _ = conn.Close() }()
			_, _ = buffered.ReadByte()
		}
	}},
	"upload":               {upload: true, handler: readAll},
	"upload over HTTP/2":   {upload: true, http2: true, handler: readAll},
	"download":             {handler: writeForEver},
	"download over HTTP/2": {http2: true, handler: writeForEver},
	"download of a file":   {kernel: true, handler: copyFile},
	"download of a stream": {kernel: true, handler: copyConnection},
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

func readAll(<-chan struct{}) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
}

// writeForEver is for clients that do not read.
func writeForEver(<-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}
}

// copyFile sends a file, which the kernel does by itself where it can.
func copyFile(<-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		file, err := os.CreateTemp("", "")
		if err != nil {
			return
		}
		defer func() { _ = os.Remove(file.Name()) }()
		defer func() { _ = file.Close() }()
		if file.Truncate(64<<20) == nil {
			http.ServeContent(w, r, "", time.Time{}, file)
		}
	}
}

// copyConnection sends what comes from another server, likewise. Of known length,
// since what has none is cut into chunks, and the kernel cannot do that.
func copyConnection(<-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return
		}
		defer func() { _ = listener.Close() }()
		var source sync.WaitGroup
		defer source.Wait()
		source.Go(func() {
			from, err := listener.Accept()
			for err == nil {
				_, err = from.Write(make([]byte, 1<<16))
			}
		})
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		w.Header().Set("Content-Length", strconv.Itoa(1<<30))
		_, _ = w.(io.ReaderFrom).ReadFrom(conn)
	}
}

// ownListener has connections of the application's own type, as many servers do.
type ownListener struct{ net.Listener }

func (l ownListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return ownConn{conn}, err
}

type ownConn struct{ net.Conn }

func (c ownConn) Read(p []byte) (int, error)  { return c.Conn.Read(p) }
func (c ownConn) Write(p []byte) (int, error) { return c.Conn.Write(p) }

func TestWaitsByDesignAreAcquitted(t *testing.T) {
	for name, c := range workloads {
		t.Run(name, func(t *testing.T) {
			end := make(chan struct{})
			var inFlight atomic.Int64
			handler := c.handler(end)
			server := httptest.NewUnstartedServer(&middleware{func(w http.ResponseWriter, r *http.Request) {
				inFlight.Add(1)
				defer inFlight.Add(-1)
				handler(w, r)
			}})
			if !c.kernel {
				server.Listener = ownListener{server.Listener}
			}
			server.EnableHTTP2 = c.http2
			if c.http2 {
				server.StartTLS()
			} else {
				server.Start()
			}
			bodies, stop := io.Pipe()
			var clients sync.WaitGroup
			defer server.Close()
			defer func() {
				close(end)
				_ = stop.Close()
				server.CloseClientConnections()
				clients.Wait()
			}()
			for range requests {
				clients.Go(func() {
					if !c.http2 {
						speak(server.Listener.Addr().String(), c.upload, end)
						return
					}
					// A connection each: the window of one is shared by all its streams.
					client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
					body := io.Reader(http.NoBody)
					if c.upload {
						body = bodies
					}
					response, err := client.Post(server.URL, "", body)
					if err == nil {
						<-end
						_ = response.Body.Close()
					}
				})
			}
			now := func() sites.Now {
				n := int(inFlight.Load())
				if c.streams {
					return sites.Now{InFlight: n, Streaming: n}
				}
				return sites.Now{InFlight: n}
			}
			reader, taker := newReader(), &sites.Taker{}
			var survey sites.Survey
			// A copy waits for its source now and then, until its client's buffers are full.
			assert.Eventually(t, func() bool {
				survey = sites.Survey{}
				taker.Begin()
				parked := 0
				err := taker.Look(func(stacks []sites.Stack) {
					parked = parkedRequests(stacks)
					survey.Add(reader.Read(stacks, now()))
				})
				return err == nil && parked == requests && survey.Waiting() < 1
			}, 10*time.Second, 10*time.Millisecond, "all of them wait, and none for anything here")
			assert.Less(t, survey.Waiting(), 1.0, "%v", survey.Sites(sites.Waiting))
			w := diagnosis.Window{Processors: 2, CPUs: 2, Owed: requests, RequestWait: time.Minute}
			w.Load[diagnosis.Wait] = number.Known(min(survey.Waiting(), requests))
			assert.False(t, w.Holding().Has(diagnosis.Wait))
			if c.perhaps {
				assert.InDelta(t, requests, survey.Load(sites.Perhaps), 0.1)
				assert.Equal(t, planted(t, "planted: "+name), survey.Sites(sites.Perhaps)[0].Location)
			}
		})
	}
}

// speak makes a request of HTTP/1.1 by hand and reads no more than the head.
func speak(address string, upload bool, end <-chan struct{}) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	request := "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	if upload {
		request = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
	}
	_, _ = io.WriteString(conn, request)
	if !upload {
		_, _ = bufio.NewReaderSize(conn, 16).ReadByte()
	}
	<-end
}

func parkedRequests(stacks []sites.Stack) int {
	parked := 0
	for _, s := range stacks {
		served := slices.ContainsFunc(s.Frames, func(f sites.Frame) bool {
			return f.Function == sites.MarksOf(corpusPackage).Request
		})
		if served && s.Frames[0].Function == "runtime.gopark" {
			parked += s.Count
		}
	}
	return parked
}
