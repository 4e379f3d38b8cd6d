package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer"
)

// drive keeps n rollouts going until ctx ends, and waits for the last.
func drive(ctx context.Context, n int, rollout func(context.Context) error) {
	together(ctx, n, func() {
		driver := observer.Driver()
		driver.Offer(1)
		_ = driver.CountResident(func() error { return rollout(ctx) }) // it ends with ctx, and for no other reason
	})
}

// newAdmission is the limit of a driver.
func newAdmission(limit int64) *observer.MeteredAdmission {
	return observer.NewMeteredAdmission(semaphore.NewWeighted(limit))
}

// elsewhere is the part of a rollout that happens in a sandbox or a tool, of
// which this process sees nothing.
func elsewhere(ctx context.Context) error { return sleep(ctx, 200*time.Millisecond) }

func fillAdmission(ctx context.Context, _ *server) error {
	admission := newAdmission(4)
	drive(ctx, 32, func(ctx context.Context) error {
		return admission.Do(ctx, elsewhere) // planted: admission/full
	})
	return nil
}

// leakAdmission waits for slots that nobody will give back.
func leakAdmission(ctx context.Context, _ *server) error {
	admission := newAdmission(4)
	for range 4 {
		leaked, err := admission.Admit(ctx)
		if err != nil {
			return err
		}
		defer leaked()
	}
	drive(ctx, 8, func(ctx context.Context) error {
		return admission.Do(ctx, elsewhere) // planted: admission/leaked
	})
	return nil
}

const modelTime = 300 * time.Millisecond

// newModel serves a model that takes its time. At most parallel requests are
// worked on, unless that is 0.
func newModel(parallel int64) *httptest.Server {
	limit := semaphore.NewWeighted(max(parallel, 1))
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if parallel > 0 {
			if limit.Acquire(r.Context(), 1) != nil {
				return
			}
			defer limit.Release(1)
		}
		_ = sleep(r.Context(), modelTime) // a client that has left wants no answer
	}))
}

func askSlowModel(ctx context.Context, s *server) error { return askModel(ctx, s, 32) }

// askWithFew is a driver with a small limit, which waits for its model as any does.
func askWithFew(ctx context.Context, s *server) error { return askModel(ctx, s, 4) }

func askModel(ctx context.Context, s *server, rollouts int) error {
	model := newModel(0)
	defer model.Close()
	admission := newAdmission(64)
	drive(ctx, rollouts, func(ctx context.Context) error {
		return admission.Do(ctx, func(ctx context.Context) error { return s.askModel(ctx, model.URL) })
	})
	return nil
}

// proxySlowModel is a server that waits for a server, without any rollout.
func proxySlowModel(ctx context.Context, s *server) error {
	return proxyModel(ctx, s, newModel(2), 16)
}

// askALittle is how services work.
func askALittle(ctx context.Context, s *server) error {
	return proxyModel(ctx, s, newModel(0), 4)
}

func proxyModel(ctx context.Context, s *server, model *httptest.Server, clients int) error {
	defer model.Close()
	s.upstream.Store(&model.URL)
	together(ctx, clients, func() { _ = get(ctx, s.client, s.url+"/ask") })
	return nil
}

// askSilentModel waits for answers that do not come within the window.
func askSilentModel(ctx context.Context, s *server) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // whose backlog takes the connections
	if err != nil {
		return err
	}
	defer listener.Close()
	admission := newAdmission(64)
	drive(ctx, 16, func(ctx context.Context) error {
		return admission.Do(ctx, func(ctx context.Context) error {
			return s.askModel(ctx, "http://"+listener.Addr().String())
		})
	})
	return nil
}

// output is one rollout's result, as a driver writes it.
var output = bytes.Repeat([]byte("rollout\n"), 8<<10)

