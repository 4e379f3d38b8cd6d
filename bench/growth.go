package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/sites"
)

// growing is something that there may be much of, and what that could make dear.
type growing struct {
	what    string
	amounts []int
	grow    func(n int) error
	cost    string
	measure func(*observed) float64 // microseconds
}

const (
	ofCollection = "one collection"
	ofSample     = "one sample"
	ofRequest    = "one request in the middleware"
	ofWindow     = "one window of 1 s with its ten samples"
	ofSickWindow = "one window of 1 s while the verdict is wait"
	ofSnapshot   = "one snapshot of the goroutines, taken only while a cause holds"
)

var (
	amounts = []int{1, 100, 10_000}
	// There are no more statuses than this.
	statusAmounts = []int{1, 100, 900}
	// One request that waits is no verdict: its window is what a healthy one costs.
	sickAmounts = []int{1, 1000, 10_000}
)

var growings = []growing{
	{"routes", amounts, growRoutes, ofCollection, collectionTime},
	{"status codes", statusAmounts, growStatuses, ofCollection, collectionTime},
	{"goroutines", amounts, growGoroutines, ofCollection, collectionTime},
	{"goroutines", amounts, growGoroutines, ofSample, sampleTime},
	{"descriptors", amounts, growDescriptors, ofCollection, collectionTime},
	{"goroutines", []int{100, 1000, 10_000}, growGoroutines, ofSnapshot, snapshotTime},
	{"threads", amounts, growThreads, ofCollection, collectionTime},
	{"threads", amounts, growThreads, ofSample, sampleTime},
	{"threads", []int{1, 5000}, growThreads, ofWindow, windowTime},
	{"goroutines", []int{1, 100_000}, growGoroutines, ofWindow, windowTime},
	{"requests", sickAmounts, growWaits, ofSickWindow, windowTime},
	{"loops", amounts, growLoops, ofCollection, collectionTime},
	{"requests in flight", amounts, growRequests, ofCollection, collectionTime},
	{"requests in flight", amounts, growRequests, ofRequest, requestTime},
}

func growth() *family {
	f := &family{
		name:   "growth",
		about:  "What grows with the work, each in a process of its own. Beyond 900 routes there is one for all others.",
		unit:   "µs",
		rounds: byChildRounds,
	}
	for _, g := range growings {
		for _, n := range g.amounts {
			f.cases = append(f.cases, &testCase{grownName(g, n), ours, func(effort) (sample, error) {
				value, err := child("growth", g.what+", "+g.cost, strconv.Itoa(n))
				return uncounted(value), err
			}})
		}
	}
	return f
}

func grownName(g growing, n int) string {
	return fmt.Sprintf("%s, %s: %s", g.cost, g.what, number(float64(n)))
}

// grown measures one of them in this process.
func grown(what string, n int) (float64, error) {
	for _, g := range growings {
		if what != g.what+", "+g.cost {
			continue
		}
		o, err := observe()
		if err != nil {
			return 0, err
		}
		defer o.Stop()
		if err := g.grow(n); err != nil {
			return 0, err
		}
		runtime.GC() // of what growing left
		value := g.measure(o)
		if math.IsNaN(value) {
			return 0, fmt.Errorf("%s: it was not what was to be measured", what)
		}
		return value, nil
	}
	return 0, fmt.Errorf("nothing that grows is called %q", what)
}

func growRoutes(n int) error {
	for i := range n {
		observer.Requests().CountCancellation(fmt.Sprintf("/route/%d", i), false)
	}
	return nil
}

func growStatuses(n int) error {
	for i := range n {
		observer.Requests().CountResponse(100 + i)
	}
	return nil
}

func growGoroutines(n int) error {
	for range n {
		go func() { select {} }()
	}
	return nil
}

func growDescriptors(n int) error {
	_, err := openDescriptors(n)
	return err
}

