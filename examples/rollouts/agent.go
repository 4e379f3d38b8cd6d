package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/examples/internal/demo"
)

// agent runs rollouts: in each turn it asks the model, thinks, and calls a tool.
type agent struct {
	settings
	client           *http.Client
	model, resources string // URLs
	store            *sql.DB
	thoughts         *guarded
}

func newAgent(s settings, model, resources string) http.Handler {
	if s.AgentCPU > 0 {
		hashesPerSecond() // before there is load
	}
	a := agent{
		settings: s,
		client:   &http.Client{Transport: observer.Transport(demo.NewTransport())},
		model:    model, resources: resources,
		store:    openStore(s.AgentPool),
		thoughts: &guarded{takes: s.AgentLock},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /rollouts/{id}", a.rollout)
	return mux
}

// rollout answers with a line for each turn.
func (a agent) rollout(w http.ResponseWriter, r *http.Request) {
	var lines []byte
	for turn := range a.Turns {
		said, err := post(r.Context(), a.client, a.model+"/turn")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		burn(a.AgentCPU)
		if a.AgentLock > 0 {
			a.thoughts.add()
		}
		if err := keep(r.Context(), a.store, string(said)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		result, err := post(r.Context(), a.client, a.resources+"/call")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		lines = fmt.Appendf(lines, "rollout %s, turn %d: %s, %s\n", r.PathValue("id"), turn, said, result)
	}
	_, _ = w.Write(lines)
}

// post makes a request without a body, and returns that of the answer.
func post(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, response.Status, body)
	}
	return body, err
}

// burn uses the processor for d, however long it has to wait for one: it does the
// hashing that takes that long on a processor of its own.
func burn(d time.Duration) {
	if d == 0 {
		return // and know not how fast the processor is
	}
	hash(int(d.Seconds() * hashesPerSecond()))
}

// hashesPerSecond is taken once, as the best of several tries: others may have
// had the processor in the middle of one.
var hashesPerSecond = sync.OnceValue(func() float64 {
	const tries, hashes = 20, 2000
	best := time.Hour
	for range tries {
		began := time.Now()
		hash(hashes)
		best = min(best, time.Since(began))
	}
	return hashes / best.Seconds()
})

func hash(times int) {
	var block [256]byte
	for range times {
		sum := sha256.Sum256(block[:])
		copy(block[:], sum[:])
	}
}
