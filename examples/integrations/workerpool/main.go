// Command workerpool works through jobs behind a limit that is observed.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
)

const usage = `A pool that works through jobs behind a limit that is observed.

  NEMO_GYM_OTEL_EXPORTER=console OTEL_METRIC_EXPORT_INTERVAL=2000 go run .
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 go run . -jobs 10000

The limit is a semaphore with observer.NewMeteredAdmission around it, at the one
place where it is made. That is all: how long jobs wait for the limit
(gym.driver.admission_duration_ms), how many run past it (gym.driver.rollouts.active)
and how many gave up (gym.driver.admission_abandoned_total) follow from it. Offer and
CountResident add how many there are at all.

More workers shorten the wait: try -workers 32.

The exit status is 0 when all jobs are done, 1 if Ctrl-C left some, 2 for wrong
usage.

`

func main() { os.Exit(run()) }

func run() int {
	jobs := flag.Int("jobs", 1000, "how many jobs there are")
	workers := flag.Int64("workers", 8, "how many of them run at once")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 || *jobs < 1 || *workers < 1 {
		fmt.Fprintln(os.Stderr, "workerpool: -jobs and -workers are at least 1, and there are no arguments; -help explains")
		return 2
	}

	observing := observer.Start(context.Background(), "pool", export.FromEnv())
	defer observing.Stop()

	fmt.Printf("Working through %d jobs, %d at a time.\n", *jobs, *workers)
	if err := observing.Err(); err != nil {
		fmt.Printf("Nothing observes it: %v. -help says how to turn that on.\n", err)
	}
	fmt.Println("Ctrl-C finishes the jobs under way and leaves the rest.")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait

	p := &pool{admission: observer.NewMeteredAdmission(semaphore.NewWeighted(*workers))}
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		p.work(ctx, *jobs)
	}()
	p.report(worked, time.Second)
	fmt.Printf("%d of %d jobs are done.\n", p.done.Load(), *jobs)
	if p.done.Load() < int64(*jobs) {
		return 1
	}
	return 0
}

type pool struct {
	admission *observer.MeteredAdmission
	done      atomic.Int64
}

// work does the jobs. Those that still wait when ctx ends are abandoned.
func (p *pool) work(ctx context.Context, jobs int) {
	observer.Driver().Offer(jobs)
	var all sync.WaitGroup
	for range jobs {
		all.Go(func() {
			_ = observer.Driver().CountResident(func() error {
				return p.admission.Do(ctx, func(context.Context) error {
					time.Sleep(5*time.Millisecond + rand.N(10*time.Millisecond)) // the job
					p.done.Add(1)
					return nil
				})
			}) // the error is that of ctx, and the count of what is done tells
		})
	}
	all.Wait()
}

// report says now and then how far it is, until all is worked.
func (p *pool) report(worked <-chan struct{}, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-worked:
			return
		case now := <-ticker.C:
			fmt.Printf("%s  %d done", now.Format(time.TimeOnly), p.done.Load())
			if driver := observer.Driver(); driver != nil { // something observes
				counts := driver.Counts()
				fmt.Printf(", %d running, %d waiting", counts.Active, counts.Resident-counts.Active)
			}
			fmt.Println()
		}
	}
}
