package observer_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

// wire lists what a handler's source is asked for and what the server's
// connection gets, in their order: how a copy is cut up, and when its parts go out.
type wire struct {
	mu     sync.Mutex
	events []string
}

func (w *wire) happened(format string, values ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf(format, values...))
}

// wiredConn is a TCP connection, and wiredStream one without ReadFrom, as that of
// TLS is.
type (
	wiredConn struct {
		*net.TCPConn
		wire *wire
	}
	wiredStream struct {
		net.Conn
		wire *wire
	}
)

func (c wiredConn) Write(p []byte) (int, error) {
	c.wire.happened("written %d", len(p))
	return c.TCPConn.Write(p)
}

func (c wiredStream) Write(p []byte) (int, error) {
	c.wire.happened("written %d", len(p))
	return c.Conn.Write(p)
}

// ReadFrom does what net does, by the type of the source.
func (c wiredConn) ReadFrom(source io.Reader) (int64, error) {
	inner := source
	if limited, ok := source.(*io.LimitedReader); ok {
		inner = limited.R
	}
	if _, ok := inner.(syscall.Conn); !ok {
		return io.Copy(struct{ io.Writer }{c}, source)
	}
	n, err := c.TCPConn.ReadFrom(source)
	c.wire.happened("passed on %d of a %T", n, inner)
	return n, err
}

type wiredListener struct {
	net.Listener
	wrap func(*net.TCPConn) net.Conn
}

func (l wiredListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(conn.(*net.TCPConn)), nil
}

// pieces is a source that delivers its bytes in pieces of some sizes.
type pieces struct {
	sizes []int
	wire  *wire
}

func (p *pieces) Read(into []byte) (int, error) {
	if len(p.sizes) == 0 {
		p.wire.happened("asked for %d at the end", len(into))
		return 0, io.EOF
	}
	n := min(len(into), p.sizes[0])
	p.wire.happened("asked for %d, gave %d", len(into), n)
	if p.sizes[0] -= n; p.sizes[0] == 0 {
		p.sizes = p.sizes[1:]
	}
	return n, nil
}

func (p *pieces) total() (total int) {
	for _, size := range p.sizes {
		total += size
	}
	return total
}

// piecesThatWrite can also write themselves.
type piecesThatWrite struct{ pieces }

func (p *piecesThatWrite) WriteTo(to io.Writer) (written int64, err error) {
	for _, size := range p.sizes {
		p.wire.happened("writes %d itself", size)
		n, err := to.Write(make([]byte, size))
		if written += int64(n); err != nil {
			return written, err
		}
	}
	p.sizes = nil
	return written, nil
}

// piecesOfStrings hand their writer strings, if it takes them.
type piecesOfStrings struct{ pieces }

func (p *piecesOfStrings) WriteTo(to io.Writer) (int64, error) {
	n, err := io.WriteString(to, strings.Repeat("s", p.total()))
	p.sizes = nil
	return int64(n), err
}

// sourcesOf are sources of the same bytes, of all the types that somebody looks at.
func sourcesOf(t *testing.T, sizes []int, w *wire) map[string]func() io.Reader {
	own := func() pieces { return pieces{append([]int(nil), sizes...), w} }
	first := own()
	total := first.total()
	return map[string]func() io.Reader{
		"reader":          func() io.Reader { p := own(); return &p },
		"writer to":       func() io.Reader { return &piecesThatWrite{own()} },
		"strings":         func() io.Reader { return &piecesOfStrings{own()} },
		"limited":         func() io.Reader { p := own(); return io.LimitReader(&p, int64(total)) },
		"limited to less": func() io.Reader { p := own(); return io.LimitReader(&p, int64(total/2)) },
		"limited twice": func() io.Reader {
			p := own()
			return io.LimitReader(io.LimitReader(&p, int64(total)), 1<<20)
		},
		"several":  func() io.Reader { p, q := own(), own(); return io.MultiReader(&p, &q) },
		"buffered": func() io.Reader { p := own(); return bufio.NewReaderSize(&p, 700) },
		"bytes":    func() io.Reader { return bytes.NewReader(make([]byte, total)) },
		"file": func() io.Reader {
			path := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(path, make([]byte, total), 0o600))
			file, err := os.Open(path)
			require.NoError(t, err)
			t.Cleanup(func() { file.Close() })
			return file
		},
		"pipe":       func() io.Reader { return pipeWith(t, total) },
		"connection": func() io.Reader { return connectionWith(t, total) },
		"limited connection": func() io.Reader {
			return io.LimitReader(connectionWith(t, total), int64(total))
		},
	}
}

func pipeWith(t *testing.T, n int) io.Reader {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { read.Close() })
	_, err = write.Write(make([]byte, n)) // at most what the kernel's pipe holds
	require.NoError(t, err)
	require.NoError(t, write.Close())
	return read
}

// connected returns the two ends of a TCP connection.
func connected(t *testing.T) (near, far *net.TCPConn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	accepted, err := listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return accepted.(*net.TCPConn), dialled.(*net.TCPConn)
}

