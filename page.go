package observer

import (
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gym-observer/observer/internal/catalogue"
	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/number"
	"github.com/gym-observer/observer/internal/page"
)

// Handler returns the live page: the verdict and its sentence, and the last ten
// minutes of everything that it rests on. The query format=json gives the same
// for scripts, with the fields of [Diagnosis] and a history.
//
// It may be mounted anywhere, under any path, before or after [Start]. While
// nothing observes, it says how to turn that on. It shows routes, and nothing
// else of any request. Like net/http/pprof it tells much about a process to
// whoever asks, and is not for the public internet.
//
// It costs next to nothing while nobody looks. A page that is open is a request
// that does not end; mounted beside [Middleware] and not inside of it, that stays
// out of the numbers. It ends with the observer, or when its [http.Server] shuts
// down: by that, and not by the next look, also where its viewer is slow.
//
// Where a request comes in on a loopback address, its host has to be an address,
// localhost or a name given by [WithHosts], or the answer is 403: a web site could
// otherwise let its own name mean 127.0.0.1 and read the page with the browser of
// somebody at this machine. A proxy on the same machine that passes the host on
// needs the option. On other addresses every host is served.
func Handler(opts ...HandlerOption) http.Handler {
	livePage.once.Do(func() { livePage.handler = page.New(pageText(), pageSnapshot) })
	var settings handlerSettings
	for _, option := range opts {
		if option != nil {
			option(&settings)
		}
	}
	if len(settings.hosts) == 0 {
		return livePage.handler
	}
	return livePage.handler.Serving(settings.hosts...)
}

// handlerSettings are what Handler was given.
type handlerSettings struct{ hosts []string }

// HandlerOption changes what [Handler] does. A nil one counts as not given.
type HandlerOption func(*handlerSettings)

// WithHosts names the hosts under which the page is served on a loopback address,
// beside addresses and localhost: "ops.example.com" for a proxy on this machine
// that passes that on. A port does not matter, nor do capitals. An empty name
// counts as not given.
func WithHosts(names ...string) HandlerOption {
	return func(s *handlerSettings) {
		for _, name := range names {
			if name != "" {
				s.hosts = append(s.hosts, name)
			}
		}
	}
}

// livePage is one for the process: wherever it is mounted, who looks shares what
// is encoded, and a server that makes a handler for each request leaves nothing
// behind. It is made when it is first asked for, so that the binaries of those who
// never ask do not contain it.
var livePage struct {
	once    sync.Once
	handler *page.Handler
}

func pageSnapshot() (s page.Snapshot) {
	p := running.Load()
	if p == nil {
		return page.Snapshot{Summary: "nothing observes this process; the log line of observer.Start says why. " +
			"With export.FromEnv(), set OTEL_EXPORTER_OTLP_ENDPOINT, or NEMO_GYM_OTEL_EXPORTER=console. " +
			"For this page alone, pass observer.WithMeterProvider(noop.NewMeterProvider())"}
	}
	defer p.failures.survive("page")
	d := p.current()
	s = page.Snapshot{
		At:      d.At,
		Window:  d.Window,
		Verdict: string(d.Verdict),
		Summary: d.Summary,
		History: p.sampler.history.History,
	}
	for _, f := range d.Findings {
		s.Findings = append(s.Findings, page.Finding{Cause: string(f.Cause), Load: page.Number(f.Load), Evidence: f.Evidence, Advice: f.Advice})
	}
	for _, cause := range d.Unmeasured {
		s.Unmeasured = append(s.Unmeasured, string(cause))
	}
	for _, w := range d.Oldest {
		s.Oldest = append(s.Oldest, page.Work{Kind: w.Kind, Name: w.Name, Age: w.Age})
	}
	if p.sampler.capture != nil {
		s.Captures = p.sampler.capture.directory
	}
	return s
}

// pageText has what the catalogue says of each signal, so that the page, the README
// and the dashboards say the same.
func pageText() page.Text {
	text := page.Text{
		Process:       processName(),
		PID:           os.Getpid(),
		Signals:       make(map[string]page.Signal),
		LagBoundaries: lagEdges,
	}
	for _, s := range catalogue.Signals {
		text.Signals[s.Name] = page.Signal{Description: s.Description, Advice: s.Advice}
	}
	for cause := range diagnosis.All() {
		text.Causes = append(text.Causes, page.Cause{Name: cause.Name(), Condition: cause.Condition(), Share: cause.IsShare()})
	}
	return text
}

// processName tells processes apart, beside their number. A library in a foreign
// program has no arguments.
func processName() string {
	if len(os.Args) == 0 {
		return "unnamed"
	}
	return filepath.Base(os.Args[0])
}

// history gathers what the sampler sees into seconds and windows, for the page.
// It does so whether or not somebody looks, and a sample allocates nothing. A nil
// one keeps nothing.
type history struct {
	*page.History // of its own: within what has pointers the collector would look at all of it

	process   reading.Process
	admission func() (admissions int64, waited time.Duration) // what was recorded
	failures  *failures

	mu     sync.Mutex // only tried: a sampler may be stuck with it in a provider that blocks
	last   time.Time  // of the last sample
	began  time.Time  // when the open second did
	second page.Second
	sums   inFlightSums
	before totals
}

// inFlightSums add up what was in flight at each sample.
type inFlightSums struct{ inFlight, outbound, resident, active, waiting int64 }

// totals are what the counters stood at when the open second began.
type totals struct {
	responses           [page.ResponseClasses]int64
	offered, admissions int64
	waited              time.Duration
}

// holdUp is the time between two samples, beyond twice their interval, from which
// on the sampler was held up: what happened in it is known in sum only.
const holdUp = 2 * time.Second

