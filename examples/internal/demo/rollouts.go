package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Model returns a slow downstream. A turn takes it 20 to 60 ms, and one in fifty
// fails; a search takes two seconds.
func Model() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /turn", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(20*time.Millisecond + rand.N(40*time.Millisecond))
		if rand.IntN(50) == 0 {
			http.Error(w, "out of memory", http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, "a thought, a call, and an answer")
	})
	mux.HandleFunc("GET /search", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(2 * time.Second):
		}
	})
	return mux
}

// Turn is what the server answers about one turn of a rollout.
type Turn struct {
	Items     []string `json:"items"`
	ToolCalls int      `json:"tool_calls"`
}

// Rollouts returns the server: turns of rollouts, for which it asks the model.
func Rollouts(client *http.Client, model string) http.Handler {
	s := rollouts{client, model}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /rollouts/{id}", s.turn)
	mux.HandleFunc("GET /rollouts/{id}/events", s.events)
	mux.HandleFunc("GET /search", s.search)
	mux.HandleFunc("GET /crash", func(http.ResponseWriter, *http.Request) { panic("a bug in a handler") })
	return mux
}

type rollouts struct {
	client *http.Client
	model  string // its URL
}

// turn answers with the next turn of a rollout.
func (s rollouts) turn(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 1 {
		http.Error(w, "rollouts are numbered from 1", http.StatusNotFound)
		return
	}
	text, err := s.ask(r, "/turn")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	turn := Turn{ToolCalls: rand.IntN(4)}
	for i := range 1 + rand.IntN(200) {
		turn.Items = append(turn.Items, fmt.Sprintf("item %d of rollout %d: %s", i, id, text))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(turn)
}

// events streams ten events, one every 100 ms.
func (s rollouts) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range 10 {
		fmt.Fprintf(w, "data: event %d of rollout %s\n\n", i, r.PathValue("id"))
		if err := http.NewResponseController(w).Flush(); err != nil {
			return // the client has left
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// search answers late, if anybody still waits.
func (s rollouts) search(w http.ResponseWriter, r *http.Request) {
	if _, err := s.ask(r, "/search"); err != nil && r.Context().Err() == nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// ask asks the model, for as long as the client of r waits.
func (s rollouts) ask(r *http.Request, path string) (string, error) {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, s.model+path, nil)
	if err != nil {
		return "", err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the model answers %s", response.Status)
	}
	return string(text), err
}