// writeSlowly writes into pipes whose reader takes 16 KiB at a time, ten times a
// second, which stands for a busy disk or a slow store.
func writeSlowly(ctx context.Context, _ *server) error {
	return writeToPipes(ctx, func(ctx context.Context, pipe io.Writer) error {
		end := observer.Driver().BeginOutputWrite(ctx)
		n, err := pipe.Write(output) // planted: output_write/begun
		end(int64(n))
		return err
	})
}

func recordSlowWrites(ctx context.Context, _ *server) error {
	return writeToPipes(ctx, func(ctx context.Context, pipe io.Writer) error {
		began := time.Now()
		n, err := pipe.Write(output) // planted: output_write/recorded
		observer.Driver().RecordOutputWrite(ctx, time.Since(began), int64(n))
		return err
	})
}

// writeToPipes drives 8 rollouts, each with a pipe of its own.
func writeToPipes(ctx context.Context, write func(context.Context, io.Writer) error) error {
	const rollouts = 8
	pipes := make(chan *os.File, rollouts)
	var readers sync.WaitGroup
	defer readers.Wait()
	for range rollouts {
		reader, writer, err := os.Pipe()
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, func() { reader.Close() })() // the write fails then
		defer writer.Close()
		pipes <- writer
		readers.Go(func() {
			piece := make([]byte, 16<<10)
			for sleep(ctx, 100*time.Millisecond) == nil {
				if _, err := reader.Read(piece); err != nil {
					return
				}
			}
		})
	}
	drive(ctx, rollouts, func(ctx context.Context) error {
		pipe := <-pipes
		defer func() { pipes <- pipe }()
		return write(ctx, pipe)
	})
	return nil
}

// hangWrites begins writes that do not end while it lasts.
func hangWrites(ctx context.Context, _ *server) error {
	drive(ctx, 3, func(ctx context.Context) error {
		end := observer.Driver().BeginOutputWrite(ctx)
		defer end(0)
		<-ctx.Done()
		return ctx.Err()
	})
	return nil
}

// writeInTurn holds a lock over each write, which is what the others then wait for.
func writeInTurn(ctx context.Context, _ *server) error {
	var turn sync.Mutex
	drive(ctx, 64, func(ctx context.Context) error {
		if err := elsewhere(ctx); err != nil {
			return err
		}
		turn.Lock()
		defer turn.Unlock()
		end := observer.Driver().BeginOutputWrite(ctx)
		defer end(1)
		return sleep(ctx, 30*time.Millisecond)
	})
	return nil
}

// writeForAHundredth has 128 rollouts that each wait for a model for a second and
// write for 10 ms: one or two write at any moment, and none waits for that.
func writeForAHundredth(ctx context.Context, s *server) error {
	model := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = sleep(r.Context(), time.Second)
	}))
	defer model.Close()
	admission := newAdmission(128)
	drive(ctx, 128, func(ctx context.Context) error {
		return admission.Do(ctx, func(ctx context.Context) error {
			if err := s.askModel(ctx, model.URL); err != nil {
				return err
			}
			end := observer.Driver().BeginOutputWrite(ctx)
			defer end(1)
			return sleep(ctx, 10*time.Millisecond)
		})
	})
	return nil
}

// writeNowAndThen does the same with rollouts that are elsewhere in between.
func writeNowAndThen(ctx context.Context, _ *server) error {
	admission := newAdmission(128)
	drive(ctx, 128, func(ctx context.Context) error {
		return admission.Do(ctx, func(ctx context.Context) error {
			if err := sleep(ctx, time.Second); err != nil {
				return err
			}
			end := observer.Driver().BeginOutputWrite(ctx)
			defer end(1)
			return sleep(ctx, 10*time.Millisecond)
		})
	})
	return nil
}

// writeQuickly writes one output to nowhere.
func writeQuickly(ctx context.Context) error {
	end := observer.Driver().BeginOutputWrite(ctx)
	n, err := io.Discard.Write(output)
	end(int64(n))
	return err
}