func historyOf(s *session) *history {
	return &history{History: new(page.History), process: s.process, admission: s.sampler.admitted, failures: s.failures}
}

// begin opens the first second. What was counted before is not shown.
func (h *history) begin(now time.Time) {
	if h == nil || !h.mu.TryLock() {
		return
	}
	defer h.mu.Unlock()
	h.open(now, h.read())
	h.last = now
}

// add takes one sample. The first one that lies a second after the last second's
// end closes the next.
func (h *history) add(s *diagnosis.Sample, interval time.Duration) {
	if h == nil || !h.mu.TryLock() {
		return
	}
	defer h.mu.Unlock()
	second := &h.second
	second.Samples++
	second.Lag[lagBucket(s.Lag)]++
	second.LongestLag = max(second.LongestLag, s.Lag)
	second.Gap = second.Gap || s.At.Sub(h.last) > holdUp+2*interval
	h.last = s.At
	h.sums.inFlight += s.Requests
	h.sums.outbound += s.Outbound
	h.sums.resident += s.Resident
	h.sums.active += s.Active
	h.sums.waiting += s.Waiting
	if s.At.Sub(h.began) >= time.Second {
		h.close(s.At)
	}
}

// pause counts one pause of the collector, in seconds.
func (h *history) pause(seconds float64) {
	if h == nil || !h.mu.TryLock() {
		return
	}
	defer h.mu.Unlock()
	paused := time.Duration(seconds * float64(time.Second))
	h.second.Pauses++
	h.second.Paused += paused
	h.second.LongestPause = max(h.second.LongestPause, paused)
}

// open begins a second at now.
func (h *history) open(now time.Time, totals totals) {
	h.began, h.before = now, totals
	h.second, h.sums = page.Second{}, inFlightSums{}
}

// close ends the open second at now, adds it to the history, and opens the next.
func (h *history) close(now time.Time) {
	second, before, after := &h.second, &h.before, h.read()
	second.At = page.InstantOf(now)
	second.Length = now.Sub(h.began)
	mean := func(sum int64) float64 { return float64(sum) / float64(second.Samples) }
	second.InFlight, second.Outbound = mean(h.sums.inFlight), mean(h.sums.outbound)
	for class, n := range after.responses {
		second.Responses[class] = n - before.responses[class]
	}
	second.Driving = totals.driver.driving.Load()
	if second.Driving {
		second.Resident, second.Active, second.Waiting = mean(h.sums.resident), mean(h.sums.active), mean(h.sums.waiting)
		second.Offered = after.offered - before.offered
		second.Admissions = after.admissions - before.admissions
		second.Waited = after.waited - before.waited
	}
	h.AddSecond(second)
	h.open(now, after)
}

// read returns the totals. None of them ever goes down.
func (h *history) read() totals {
	t := totals{offered: totals.driver.offered.Load()}
	for _, seen := range requestTotals.seen.all() {
		t.responses[responseClass(seen.status)] += requestTotals.responded(seen.status)
	}
	t.admissions, t.waited = h.admission()
	return t
}

// responseClass is where the page counts a status: 1xx to 5xx, then the rest.
func responseClass(status int) int {
	return min(status/100, page.ResponseClasses) - 1
}

// lagEdges are the boundaries of the exported histogram of lags.
var lagEdges = func() (edges []time.Duration) {
	for _, boundary := range signalOf(EventLoopLagInstrument).Boundaries {
		edges = append(edges, time.Duration(boundary*float64(time.Millisecond)))
	}
	return edges
}()

// lagBucket is where a lag belongs, as the exported histogram has it: a boundary
// is the greatest value of its bucket.
func lagBucket(lag time.Duration) int {
	bucket := 0
	for bucket < len(lagEdges) && lag > lagEdges[bucket] {
		bucket++
	}
	return bucket
}

// addWindow adds a window with its verdict, and what the process holds at its end.
func (h *history) addWindow(w *diagnosis.Window, verdict diagnosis.Cause) {
	if h == nil || !h.mu.TryLock() {
		return
	}
	defer h.mu.Unlock()
	defer h.failures.survive("history") // a source's; the verdict goes on
	memory, memoryErr := h.process.ResidentMemory()
	threads, threadsErr := h.process.Threads()
	row := page.Window{
		At:          page.InstantOf(w.At),
		Length:      w.Length,
		Verdict:     page.NameOf(verdict.Name()),
		Processors:  page.Number(w.Processors),
		CPUs:        page.Number(w.CPUs),
		CPU:         shownNumber(w.CPU),
		Memory:      shownNumber(number.If(memoryErr == nil, float64(memory))),
		Threads:     shownNumber(number.If(threadsErr == nil, float64(threads))),
		Descriptors: page.Unmeasured,
	}
	if w.Load[diagnosis.Descriptors].IsKnown() {
		row.Descriptors = shownNumber(w.Descriptors)
	}
	i := 0
	for cause := range diagnosis.All() {
		row.Load[i] = shownNumber(w.Load[cause])
		i++
	}
	h.AddWindow(&row)
}

// shownNumber is what the page shows of a reading.
func shownNumber(n number.Number) page.Number {
	return page.Number(n.Or(math.NaN()))
}

// signalOf returns the row of the catalogue with a name.
func signalOf(name string) catalogue.Signal {
	i := slices.IndexFunc(catalogue.Signals, func(s catalogue.Signal) bool { return s.Name == name })
	return catalogue.Signals[i]
}

// admitted returns how many admissions were recorded, and their waits in all.
func (p *process) admitted() (admissions int64, waited time.Duration) {
	instruments := p.instruments.Load()
	if instruments == nil {
		return 0, 0
	}
	recorded := instruments.admission.recorded
	return recorded.count.Load(), time.Duration(recorded.sum.Load()) // millionths of a millisecond
}
