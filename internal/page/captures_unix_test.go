//go:build unix

package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// hangingDirectory is one whose opening hangs until the test ends, as on a dead
// file server: a pipe that nobody writes to. release lets those go on that hang.
func hangingDirectory(t *testing.T) (name string, release func()) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "captures")
	require.NoError(t, unix.Mkfifo(name, 0o600))
	release = func() {
		// It does not hang itself where nobody reads.
		if writer, err := os.OpenFile(name, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			writer.Close()
		}
	}
	return name, release
}

const aFile = "/?capture=20261129T140000.000000Z-gc-1/goroutines.txt"

func TestH71DownloadsFromADirectoryThatHangs(t *testing.T) {
	name, release := hangingDirectory(t)
	var opening, most, begun atomic.Int64
	h := handlerOf(Snapshot{Captures: name})
	h.open = func(directory, name string) captured {
		begun.Add(1)
		now := opening.Add(1)
		defer opening.Add(-1)
		for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
		}
		return openCapture(directory, name)
	}
	var downloads sync.WaitGroup
	for i := range 200 {
		downloads.Go(func() {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if i%2 == 0 {
				leave() // its client is gone
			}
			answer := httptest.NewRecorder()
			began := time.Now()
			h.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, aFile, nil))
			assert.Less(t, time.Since(began), time.Second)
			assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
		})
	}
	downloads.Wait()
	assert.EqualValues(t, 1, opening.Load(), "one thread waits")
	assert.EqualValues(t, 1, most.Load(), "and never more than one did")

	began := time.Now()
	assert.Empty(t, h.captures.of(&h.disk, name), "nor does the list wait with a thread of its own")
	assert.Less(t, time.Since(began), time.Second)
	for h.disk.asked.Load() {
		release()
	}
	answer := get(h, aFile)
	assert.NotEqual(t, http.StatusOK, answer.Code)
	for h.disk.asked.Load() {
		release()
	}
	assert.EqualValues(t, 0, opening.Load())
}

// What the list waits for, downloads do not wait for with a thread of their own.
func TestDirectoryThatHangsHoldsUpOneLookAndNobodyElse(t *testing.T) {
	name, release := hangingDirectory(t)
	h := handlerOf(Snapshot{Captures: name})
	assert.Empty(t, h.captures.of(&h.disk, name))
	require.True(t, h.disk.asked.Load(), "the look hangs")
	h.open = func(string, string) captured {
		t.Error("a second thread")
		return captured{err: os.ErrNotExist}
	}
	assert.Equal(t, http.StatusServiceUnavailable, get(h, aFile).Code)
	assert.Equal(t, http.StatusOK, get(h, "/?format=json").Code, "the page goes on without the list")
	for h.disk.asked.Load() {
		release()
	}
}