func connectionWith(t *testing.T, n int) io.Reader {
	near, far := connected(t)
	_, err := far.Write(make([]byte, n))
	require.NoError(t, err)
	require.NoError(t, far.Close())
	return near
}

// copies are the ways for a handler to send a source.
var copies = map[string]func(w http.ResponseWriter, source io.Reader){
	"Copy": func(w http.ResponseWriter, source io.Reader) { io.Copy(w, source) },
	"CopyBuffer": func(w http.ResponseWriter, source io.Reader) {
		io.CopyBuffer(w, source, make([]byte, 1000))
	},
	"ReadFrom": func(w http.ResponseWriter, source io.Reader) {
		if readerFrom, ok := w.(io.ReaderFrom); ok {
			readerFrom.ReadFrom(source)
		}
	},
	"Copy of a part": func(w http.ResponseWriter, source io.Reader) { io.CopyN(w, source, 600) },
	"head, then Copy": func(w http.ResponseWriter, source io.Reader) {
		w.WriteHeader(http.StatusAccepted)
		io.Copy(w, source)
	},
	"bytes, then Copy": func(w http.ResponseWriter, source io.Reader) {
		io.WriteString(w, "first")
		io.Copy(w, source)
	},
	"Flush, then Copy": func(w http.ResponseWriter, source io.Reader) {
		http.NewResponseController(w).Flush()
		io.Copy(w, source)
	},
	"Copy twice": func(w http.ResponseWriter, source io.Reader) {
		io.CopyN(w, source, 300)
		io.Copy(w, source)
	},
	"Write": func(w http.ResponseWriter, source io.Reader) {
		all, _ := io.ReadAll(source)
		for len(all) > 0 {
			n := min(700, len(all))
			w.Write(all[:n])
			all = all[n:]
		}
	},
	"WriteString": func(w http.ResponseWriter, source io.Reader) {
		all, _ := io.ReadAll(source)
		//lint:ignore SA6006 that it is WriteString is the subject
		io.WriteString(w, string(all))
	},
	"Write and Flush": func(w http.ResponseWriter, source io.Reader) {
		all, _ := io.ReadAll(source)
		w.Write(all)
		w.(http.Flusher).Flush()
	},
}

// A net/http server over connections that list what they get. Only what a client
// has been sent on the wire counts.
func sentOver(t *testing.T, wrap func(*net.TCPConn) net.Conn, handler http.Handler) string {
	s := newSite(t, http1Protocol, handler)
	s.Listener = wiredListener{s.Listener, wrap}
	s.Start()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	sent, err := io.ReadAll(conn)
	require.NoError(t, err)
	receive(t, s.ended)
	s.Close()
	return dateless(string(sent))
}

// dateless cuts the date out of a response.
func dateless(response string) string {
	before, after, _ := strings.Cut(response, "Date: ")
	_, after, _ = strings.Cut(after, "\r\n")
	return before + after
}

func TestH56HowACopyIsCutUp(t *testing.T) {
	sizesOf := map[string][]int{
		"none": nil, "one": {1}, "511": {511}, "512": {512}, "513": {513}, "511 and 1": {511, 1},
		"600": {600}, "600 and 400": {600, 400}, "small ones": {1, 2, 3, 500, 10, 5}, "many": {4096, 1, 40_000, 300},
	}
	conns := map[string]func(*wire) func(*net.TCPConn) net.Conn{
		"TCP": func(w *wire) func(*net.TCPConn) net.Conn {
			return func(c *net.TCPConn) net.Conn { return wiredConn{c, w} }
		},
		"stream": func(w *wire) func(*net.TCPConn) net.Conn {
			return func(c *net.TCPConn) net.Conn { return wiredStream{c, w} }
		},
	}
	observe(t)
	middleware := func(h http.Handler) http.Handler { return observer.Middleware(h) }
	bare := func(h http.Handler) http.Handler { return h }
	for sizesName, sizes := range sizesOf {
		for kind := range sourcesOf(t, sizes, nil) {
			t.Run(sizesName+"/"+kind, func(t *testing.T) {
				t.Parallel()
				for conn, wrap := range conns {
					for way, send := range copies {
						for _, declared := range []bool{false, true} {
							over := func(with func(http.Handler) http.Handler) (events []string, sent string) {
								w := new(wire)
								open := sourcesOf(t, sizes, w)[kind]
								sent = sentOver(t, wrap(w), with(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
									if declared {
										rw.Header().Set("Content-Length", "100000")
									}
									send(rw, open())
								})))
								return w.events, sent
							}
							wantEvents, wantSent := over(bare)
							events, sent := over(middleware)
							what := fmt.Sprintf("%s over %s, declared: %t", way, conn, declared)
							require.Equal(t, wantEvents, events, what)
							require.Equal(t, wantSent, sent, what)
						}
					}
				}
			})
		}
	}
}

