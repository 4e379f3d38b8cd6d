package main

import (
	"context"
	"io"
	"net/http"
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
	mux := http.NewServeMux()
	mux.HandleFunc("POST /turn", func(w http.ResponseWriter, r *http.Request) {
		err := slots.Do(r.Context(), func(context.Context) error {
			time.Sleep(s.ModelDelay)
			return nil
		})
		if err != nil {
			return // the agent has left
		}
		_, _ = io.WriteString(w, "a thought and a call")
	})
	return mux
}