func growThreads(n int) error {
	var all sync.WaitGroup
	all.Add(n)
	for range n {
		go func() {
			runtime.LockOSThread()
			all.Done()
			select {}
		}()
	}
	all.Wait()
	return nil
}

// growLoops starts loops that hardly ever sample: it is their number that counts.
func growLoops(n int) error {
	for i := range n {
		err := observer.Start(context.Background(), fmt.Sprintf("loop %d", i),
			observer.WithTaskCount(true), observer.WithSampleInterval(time.Hour)).Err()
		if err != nil {
			return err
		}
	}
	return nil
}

func growRequests(n int) error {
	var all sync.WaitGroup
	all.Add(n)
	handler := observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		all.Done()
		select {}
	}))
	for range n {
		go handler.ServeHTTP(&fakeWriter{header: make(http.Header)}, httptest.NewRequest(http.MethodGet, "/", nil))
	}
	all.Wait()
	return nil
}

// growWaits makes requests that wait for something in this process. That verdict rests
// on snapshots in each of its windows, and costs more than any other.
func growWaits(n int) error {
	nothing := make(chan struct{})
	handler := observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-nothing }))
	for range n {
		go handler.ServeHTTP(&fakeWriter{header: make(http.Header)}, httptest.NewRequest(http.MethodGet, "/", nil))
	}
	return nil
}

func requestTime(*observed) float64 {
	handler := middleware(trivial)
	w, r := &fakeWriter{header: make(http.Header)}, httptest.NewRequest(http.MethodGet, "/", nil)
	return operation{repeat: func(n int) {
		for range n {
			handler.ServeHTTP(w, r)
		}
	}}.time(thorough).value / 1000
}

// sampleTime returns the CPU time of one sample with the waking and the timer
// around it. It begins anew with a loop that samples often; whoever samples for
// the process is then that one.
func sampleTime(o *observed) float64 {
	o.Stop()
	const interval = time.Millisecond
	reader := sdkmetric.NewManualReader()
	fast := observer.Start(context.Background(), "fast",
		observer.WithMeterProvider(providerOf(reader)), observer.WithSampleInterval(interval))
	defer fast.Stop()
	length := time.Second
	time.Sleep(length / 10)
	f := &observed{reader: reader}
	samplesBefore, before := f.samples(), cpuTime()
	time.Sleep(length)
	used := cpuTime() - before
	return used.Seconds() * 1e6 / float64(f.samples()-samplesBefore)
}

// windowTime returns the CPU time of the process in one window of its diagnosis.
func windowTime(o *observed) float64 {
	o.Stop()
	const windows = 5
	fresh := observer.Start(context.Background(), "windows",
		observer.WithMeterProvider(providerOf(sdkmetric.NewManualReader())), observer.WithWindow(time.Second),
		observer.WithLogger(slog.New(slog.DiscardHandler)))
	defer fresh.Stop()
	time.Sleep(1500 * time.Millisecond) // past the first
	before := cpuTime()
	time.Sleep(windows * time.Second)
	if d := observer.Diagnose(); len(d.Oldest) >= 8 && d.Verdict != observer.CauseWait {
		return math.NaN() // the requests in flight are there to be sick
	}
	return (cpuTime() - before).Seconds() * 1e6 / windows
}

// snapshotTime returns the CPU time of one snapshot, read and named. The goroutines
// of this test share one stack; names are remembered from one to the next.
func snapshotTime(*observed) float64 {
	reader := sites.NewReader(sites.ReadBuild(), sites.MarksOf("github.com/gym-observer/observer"))
	var taker sites.Taker
	const snapshots = 20
	var survey sites.Survey
	before := cpuTime()
	for range snapshots {
		taker.Begin() // each a window, so that none is refused
		if err := taker.Look(func(stacks []sites.Stack) { survey.Add(reader.Read(stacks, sites.Now{})) }); err != nil {
			return math.NaN()
		}
	}
	return (cpuTime() - before).Seconds() * 1e6 / snapshots
}