// An outer handler that has sent the head leaves net/http nothing to look at: it
// passes the whole file on.
func TestH56FileAfterAnOuterHandlersHead(t *testing.T) {
	observe(t)
	over := func(with func(http.Handler) http.Handler) []string {
		w := new(wire)
		inner := with(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.(io.ReaderFrom).ReadFrom(sourcesOf(t, []int{5000}, w)["file"]())
		}))
		sentOver(t, func(c *net.TCPConn) net.Conn { return wiredConn{c, w} }, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Length", "5000")
			rw.(http.Flusher).Flush()
			inner.ServeHTTP(rw, r)
		}))
		return w.events
	}
	want := over(func(h http.Handler) http.Handler { return h })
	assert.Contains(t, want, "passed on 5000 of a *os.File")
	assert.Equal(t, want, over(func(h http.Handler) http.Handler { return observer.Middleware(h) }))
}

// wiredWriter has the methods of HTTP/2's writer and lists their calls.
type wiredWriter struct {
	http2Writer
	wire *wire
}

func (w *wiredWriter) Write(p []byte) (int, error) {
	w.wire.happened("Write %d", len(p))
	return len(p), nil
}

func (w *wiredWriter) WriteString(s string) (int, error) {
	w.wire.happened("WriteString %d", len(s))
	return len(s), nil
}

func (w *wiredWriter) WriteHeader(status int) { w.wire.happened("WriteHeader %d", status) }
func (w *wiredWriter) Flush()                 { w.wire.happened("Flush") }
func (w *wiredWriter) FlushError() error      { w.wire.happened("FlushError"); return nil }

func TestH56HowAWriterWithoutReadFromIsWritten(t *testing.T) {
	observe(t)
	for _, sizes := range [][]int{nil, {1}, {512}, {600, 400}, {4096, 1, 40_000}} {
		for kind := range sourcesOf(t, sizes, nil) {
			for way, send := range copies {
				over := func(with func(http.Handler) http.Handler) []string {
					w := new(wire)
					open := sourcesOf(t, sizes, w)[kind]
					with(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { send(rw, open()) })).
						ServeHTTP(&wiredWriter{wire: w}, httptest.NewRequest(http.MethodGet, "/", nil))
					return w.events
				}
				want := over(func(h http.Handler) http.Handler { return h })
				got := over(func(h http.Handler) http.Handler { return observer.Middleware(h) })
				require.Equal(t, want, got, "%v, %s of a %s", sizes, way, kind)
			}
		}
	}
}

// feeds are sources and what feeds them, for a client that must have what came
// before more comes.
var feeds = map[string]func(t *testing.T) (source io.Reader, feed io.WriteCloser){
	"io.Pipe":    func(*testing.T) (io.Reader, io.WriteCloser) { return io.Pipe() },
	"connection": func(t *testing.T) (io.Reader, io.WriteCloser) { return connected(t) },
	"limited connection": func(t *testing.T) (io.Reader, io.WriteCloser) {
		near, far := connected(t)
		return io.LimitReader(near, 1<<30), far
	},
	"several": func(*testing.T) (io.Reader, io.WriteCloser) {
		read, write := io.Pipe()
		return io.MultiReader(read, strings.NewReader("")), write
	},
	"pipe": func(t *testing.T) (io.Reader, io.WriteCloser) {
		read, write, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() { read.Close(); write.Close() })
		return read, write
	},
}

func TestH56ClientHasWhatTheSourceDelivered(t *testing.T) {
	for kind, open := range feeds {
		for _, protocol := range protocols {
			for _, with := range []struct {
				name string
				wrap func(http.Handler) http.Handler
			}{
				{"bare", func(h http.Handler) http.Handler { return h }},
				{"observed", func(h http.Handler) http.Handler { return observer.Middleware(h) }},
			} {
				t.Run(kind+"/"+protocol+"/"+with.name, func(t *testing.T) {
					o := observe(t)
					source, feed := open(t)
					s := serve(t, protocol, with.wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Content-Length", "1000000")
						readerFrom, ok := w.(io.ReaderFrom)
						if !ok {
							io.Copy(w, source)
							return
						}
						readerFrom.ReadFrom(source)
					})))
					// HTTP/1 sends after 512 bytes and then at once, HTTP/2 after 4,096 of any piece.
					piece := make([]byte, 600)
					if protocol == http2Protocol {
						piece = make([]byte, 5000)
					}
					fed := make(chan error, 1)
					go func() {
						_, err := feed.Write(piece)
						fed <- err
					}()
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					response, err := s.Client().Do(s.request(t, http.MethodGet, "/").WithContext(ctx))
					require.NoError(t, err)
					_, err = io.ReadFull(response.Body, make([]byte, len(piece)))
					require.NoError(t, err, "of what was delivered while the source waits")
					require.NoError(t, receive(t, fed))
					require.NoError(t, feed.Close())
					_, err = io.Copy(io.Discard, response.Body)
					assert.Error(t, err, "short of what was declared")
					response.Body.Close()
					receive(t, s.ended)
					if with.name == "observed" {
						assert.Equal(t, statuses{200: 1}, o.counted().Responses)
					}
				})
			}
		}
	}
}
