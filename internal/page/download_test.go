package page

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowFile is a file of which a read hangs.
type slowFile struct {
	io.ReaderAt
	hangs  chan struct{} // nil where none does
	closed atomic.Int64
}

func (f *slowFile) ReadAt(text []byte, offset int64) (int, error) {
	if f.hangs != nil && offset > 0 {
		<-f.hangs
	}
	return f.ReaderAt.ReadAt(text, offset)
}

func (f *slowFile) Close() error {
	f.closed.Add(1)
	return nil
}

// infoOf is what a file of a size says of itself.
type infoOf int64

func (i infoOf) Name() string       { return "trace.out" }
func (i infoOf) Size() int64        { return int64(i) }
func (i infoOf) Mode() fs.FileMode  { return 0o600 }
func (i infoOf) ModTime() time.Time { return time.Time{} }
func (i infoOf) IsDir() bool        { return false }
func (i infoOf) Sys() any           { return nil }

const largeFile = "/?capture=20261129T140000.000000Z-gc-1/trace.out"

func opening(file *slowFile, size int) func(string, string) captured {
	return func(string, string) captured { return captured{file: file, info: infoOf(size)} }
}

func TestALargeFileIsServedWhole(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	file := &slowFile{ReaderAt: bytes.NewReader(content)}
	h := handlerOf(Snapshot{})
	h.open = opening(file, len(content))
	answer := get(h, largeFile)
	assert.True(t, bytes.Equal(content, answer.Body.Bytes()), "%d of %d bytes", answer.Body.Len(), len(content))
	assert.EqualValues(t, 1, file.closed.Load())

	request := httptest.NewRequest(http.MethodGet, largeFile, nil)
	request.Header.Set("Range", "bytes=1000000-1000015")
	part := httptest.NewRecorder()
	h.ServeHTTP(part, request)
	assert.Equal(t, http.StatusPartialContent, part.Code)
	assert.Equal(t, string(content[1000000:1000016]), part.Body.String())
}

// The patience is for the middle of a file as for its beginning, and ends with the
// viewer in both.
func TestH71AReadThatHangs(t *testing.T) {
	for name, end := range map[string]func(leave func()){
		"for as long as the patience": func(func()) { time.Sleep(readPatience) },
		"until the client is gone":    func(leave func()) { leave() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				content := make([]byte, 1<<20)
				file := &slowFile{ReaderAt: bytes.NewReader(content), hangs: make(chan struct{})}
				h := handlerOf(Snapshot{})
				h.open = opening(file, len(content))
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				answer := httptest.NewRecorder()
				done := make(chan struct{})
				go func() {
					defer close(done)
					h.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, largeFile, nil))
				}()
				synctest.Wait()
				assert.Equal(t, http.StatusServiceUnavailable, get(h, largeFile).Code, "of another one")
				end(leave)
				<-done
				assert.Less(t, answer.Body.Len(), len(content))
				close(file.hangs)
				synctest.Wait()
				assert.False(t, h.disk.asked.Load())
			})
		})
	}
}

func TestH71AFileThatOpensTooLateIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := &slowFile{ReaderAt: bytes.NewReader(nil)}
		h, opens := handlerOf(Snapshot{}), make(chan struct{})
		h.open = func(string, string) captured {
			<-opens
			return captured{file: file, info: infoOf(0)}
		}
		assert.Equal(t, http.StatusServiceUnavailable, get(h, largeFile).Code)
		close(opens)
		synctest.Wait()
		assert.EqualValues(t, 1, file.closed.Load())
		assert.Equal(t, http.StatusOK, get(h, largeFile).Code, "it answers again")
	})
}

// Another look at the disk asks when the first has been answered.
func TestH71TheListWaitsForADownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		directory := evidenceOf(t)
		h := handlerOf(Snapshot{Captures: directory})
		h.disk.asked.Store(true)
		go func() {
			time.Sleep(listPatience / 2)
			h.disk.asked.Store(false)
		}()
		assert.Len(t, h.captures.of(&h.disk, directory), 2)
	})
}

func TestAnEmptyFileIsServed(t *testing.T) {
	directory := evidenceOf(t)
	require.NoError(t, os.WriteFile(filepath.Join(directory, "20261129T140000.000000Z-gc-1", "empty.pprof"), nil, 0o600))
	answer := get(handlerOf(Snapshot{Captures: directory}), "/?capture=20261129T140000.000000Z-gc-1/empty.pprof")
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Zero(t, answer.Body.Len())
}
