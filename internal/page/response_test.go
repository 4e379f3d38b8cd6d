package page

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// narrow is a listener whose connections hold little on their way, as a thin line.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	connection, err := n.Listener.Accept()
	if err == nil {
		_ = connection.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return connection, err
}

// askFor opens a connection and asks.
func askFor(t *testing.T, server *httptest.Server, query string) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	_ = connection.(*net.TCPConn).SetReadBuffer(4 << 10)
	_, err = io.WriteString(connection, "GET /"+query+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	return connection
}

func TestH72ShutdownBesideASlowLine(t *testing.T) {
	for _, query := range queries {
		for name, read := range map[string]func(net.Conn){
			"nothing": func(net.Conn) {},
			"2 KiB a second": func(connection net.Conn) {
				for range time.Tick(time.Second) {
					if _, err := io.CopyN(io.Discard, connection, 2<<10); err != nil {
						return
					}
				}
			},
		} {
			t.Run(query+" "+name, func(t *testing.T) {
				s := newSource()
				s.history.Store(full())
				h := New(text, s.snapshot)
				h.html = bytes.Repeat([]byte("a long page "), 100_000)
				h.open = opening(&slowFile{ReaderAt: bytes.NewReader(make([]byte, 16<<20))}, 16<<20)
				server := httptest.NewUnstartedServer(h)
				server.Listener = narrow{server.Listener}
				server.Start()
				defer server.Close()
				for range 3 {
					connection := askFor(t, server, query)
					_, err := connection.Read(make([]byte, 10)) // the answer has begun
					require.NoError(t, err)
					go read(connection)
				}
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, server.Config.Shutdown(ctx))
				assert.Less(t, time.Since(began), time.Second)
			})
		}
	}
}

// The same over HTTP/2, where many answers share a connection.
func TestH72ShutdownBesideASlowViewerOfHTTP2(t *testing.T) {
	h := handlerOf(Snapshot{})
	h.open = opening(&slowFile{ReaderAt: bytes.NewReader(make([]byte, 16<<20))}, 16<<20)
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	answer, err := server.Client().Get(server.URL + "/" + largeFile)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, 2, answer.ProtoMajor)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, server.Config.Shutdown(ctx))
	assert.Less(t, time.Since(began), time.Second)
}

// The same where it is the disk that holds an answer up.
func TestH72ShutdownBesideADiskThatHangs(t *testing.T) {
	file := &slowFile{ReaderAt: bytes.NewReader(make([]byte, 1<<20)), hangs: make(chan struct{})}
	defer close(file.hangs)
	h := handlerOf(Snapshot{})
	h.open = opening(file, 1<<20)
	server := httptest.NewServer(h)
	defer server.Close()
	answer, err := http.Get(server.URL + largeFile)
	require.NoError(t, err)
	defer answer.Body.Close()
	began := time.Now()
	require.NoError(t, server.Config.Shutdown(t.Context()))
	assert.Less(t, time.Since(began), time.Second)
}

// A quick viewer gets the rest of what is under way.
func TestShutdownLeavesAGrace(t *testing.T) {
	s := newSource()
	s.history.Store(full())
	h := New(text, s.snapshot)
	begun, goOn := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&pausing{ResponseWriter: w, begun: begun, goOn: goOn}, r)
	}))
	defer server.Close()
	whole := make(chan error, 1)
	go func() {
		answer, err := http.Get(server.URL + "?format=json")
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
		whole <- err
	}()
	<-begun
	ended := make(chan error, 1)
	go func() { ended <- server.Config.Shutdown(context.Background()) }()
	awaitLeaving(t, h, server.Config)
	close(goOn)
	assert.NoError(t, <-whole)
	assert.NoError(t, <-ended)
}

// pausing is a writer whose first write waits.
type pausing struct {
	http.ResponseWriter
	begun, goOn chan struct{}
	once        bool
}

func (p *pausing) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *pausing) Write(text []byte) (int, error) {
	if !p.once {
		p.once = true
		close(p.begun)
		<-p.goOn
	}
	return p.ResponseWriter.Write(text)
}

