package observer_test

import (
	"crypto/sha256"
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
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

// sourceConn is a connection that tells what its ReadFrom is given: a source
// with a descriptor of its own goes to sendfile or splice.
type sourceConn struct {
	*net.TCPConn
	direct *sourceLog
}

type sourceLog struct {
	mu    sync.Mutex
	bytes int64
}

func (c sourceConn) ReadFrom(source io.Reader) (int64, error) {
	n, err := c.TCPConn.ReadFrom(source)
	if limited, ok := source.(*io.LimitedReader); ok {
		source = limited.R
	}
	if _, ok := source.(syscall.Conn); ok {
		c.direct.mu.Lock()
		defer c.direct.mu.Unlock()
		c.direct.bytes += n
	}
	return n, err
}

type sourceListener struct {
	net.Listener
	direct *sourceLog
}

func (l sourceListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return sourceConn{conn.(*net.TCPConn), l.direct}, nil
}

func TestH14FileServing(t *testing.T) {
	const size = 64 << 20
	path := filepath.Join(t.TempDir(), "file")
	file, err := os.Create(path)
	require.NoError(t, err)
	sum := sha256.New()
	block := make([]byte, 1<<20)
	for i := range size / len(block) {
		for j := range block {
			block[j] = byte(i + j*j>>3)
		}
		_, err = io.MultiWriter(file, sum).Write(block)
		require.NoError(t, err)
	}
	require.NoError(t, file.Close())

	handlers := map[string]http.HandlerFunc{
		"ServeContent": func(w http.ResponseWriter, r *http.Request) {
			file, err := os.Open(path)
			require.NoError(t, err)
			defer file.Close()
			http.ServeContent(w, r, "file", time.Time{}, file)
		},
		"Copy without a head": func(w http.ResponseWriter, r *http.Request) {
			file, err := os.Open(path)
			require.NoError(t, err)
			defer file.Close()
			w.Header().Set("Content-Length", fmt.Sprint(size))
			n, err := io.Copy(w, file)
			assert.NoError(t, err)
			assert.EqualValues(t, size, n)
		},
	}
	for name, handler := range handlers {
		t.Run(name, func(t *testing.T) {
			o, direct := observe(t), new(sourceLog)
			s := newSite(t, http1Protocol, observer.Middleware(handler))
			s.Listener = sourceListener{s.Listener, direct}
			s.Start()

			response, err := s.Client().Get(s.URL)
			require.NoError(t, err)
			defer response.Body.Close()
			got := sha256.New()
			n, err := io.Copy(got, response.Body)
			require.NoError(t, err)
			receive(t, s.ended)

			assert.EqualValues(t, size, n)
			assert.Equal(t, sum.Sum(nil), got.Sum(nil))
			assert.Equal(t, counts{Responses: statuses{200: 1}}, o.counted())
			direct.mu.Lock()
			defer direct.mu.Unlock()
			assert.Greater(t, direct.bytes, int64(size-2048), "all but the first bytes go to sendfile")
		})
	}
}

func TestH14ReadFromReachesTheBase(t *testing.T) {
	for _, size := range []int{1, 511, 512, 100_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			o, base := observe(t), new(http1Writer)
			body := strings.Repeat("x", size)
			observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				n, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader(body))
				assert.NoError(t, err)
				assert.EqualValues(t, size, n)
			})).ServeHTTP(base, httptest.NewRequest(http.MethodGet, "/", nil))

			assert.NotEmpty(t, base.sources)
			assert.EqualValues(t, size, base.bytes)
			assert.Equal(t, counts{Responses: statuses{200: 1}}, o.counted())
		})
	}
}

func TestReadFromPassesTheSourceItselfOnceTheHeadIsWritten(t *testing.T) {
	observe(t)
	base, source := new(http1Writer), strings.NewReader("body")
	observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(io.ReaderFrom).ReadFrom(source)
	})).ServeHTTP(base, httptest.NewRequest(http.MethodGet, "/", nil))
	assert.Equal(t, []io.Reader{source}, base.sources)
}

func TestReadFromReturnsTheSourcesError(t *testing.T) {
	observe(t)
	for _, body := range []string{"", "some"} {
		base := new(http1Writer)
		observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n, err := w.(io.ReaderFrom).ReadFrom(io.MultiReader(strings.NewReader(body), iotest.ErrReader(io.ErrClosedPipe)))
			assert.ErrorIs(t, err, io.ErrClosedPipe)
			assert.EqualValues(t, len(body), n)
		})).ServeHTTP(base, httptest.NewRequest(http.MethodGet, "/", nil))
	}
}

// The error may come together with the last of the bytes that are read apart.
func TestReadFromDoesNotReadAgainAfterAnError(t *testing.T) {
	observe(t)
	handle(new(http1Writer), http.MethodGet, func(w http.ResponseWriter, _ func()) {
		failed := false
		n, err := w.(io.ReaderFrom).ReadFrom(readerFunc(func(p []byte) (int, error) {
			assert.False(t, failed, "read again")
			failed = true
			return len(p), io.ErrUnexpectedEOF
		}))
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Positive(t, n)
	})
}

// A source may deliver its first byte long after ReadFrom was called.
func TestReadFromASourceThatOutlastsTheClient(t *testing.T) {
	o := observe(t)
	handle(new(http1Writer), http.MethodGet, func(w http.ResponseWriter, leave func()) {
		w.(io.ReaderFrom).ReadFrom(io.MultiReader(readerFunc(func([]byte) (int, error) {
			leave()
			return 0, io.EOF
		}), strings.NewReader("late")))
	})
	assert.Equal(t, counts{Cancellations: leftBefore(observer.UnmatchedRoute)}, o.counted())
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
