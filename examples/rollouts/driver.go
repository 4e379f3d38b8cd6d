package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/examples/internal/demo"
)

const (
	// pauseAfterFailure keeps a driver whose agent is gone from spinning.
	pauseAfterFailure = 100 * time.Millisecond

	// drainPatience is what the rollouts that run have at the end.
	drainPatience = 5 * time.Second
)

// driver offers rollouts, admits some of them at a time, has the agent run them,
// and writes their output.
type driver struct {
	settings
	agent     string // its URL
	client    *http.Client
	admission *observer.MeteredAdmission
	output    writer
	rollouts  sync.WaitGroup

	offered, finished, failed, abandoned atomic.Int64
	lastError                            atomic.Pointer[string]
}

// totals are what a driver counted for itself.
type totals struct {
	Offered, Finished, Failed, Abandoned int64
	LastError                            string // of those that failed
}

func newDriver(s settings, agent string) *driver {
	transport := demo.NewTransport()
	transport.MaxConnsPerHost = s.DriverConnections
	var limit observer.Limiter
	if s.DriverLimit > 0 {
		limit = semaphore.NewWeighted(s.DriverLimit)
	}
	return &driver{
		settings:  s,
		agent:     agent,
		client:    &http.Client{Transport: observer.Transport(transport)},
		admission: observer.NewMeteredAdmission(limit),
		output:    writer{to: io.Discard, takes: s.DriverWrite}, // a real one keeps what it has paid for
	}
}

// drive offers rollouts until ctx ends. Those that wait for the limit are then
// abandoned, those that run are finished, and in the end left.
func (d *driver) drive(ctx context.Context) totals {
	running, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	if d.Rate > 0 {
		d.openLoop(ctx, running)
	} else {
		d.closedLoop(ctx, running)
	}
	<-ctx.Done()
	late := time.AfterFunc(drainPatience, leave)
	defer late.Stop()
	d.rollouts.Wait()
	d.client.CloseIdleConnections()
	all := totals{Offered: d.offered.Load(), Finished: d.finished.Load(), Failed: d.failed.Load(), Abandoned: d.abandoned.Load()}
	if text := d.lastError.Load(); text != nil {
		all.LastError = *text
	}
	return all
}

// closedLoop keeps so many rollouts resident.
func (d *driver) closedLoop(ctx, running context.Context) {
	for range d.Concurrency {
		d.rollouts.Go(func() {
			for ctx.Err() == nil {
				if err := d.offer(ctx, running); err != nil {
					time.Sleep(pauseAfterFailure)
				}
			}
		})
	}
}

// openLoop lets rollouts arrive at random times, whatever becomes of the ones
// before: a Poisson process.
func (d *driver) openLoop(ctx, running context.Context) {
	random := rand.New(rand.NewPCG(d.Seed, 0))
	timer := time.NewTimer(0)
	defer timer.Stop()
	next := time.Now()
	for {
		// From one due time to the next: a late one does not delay those after it.
		next = next.Add(time.Duration(random.ExpFloat64() / d.Rate * float64(time.Second)))
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			d.rollouts.Go(func() { _ = d.offer(ctx, running) }) // counted there
		}
	}
}

// offer takes one rollout from its input to its output, and counts what came of it.
func (d *driver) offer(ctx, running context.Context) error {
	id := d.offered.Add(1)
	observer.Driver().Offer(1)
	return observer.Driver().CountResident(func() error {
		release, err := d.admission.Admit(ctx)
		if err != nil {
			d.abandoned.Add(1)
			return err
		}
		defer release()
		switch err := d.rollout(running, id); {
		case err == nil:
			d.finished.Add(1)
			return nil
		case running.Err() != nil:
			d.abandoned.Add(1)
			return err
		default:
			d.failed.Add(1)
			text := err.Error()
			d.lastError.Store(&text)
			return err
		}
	})
}

func (d *driver) rollout(ctx context.Context, id int64) error {
	answer, err := post(ctx, d.client, fmt.Sprintf("%s/rollouts/%d", d.agent, id))
	if err != nil {
		return err
	}
	line, err := json.Marshal(map[string]any{"id": id, "output": string(answer)})
	if err != nil {
		return err
	}
	if err := d.output.write(ctx, line); err != nil {
		return err
	}
	observer.Driver().RecordRollout(ctx, observer.RolloutSize{
		InputItems: 1, OutputItems: d.Turns, Turns: d.Turns, ToolCalls: d.Turns,
	})
	return nil
}

// writer writes one line at a time.
type writer struct {
	mu    sync.Mutex // held over a write
	to    io.Writer
	takes time.Duration // as a slow store does
}

func (w *writer) write(ctx context.Context, line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	end := observer.Driver().BeginOutputWrite(ctx)
	time.Sleep(w.takes)
	n, err := w.to.Write(append(line, '\n'))
	end(int64(n))
	return err
}