// awaitLeaving waits until the page knows that a server shuts down.
func awaitLeaving(t *testing.T, h *Handler, server *http.Server) {
	t.Helper()
	require.Eventually(t, func() bool {
		h.answers.mu.Lock()
		defer h.answers.mu.Unlock()
		return h.answers.servers[weak.Make(server)].leaving
	}, 10*time.Second, time.Millisecond, "the hook has run")
}

// Shutdown would wait for as long as somebody looks.
func TestShutdownEndsItsStreams(t *testing.T) {
	s := newSource()
	h := New(text, s.snapshot)
	ending, going := httptest.NewServer(h), httptest.NewServer(h)
	defer ending.Close()
	defer going.Close()
	for range 2 { // servers are told apart, and come again
		ended, err := http.Get(ending.URL + "?format=events")
		require.NoError(t, err)
		defer ended.Body.Close()
	}
	other, err := http.Get(going.URL + "?format=events")
	require.NoError(t, err)
	defer other.Body.Close()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, ending.Config.Shutdown(ctx))
	lines := bufio.NewReader(other.Body)
	for range 8 {
		_, err = lines.ReadString('\n')
		require.NoError(t, err, "the stream of another server goes on")
	}
}

func TestStreamThatComesDuringAShutdownEnds(t *testing.T) {
	s := newSource()
	s.second(1)
	h := New(text, s.snapshot)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("format") == "events" {
			close(arrived)
			<-goOn
		}
		h.ServeHTTP(w, r)
	}))
	defer server.Close()
	answer, err := http.Get(server.URL) // as a browser, which gets the page first
	require.NoError(t, err)
	answer.Body.Close()
	go func() {
		if answer, err := http.Get(server.URL + "?format=events"); err == nil {
			answer.Body.Close()
		}
	}()
	<-arrived
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() { ended <- server.Config.Shutdown(ctx) }()
	awaitLeaving(t, h, server.Config)
	close(goOn)
	assert.NoError(t, <-ended)
}

// What the page sets for its own answer is not for the next one on a connection.
func TestNextRequestOfAConnectionHasNoDeadline(t *testing.T) {
	h := handlerOf(Snapshot{})
	later := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/later" {
			h.ServeHTTP(w, r)
			return
		}
		_, err := w.Write(make([]byte, 1<<20))
		later <- err
	}))
	defer server.Close()
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?format=json", nil))
	require.NotEmpty(t, w.all)
	assert.Zero(t, w.all[len(w.all)-1])
	for _, path := range []string{"/?format=json", "/later"} {
		answer, err := server.Client().Get(server.URL + path)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
		answer.Body.Close()
	}
	assert.NoError(t, <-later)
}

func TestNothingStaysOfServersThatHaveGone(t *testing.T) {
	h := handlerOf(Snapshot{})
	for range 20 {
		server := httptest.NewServer(h)
		answer, err := server.Client().Get(server.URL)
		require.NoError(t, err)
		answer.Body.Close()
		server.Close()
	}
	known := func() int {
		h.answers.mu.Lock()
		defer h.answers.mu.Unlock()
		return len(h.answers.servers)
	}
	require.Positive(t, known())
	require.Eventually(t, func() bool {
		runtime.GC()
		return known() <= 1 // the last may be on somebody's stack
	}, 30*time.Second, time.Millisecond)
}

// A server that is no object of its own, or lives as long as the program.
func TestServersInOtherPlacesAreKnown(t *testing.T) {
	h := handlerOf(Snapshot{})
	type application struct {
		_      [100]byte
		server http.Server
	}
	for _, server := range []*http.Server{&new(application).server, &globalServer} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request = request.WithContext(context.WithValue(request.Context(), http.ServerContextKey, server))
		h.ServeHTTP(httptest.NewRecorder(), request)
		h.answers.mu.Lock()
		assert.NotNil(t, h.answers.servers[weak.Make(server)])
		h.answers.mu.Unlock()
		runtime.KeepAlive(server)
	}
}

var globalServer http.Server
