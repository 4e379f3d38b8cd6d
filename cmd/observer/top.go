package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gym-observer/observer/client"
	"github.com/gym-observer/observer/internal/fetch"
)

// top is the table, until ctx ends.
func top(ctx context.Context, args []string, stdout io.Writer) (int, error) {
	f := newFlags("observer top")
	every := f.Duration("every", 2*time.Second, "how often to ask")
	python := newPrometheusFlags(f)
	query := f.String("query", "", "which series in Prometheus: a `SELECTOR` such as job=\"model\"; without it all processes that have no page")
	urls, err := f.parse(args)
	if err != nil {
		return failed, err
	}
	source, err := python.source(f)
	if err != nil {
		return failed, err
	}
	if source == nil {
		if *query != "" {
			return failed, errors.New("-query needs -prometheus")
		}
		if err := needURLs(urls, math.MaxInt); err != nil {
			return failed, err
		}
	}
	if *every < 100*time.Millisecond {
		return failed, errors.New("-every: a tenth of a second is the least; a window of a process takes ten")
	}
	w := newWatch(urls, f.options(), source, *query)
	screen := openScreen(stdout, os.Getenv)
	defer screen.close()
	w.run(ctx, *every, screen)
	return fine, nil
}

// watch asks many processes again and again.
type watch struct {
	options []client.Option
	source  *prometheus
	query   string

	// A page that hangs has its connection for the whole timeout. Those that did not
	// answer the last time share a part of the connections, so that forty of them
	// cannot hold up the others.
	slots, slotsForSilent chan struct{}

	mu       sync.Mutex // guards what follows
	polled   []*polled
	measured []measured
	trouble  string // what is wrong with Prometheus
	busy     bool   // it is being asked
}

type polled struct {
	url  string
	row  row
	busy bool // it is being asked
}

func newWatch(urls []string, options []client.Option, source *prometheus, query string) *watch {
	w := &watch{
		options: options, source: source, query: query,
		slots:          make(chan struct{}, fetch.Connections-silentConnections-prometheusConnections),
		slotsForSilent: make(chan struct{}, silentConnections),
	}
	for _, u := range urls {
		w.polled = append(w.polled, &polled{url: u, row: row{address: hostOf(u)}})
	}
	return w
}

// silentConnections are for pages that did not answer the last time: up to sixteen
// of those that hang are asked again within two timeouts.
const silentConnections = 8

// run draws until ctx ends, or nobody reads on.
func (w *watch) run(ctx context.Context, every time.Duration, screen *screen) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	var rounds sync.WaitGroup
	defer rounds.Wait()
	draw := func() error { return screen.draw(w.picture(screen, every)) }
	for {
		asked := w.round(ctx, &rounds)
		// The picture comes with the answers, or else with the next round.
		for due := false; !due; {
			select {
			case <-asked:
				if draw() != nil {
					return
				}
				asked = nil
			case <-ticks.C:
				due = true
			case <-screen.stopped:
				screen.pause()
				if draw() != nil {
					return
				}
			case <-screen.resized:
				if draw() != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
		if asked != nil && draw() != nil {
			return
		}
	}
}

// round asks whatever is not being asked, and returns what closes once it has
// been.
func (w *watch) round(ctx context.Context, rounds *sync.WaitGroup) (asked chan struct{}) {
	asked = make(chan struct{})
	var round sync.WaitGroup
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.polled {
		if !p.busy {
			p.busy = true
			round.Go(func() { w.ask(ctx, p) })
		}
	}
	if w.source != nil && !w.busy {
		w.busy = true
		round.Go(func() { w.askPrometheus(ctx) })
	}
	rounds.Go(func() { round.Wait(); close(asked) })
	return asked
}

func (w *watch) ask(ctx context.Context, p *polled) {
	w.mu.Lock()
	slots := w.slots
	if !p.row.silentSince.IsZero() {
		slots = w.slotsForSilent
	}
	w.mu.Unlock()
	slots <- struct{}{}
	report, err := client.Get(ctx, p.url, w.options...)
	<-slots
	w.mu.Lock()
	defer w.mu.Unlock()
	p.busy = false
	switch {
	case ctx.Err() != nil:
	case err == nil:
		p.row.report, p.row.answered, p.row.silentSince, p.row.silent = report, true, time.Time{}, ""
	default:
		p.row.silent = reasonOf(err)
		if p.row.silentSince.IsZero() {
			p.row.silentSince = time.Now()
		}
	}
}

func (w *watch) askPrometheus(ctx context.Context) {
	found, err := w.source.processes(ctx, w.query)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	if err != nil {
		w.trouble = err.Error()
		return
	}
	w.measured, w.trouble = found, ""
}

// picture is what is known now, in lines.
func (w *watch) picture(s *screen, every time.Duration) []string {
	width, height := s.size()
	now := time.Now()
	w.mu.Lock()
	var rows []row
	for _, p := range w.polled {
		rows = append(rows, p.row)
	}
	for _, m := range w.measured {
		rows = append(rows, row{address: m.instance, measured: &m})
	}
	trouble := w.trouble
	w.mu.Unlock()
	var slow, silent int
	for _, r := range rows {
		switch r.rank() {
		case 0:
			slow++
		case 1:
			silent++
		}
	}
	head := fmt.Sprintf("%s  %d processes, %d slow, %d without an answer; every %v", now.Format(time.TimeOnly), len(rows), slow, silent, every)
	lines := []string{cut(head, width)}
	if trouble != "" {
		lines = append(lines, cut(text(trouble), width))
	}
	room := 0
	if height > 0 {
		room = max(height-len(lines), 1)
	}
	return slices.Concat(lines, table(rows, now, width, room, s.colour))
}

// hostOf is what a URL is shown as in a column.
func hostOf(text string) string {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return addressOf(text, nil)
	}
	return u.Host
}
