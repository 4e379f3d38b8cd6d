package observer

import (
	"net/http"
	"os"
	"sync"

	"github.com/gym-observer/observer/internal/catalogue"
	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/env"
	"github.com/gym-observer/observer/internal/monotonic"
	"github.com/gym-observer/observer/internal/page"
)

// Handler returns the live page: the verdict and its sentence, and the last ten
// minutes of everything that it rests on. The query format=json gives the same
// for scripts, with the fields of [Diagnosis] and a history, of which history=10
// beside it leaves the last ten seconds. Its process is the name of the program and
// of the loop that Start was given, "rollouts/agent".
//
// It may be mounted anywhere, under any path, before or after [Start]. While
// nothing observes, it says how to turn that on. It shows routes, the hosts of
// outbound requests and lines of code, and nothing else of any request. Like
// net/http/pprof it tells much about a process to whoever asks, and is not for the
// public internet.
//
// It costs next to nothing while nobody looks. A page that is open is a request
// that does not end; mounted beside [Middleware] and not inside of it, that stays
// out of the numbers. It ends with the observer, or within a quarter of a second
// when its [http.Server] shuts down, also where its viewer is slow. No answer has
// the WriteTimeout of its server: each piece of one has ten seconds.
//
// Where a request comes in on a loopback address, its host has to be an address,
// localhost or a name given by [WithHosts], or the answer is 403: a web site could
// otherwise let its own name mean 127.0.0.1 and read the page with the browser of
// somebody at this machine. A proxy on the same machine that passes the host on
// needs the option. On other addresses every host is served.
func Handler(opts ...HandlerOption) http.Handler {
	shown := pageHere()
	var settings handlerSettings
	for _, option := range opts {
		if option != nil {
			option(&settings)
		}
	}
	if len(settings.hosts) == 0 {
		return shown
	}
	return shown.Serving(settings.hosts...)
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

// pageHere returns the page of the process, and in a bubble of testing/synctest one
// for each who asks: what streams share there must not be used outside of it.
func pageHere() *page.Handler {
	if monotonic.InBubble() {
		return page.New(pageText(), pageSnapshot)
	}
	livePage.once.Do(func() { livePage.handler = page.New(pageText(), pageSnapshot) })
	return livePage.handler
}

func pageSnapshot() (s page.Snapshot) {
	running := running.Load()
	if running == nil {
		return page.Snapshot{Summary: "nothing observes this process; the log line of observer.Start says why. " +
			"With export.FromEnv(), set OTEL_EXPORTER_OTLP_ENDPOINT, or NEMO_GYM_OTEL_EXPORTER=console. " +
			"For this page alone, pass observer.WithMeterProvider(noop.NewMeterProvider())"}
	}
	defer running.failures.Survive("page")
	latest := running.sampler.diagnosed.Load()
	d := diagnosisSoFar(latest)
	s = page.Snapshot{
		Process: nameOfProcess(env.Program(), running.loops.All()),
		At:      d.At,
		Window:  d.Window,
		Verdict: string(d.Verdict),
		Summary: d.Summary,
		History: running.sampler.history.History,
		Since:   running.sampler.history.Since(string(d.Verdict)),
	}
	for _, f := range d.Findings {
		s.Findings = append(s.Findings, page.Finding{Cause: string(f.Cause), Load: page.Number(f.Load), Evidence: f.Evidence, Advice: f.Advice})
	}
	for _, cause := range d.Unmeasured {
		s.Unmeasured = append(s.Unmeasured, string(cause))
	}
	for _, cause := range d.Also {
		s.Also = append(s.Also, string(cause))
	}
	for _, w := range d.Oldest {
		s.Oldest = append(s.Oldest, page.Work{Kind: w.Kind, Name: w.Name, Age: w.Age})
	}
	for i, site := range d.Sites {
		s.Sites = append(s.Sites, page.Site{
			Kind: site.Kind, Function: site.Function, Location: site.Location, In: site.In, Caller: site.Caller,
			Load: page.Number(site.Load), Share: page.Number(site.Share), Functions: latest.Sites[i].Stack,
		})
	}
	for _, peer := range d.Peers {
		s.Peers = append(s.Peers, page.Peer(peer))
	}
	s.Captures = running.sampler.capture.Directory()
	return s
}

// pageText has what the catalogue says of each signal, so that the page, the README
// and the dashboards say the same.
func pageText() page.Text {
	text := page.Text{
		Process:       env.Program(),
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

// nameOfProcess tells processes apart, beside their number: the program, and the
// loop that [Start] was first given of those that run. One program is often all the
// processes of a stack, each with another loop; a loop's name alone is often that of
// every program ("main").
func nameOfProcess(program string, loops []*loop) string {
	if len(loops) == 0 || loops[0].name == "" || loops[0].name == program {
		return program // of Acquire alone there is no loop
	}
	return program + "/" + loops[0].name
}
