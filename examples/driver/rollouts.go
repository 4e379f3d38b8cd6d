package main

import (
	"context"
	"encoding/json"
	"errors"
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

// pauseAfterFailure keeps a driver whose server is gone from spinning.
const pauseAfterFailure = 100 * time.Millisecond

// driver works on rollouts, and counts for itself what the observer is to show.
type driver struct {
	server    string
	client    *http.Client
	admission *observer.MeteredAdmission
	deadline  time.Duration
	output    io.Writer // each Write is one line

	workers  sync.WaitGroup
	began    time.Time
	failedAs atomic.Pointer[error]

	offered, admitted, abandoned, finished, failed atomic.Int64
	turns, toolCalls, bytes                        atomic.Int64
	waited                                         atomic.Int64 // nanoseconds
}

func newDriver(server string, limit int64, deadline time.Duration, output io.Writer) *driver {
	return &driver{
		server:    server,
		client:    &http.Client{Transport: observer.Transport(demo.NewTransport())},
		admission: observer.NewMeteredAdmission(semaphore.NewWeighted(limit)),
		deadline:  deadline,
		output:    output,
	}
}

// tryServer reports a server that cannot be reached.
func (d *driver) tryServer() error {
	response, err := d.client.Get(d.server)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// start keeps n rollouts resident until ctx ends.
func (d *driver) start(ctx context.Context, n int) {
	d.began = time.Now()
	for range n {
		d.workers.Go(func() {
			for ctx.Err() == nil {
				id := d.offered.Add(1)
				observer.Driver().Offer(1)
				err := observer.Driver().CountResident(func() error { return d.rollout(id) })
				if err != nil {
					time.Sleep(pauseAfterFailure)
				}
			}
		})
	}
}

// wait waits for the rollouts that are resident.
func (d *driver) wait() {
	d.workers.Wait()
	d.client.CloseIdleConnections()
}

// rollout works on one rollout, from its input to its output.
func (d *driver) rollout(id int64) error {
	ctx := context.Background()
	input, err := materialize(ctx, id)
	if err != nil {
		return d.fail(err)
	}

	waiting := ctx
	if id%8 == 0 {
		var giveUp context.CancelFunc
		waiting, giveUp = context.WithTimeout(ctx, d.deadline)
		defer giveUp()
	}
	asked := time.Now()
	release, err := d.admission.Admit(waiting)
	if err != nil {
		d.abandoned.Add(1)
		return nil // what is too late for its deadline is no failure of the driver
	}
	defer release()
	d.admitted.Add(1)
	d.waited.Add(int64(time.Since(asked)))

	result := result{ID: id}
	size := observer.RolloutSize{InputItems: len(input.Items)}
	for range 1 + rand.IntN(4) {
		turn, err := d.turn(ctx, id)
		if err != nil {
			return d.fail(err)
		}
		result.Items = append(result.Items, turn.Items...)
		size.Turns++
		size.ToolCalls += turn.ToolCalls
	}
	size.OutputItems = len(result.Items)
	if err := d.write(ctx, result); err != nil {
		return d.fail(err)
	}
	observer.Driver().RecordRollout(ctx, size)
	d.finished.Add(1)
	d.turns.Add(int64(size.Turns))
	d.toolCalls.Add(int64(size.ToolCalls))
	return nil
}

// task is the input of a rollout, and result its output.
type task struct {
	Items []string `json:"items"`
}

type result struct {
	ID    int64    `json:"id"`
	Items []string `json:"items"`
}

// materialize makes the input of a rollout. A real driver has its lines from a
// data set.
func materialize(ctx context.Context, id int64) (input task, err error) {
	began := time.Now()
	defer func() { observer.Driver().RecordMaterialize(ctx, time.Since(began)) }()
	line := fmt.Appendf(nil, `{"items": ["a system prompt", "task %d", "a hint"]}`, id)
	return input, json.Unmarshal(line, &input)
}

// turn asks the server for one turn of a rollout.
func (d *driver) turn(ctx context.Context, id int64) (turn demo.Turn, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/rollouts/%d", d.server, id), nil)
	if err != nil {
		return turn, err
	}
	response, err := d.client.Do(request)
	if err != nil {
		return turn, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, response.Body) // so that the connection is kept
		return turn, fmt.Errorf("the server answers %s", response.Status)
	}
	return turn, json.NewDecoder(response.Body).Decode(&turn)
}

// write writes the output of one rollout. A file takes lines from several
// goroutines: it writes each as a whole.
func (d *driver) write(ctx context.Context, result result) error {
	line, err := json.Marshal(result)
	if err != nil {
		return err
	}
	end := observer.Driver().BeginOutputWrite(ctx)
	n, err := d.output.Write(append(line, '\n'))
	end(int64(n))
	d.bytes.Add(int64(n))
	return err
}

func (d *driver) fail(err error) error {
	d.failed.Add(1)
	d.failedAs.Store(&err)
	return err
}

// lastError returns the error of the rollout that failed last.
func (d *driver) lastError() error {
	if err := d.failedAs.Load(); err != nil {
		return *err
	}
	return errors.New("none")
}

// summarize prints a closing table.
func (d *driver) summarize() {
	took := time.Since(d.began)
	finished := d.finished.Load()
	fmt.Printf("\n%-12s %10d\n", "offered", d.offered.Load())
	fmt.Printf("%-12s %10d   after %.0f ms on average\n", "admitted", d.admitted.Load(),
		float64(d.waited.Load())/1e6/float64(max(d.admitted.Load(), 1)))
	fmt.Printf("%-12s %10d   before their deadline\n", "abandoned", d.abandoned.Load())
	fmt.Printf("%-12s %10d   the last one because of: %v\n", "failed", d.failed.Load(), d.lastError())
	fmt.Printf("%-12s %10d   %.1f a second\n", "finished", finished, float64(finished)/took.Seconds())
	fmt.Printf("%-12s %10d\n", "turns", d.turns.Load())
	fmt.Printf("%-12s %10d\n", "tool calls", d.toolCalls.Load())
	fmt.Printf("%-12s %10d\n", "bytes", d.bytes.Load())
}
