package main

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer"
)

// newModel returns the model: a turn takes it a while, and so many at once is all
// that it can do. Its slots are a metered limit like the driver's, so that its
// own observer sees who waits for them.
func newModel(s settings) http.Handler {
	slots := observer.NewMeteredAdmission(nil)
	if s.ModelSlots > 0 {
		slots = observer.NewMeteredAdmission(semaphore.NewWeighted(s.ModelSlots))
	}
	cache := &guarded{takes: s.ModelLock}
	if s.ModelGarbage > 0 {
		keepCollectorBusy()
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /turn", func(w http.ResponseWriter, r *http.Request) {
		err := slots.Do(r.Context(), func(context.Context) error {
			time.Sleep(s.ModelDelay)
			if s.ModelLock > 0 {
				cache.add()
			}
			newTokens(s.ModelGarbage * megabyte)
			return nil
		})
		if err != nil {
			return // the agent has left
		}
		_, _ = io.WriteString(w, "a thought and a call")
	})
	return mux
}

// token is a small object with a pointer, for the collector to follow.
type token struct {
	next *token
	_    [7]int64
}

const (
	tokenBytes = 64
	megabyte   = 1 << 20

	// What the model keeps, and the little that may be added to it between two
	// collections: with a model as small as this one the collector has much to look
	// at and never rests.
	vocabularyBytes = 64 * megabyte
	busyPercent     = 10
)

var vocabulary *token

func keepCollectorBusy() {
	vocabulary = newTokens(vocabularyBytes)
	debug.SetGCPercent(busyPercent)
	runtime.KeepAlive(vocabulary) // as whoever asks the model would
}

// newTokens returns that many bytes of them.
func newTokens(bytes int) (first *token) {
	for range bytes / tokenBytes {
		first = &token{next: first}
	}
	return first
}
