package sites_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/sites"
)

// made writes a stack, innermost call first, each as "function file:line" or the
// function alone.
func made(count int, calls ...string) sites.Stack {
	s := sites.Stack{Count: count}
	for _, call := range calls {
		f := sites.Frame{Function: call}
		if function, at, ok := strings.Cut(call, " "); ok {
			f.Function = function
			colon := strings.LastIndexByte(at, ':')
			f.File = at[:colon]
			_, _ = fmt.Sscan(at[colon+1:], &f.Line)
		}
		s.Frames = append(s.Frames, f)
	}
	return s
}

// selects and those below are the frames of a wait, as the runtime of Go 1.26 has them.
func selects(calls ...string) []string {
	return append([]string{"runtime.gopark", "runtime.selectgo"}, calls...)
}

func receives(calls ...string) []string {
	return append([]string{"runtime.gopark", "runtime.chanrecv", "runtime.chanrecv1"}, calls...)
}

func locks(calls ...string) []string {
	return append([]string{"runtime.gopark", "runtime.goparkunlock", "runtime.semacquire1", "internal/sync.runtime_SemacquireMutex",
		"internal/sync.(*Mutex).lockSlow", "internal/sync.(*Mutex).Lock", "sync.(*Mutex).Lock"}, calls...)
}

func polls(calls ...string) []string {
	return append([]string{"runtime.gopark", "runtime.netpollblock", "internal/poll.runtime_pollWait", "internal/poll.(*pollDesc).wait",
		"internal/poll.(*FD).Read", "net.(*netFD).Read", "net.(*conn).Read"}, calls...)
}

const (
	served  = "o.io/observer.(*middleware).ServeHTTP"
	handler = "example.com/shop.handle /src/shop/handle.go:10"
	caller  = "example.com/shop.route /src/shop/route.go:20"
)

func surveyed(now sites.Now, stacks ...sites.Stack) *sites.Survey {
	reader := sites.NewReader(sites.Build{Path: "example.com/shop", Main: "example.com/shop"}, sites.MarksOf("o.io/observer"))
	var survey sites.Survey
	survey.Add(reader.Read(stacks, now))
	return &survey
}

func TestWhatARequestWaitsFor(t *testing.T) {
	for name, c := range map[string]struct {
		calls   []string
		subject sites.Subject
		in      string
	}{
		"a known pool":        {selects("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).waitTurn", "github.com/redis/go-redis/v9.(*Client).Get", handler), sites.Waiting, "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).waitTurn"},
		"a rate limiter":      {selects("golang.org/x/time/rate.(*Limiter).wait", "golang.org/x/time/rate.(*Limiter).Wait", handler), sites.Waiting, "golang.org/x/time/rate.(*Limiter).wait"},
		"an unknown library":  {selects("example.org/bus.(*Client).Next", handler), sites.Perhaps, "example.org/bus.(*Client).Next"},
		"a receive in one":    {receives("example.org/bus.(*Client).Next", handler), sites.Waiting, "example.org/bus.(*Client).Next"},
		"a database":          {polls("bufio.(*Reader).fill", "example.org/pg.(*Conn).read", "database/sql.(*DB).QueryContext", handler), sites.Waiting, "net.(*conn).Read"},
		"gRPC":                {selects("google.golang.org/grpc/internal/transport.(*recvBufferReader).readClient", "google.golang.org/grpc.(*ClientConn).Invoke", handler), sites.Waiting, "google.golang.org/grpc/internal/transport.(*recvBufferReader).readClient"},
		"a pipe":              {selects("io.(*pipe).read", "io.(*PipeReader).Read", handler), sites.Perhaps, "io.(*pipe).read"},
		"a lock":              {locks(handler), sites.Locks, "sync.(*Mutex).Lock"},
		"a lock in a library": {locks("log.(*Logger).output", handler), sites.Locks, "log.(*Logger).output"},
		"a system call":       {[]string{"syscall.Syscall", "syscall.read", "syscall.Read", handler}, sites.Calls, ""},
		"C":                   {[]string{"runtime.cgocall", "example.com/shop._Cfunc_wait _cgo_gotypes.go:5", handler}, sites.Calls, "example.com/shop._Cfunc_wait"},
	} {
		t.Run(name, func(t *testing.T) {
			survey := surveyed(sites.Now{InFlight: 12}, made(12, append(c.calls, caller, served)...))
			found := survey.Sites(c.subject)
			require.Len(t, found, 1)
			assert.Equal(t, sites.Site{Kind: sites.KindWait, Function: "example.com/shop.handle", Location: "handle.go:10", In: c.in, Caller: "route.go:20", Load: 12, Share: 1}, withoutStack(found[0]))
			assert.InDelta(t, 12, survey.Load(c.subject), 0)
			for _, other := range []sites.Subject{sites.Locks, sites.Waiting, sites.Perhaps, sites.Calls, sites.Children} {
				if other != c.subject {
					assert.Empty(t, survey.Sites(other))
				}
			}
		})
	}
}

func TestWhatIsNoWait(t *testing.T) {
	for name, calls := range map[string][]string{
		"runs":                 {handler},
		"is preempted":         {"runtime.asyncPreempt2", "runtime.asyncPreempt", handler},
		"helps the collector":  {"runtime.gopark", "runtime.goparkunlock", "runtime.gcParkAssist", "runtime.gcAssistAlloc", "runtime.mallocgc", handler},
		"stops the world":      {"runtime.gopark", "runtime.goparkunlock", "runtime.semacquire1", "runtime.semacquire", "runtime.stopTheWorld", "runtime.ReadMemStats", handler},
		"a WebSocket":          polls("bufio.(*Reader).Peek", "github.com/gorilla/websocket.(*Conn).NextReader", handler),
		"a body":               polls("net/http.(*connReader).Read", "bufio.(*Reader).Read", "net/http.(*body).Read", handler),
		"a body, own conn":     polls("example.com/shop.(*conn).Read /src/shop/conn.go:3", "net/http.(*connReader).Read", "net/http.(*body).Read", handler),
		"a body of http2":      {"runtime.gopark", "runtime.goparkunlock", "sync.runtime_notifyListWait", "sync.(*Cond).Wait", "net/http.(*http2pipe).Read", "net/http.(*http2requestBody).Read", handler},
		"a response of http2":  selects("net/http.(*http2serverConn).writeDataFromHandler", "net/http.(*http2responseWriter).Write", handler),
		"a response of x/net":  selects("golang.org/x/net/http2.(*serverConn).writeDataFromHandler", handler),
		"a call out":           selects("net/http.(*persistConn).roundTrip", "net/http.(*Transport).RoundTrip", "o.io/observer.(*transport).RoundTrip", "net/http.(*Client).Do", handler),
		"the limit":            selects("golang.org/x/sync/semaphore.(*Weighted).Acquire", "o.io/observer.(*MeteredAdmission).wait", "o.io/observer.(*MeteredAdmission).Acquire", handler),
		"expected":             receives(handler, "o.io/observer.(*middleware).serveExpected"),
		"a connection on dial": selects("net/http.(*Transport).getConn", "o.io/observer.(*transport).RoundTrip", handler),
	} {
		t.Run(name, func(t *testing.T) {
			stacks := []sites.Stack{made(12, append(calls, caller, served)...)}
			if name == "a connection on dial" {
				stacks = append(stacks, made(12, polls("net/http.(*Transport).dialConn")...))
			}
			survey := surveyed(sites.Now{InFlight: 12}, stacks...)
			assert.Zero(t, survey.Load(sites.Waiting))
			assert.Zero(t, survey.Load(sites.Perhaps))
			assert.Zero(t, survey.Waiting())
		})
	}
}

func withoutStack(s sites.Site) sites.Site {
	s.Stack = nil
	return s
}

// A driver's calls out serve no request. What a request has started is the request's.
func TestCallsThatWaitForTheOwnPool(t *testing.T) {
	pool := selects("net/http.(*Transport).getConn", "net/http.(*Transport).roundTrip", "o.io/observer.(*transport).RoundTrip", "net/http.(*Client).Do")
	driver := made(30, append(pool, handler, caller)...)
	survey := surveyed(sites.Now{}, driver, made(10, polls("net/http.(*Transport).dialConn")...))
	found := survey.Sites(sites.Waiting)
	require.Len(t, found, 1)
	assert.Equal(t, sites.Site{Kind: sites.KindWait, Function: "example.com/shop.handle", Location: "handle.go:10", In: "net/http.(*Transport).getConn", Caller: "route.go:20", Load: 20, Share: 1}, withoutStack(found[0]))
	assert.InDelta(t, 20, survey.Pooled(), 1e-9)
	assert.Zero(t, survey.Waiting(), "no request waits")

	parent := made(10, "runtime.gopark", "runtime.goparkunlock", "runtime.semacquire1", "sync.runtime_SemacquireWaitGroup", "sync.(*WaitGroup).Wait", handler, caller, served)
	child := made(10, append(pool, "example.com/shop.handle.func1 /src/shop/handle.go:7", "sync.(*WaitGroup).Go.func1")...)
	survey = surveyed(sites.Now{InFlight: 10}, parent, child)
	found = survey.Sites(sites.Waiting)
	require.Len(t, found, 1)
	assert.InDelta(t, 10, found[0].Load, 1e-9)
	assert.InDelta(t, 10, survey.Waiting(), 1e-9)

	declared := made(30, selects("net/http.(*persistConn).roundTrip", "net/http.(*Transport).RoundTrip", "o.io/observer.(*transport).send",
		"o.io/observer.(*transport).sendExpected", "o.io/observer.(*transport).RoundTrip", "net/http.(*Client).Do", handler)...)
	call := made(2, selects("net/http.(*persistConn).roundTrip", "net/http.(*Transport).RoundTrip", "o.io/observer.(*transport).RoundTrip", "net/http.(*Client).Do", caller)...)
	survey = surveyed(sites.Now{}, declared, call)
	assert.InDelta(t, 2, survey.Load(sites.Outbound), 1e-9, "a watch that was declared is no load")
	require.Len(t, survey.Sites(sites.Outbound), 1)
	assert.Equal(t, "route.go:20", survey.Sites(sites.Outbound)[0].Location)

	expected := made(8, append(pool, handler, "o.io/observer.(*middleware).serveExpected")...)
	assert.Empty(t, surveyed(sites.Now{InFlight: 8}, expected).Sites(sites.Waiting))
}

func TestNoWrongLine(t *testing.T) {
	for name, c := range map[string]struct {
		calls []string
		want  string
	}{
		"the library's where there is nothing of the application": {receives("example.org/bus.Next /mod/example.org/bus@v1.0.0/next.go:5", "example.org/web.Serve /mod/example.org/web@v1.0.0/web.go:6", served), "next.go:5"},
		"the outermost of the standard library else":              {receives("net/http.a /go/src/net/http/a.go:5", "net/http.b /go/src/net/http/b.go:6", served), "net/http/b.go:6"},
		"not what the compiler wrote":                             {receives("example.com/shop.(*T).M <autogenerated>:1", caller, served), "route.go:20"},
		"not this package":                                        {receives("o.io/observer.wrap /mod/o.io/observer@v1.0.0/writer.go:5", caller, served), "route.go:20"},
		"not C":                                                   {receives("sqlite3_step /usr/lib/sqlite.c:5", caller, served), "route.go:20"},
		"not outside the middleware":                              {receives("", served, handler), ""},
		"not without a name":                                      {receives("", "", served), ""},
		"not a line that is in no file":                           {receives("main.x", served), ""},
	} {
		t.Run(name, func(t *testing.T) {
			survey := surveyed(sites.Now{InFlight: 9}, made(9, c.calls...))
			found := survey.Sites(sites.Waiting)
			assert.InDelta(t, 9, survey.Load(sites.Waiting), 0, "it is counted, named or not")
			if c.want == "" {
				assert.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			assert.Equal(t, c.want, found[0].Location)
		})
	}
}

// A site's share is of all that was looked at, also of what has no name.
func TestShareIsOfWhatHasNoNameToo(t *testing.T) {
	survey := surveyed(sites.Now{}, made(3, receives(handler, served)...), made(1, receives("", served)...))
	require.Len(t, survey.Sites(sites.Waiting), 1)
	assert.InDelta(t, 0.75, survey.Sites(sites.Waiting)[0].Share, 1e-9)
}

// The observer is a module of the application where it was replaced by a folder.
func TestTheObserversOwnCodeIsNotTheApplications(t *testing.T) {
	build := sites.Build{Path: "example.com/shop", Main: "example.com/shop", Modules: []sites.Module{{Path: "o.io/observer", Own: true}}}
	reader := sites.NewReader(build, sites.MarksOf("o.io/observer"))
	read := func(calls ...string) sites.Site {
		var survey sites.Survey
		survey.Add(reader.Read([]sites.Stack{made(9, receives(calls...)...)}, sites.Now{InFlight: 9}))
		found := survey.Sites(sites.Waiting)
		require.Len(t, found, 1)
		return found[0]
	}
	copied := read("o.io/observer/internal/response.(*http1Response).ReadFrom /src/observer/internal/response/source.go:37", "io.Copy", handler, served)
	assert.Equal(t, "handle.go:10", copied.Location)
	assert.Equal(t, "io.Copy", copied.In)
	wrote := reader.Named(sites.KindCPU, made(1, "net/http.(*response).Write", "o.io/observer/internal/response.(*writer).Write /src/observer/internal/response/writer.go:58", handler, served).Frames, 1)
	assert.Equal(t, "handle.go:10", wrote.Location)
	assert.Equal(t, "net/http.(*response).Write", wrote.In)
	assert.Equal(t, "main.go:3", read("o.io/observer/client.ask /src/observer/client/ask.go:3", "main.main /src/shop/main.go:3", served).Location)
	assert.Equal(t, "examples/rollouts/store.go:3", read("o.io/observer/examples/rollouts.keep /src/observer/examples/rollouts/store.go:3", served).Location,
		"an example is an application")
}

// A line at which streams may be the most is no line.
func TestStreamsHaveNoSite(t *testing.T) {
	tokens := func(n int) sites.Stack { return made(n, polls("example.org/llm.(*Stream).Next", handler, served)...) }
	sick := func(n int) sites.Stack {
		return made(n, receives("example.com/shop.query /src/shop/query.go:3", handler, served)...)
	}
	survey := surveyed(sites.Now{InFlight: 32, Streaming: 20}, tokens(20), sick(12))
	assert.InDelta(t, 12, survey.Waiting(), 1e-9)
	assert.Zero(t, survey.Outside(), "the streams wait for another server")
	assert.Empty(t, survey.Sites(sites.Waiting))

	survey = surveyed(sites.Now{InFlight: 35, Streaming: 5}, tokens(5), sick(30))
	found := survey.Sites(sites.Waiting)
	require.Len(t, found, 1)
	assert.Equal(t, "query.go:3", found[0].Location)
}

// Who uploads sends no response yet, and is none of those that stream.
func TestUploadsAreNoStreams(t *testing.T) {
	uploads := made(20, polls("net/http.(*connReader).Read", "bufio.(*Reader).Read", "net/http.(*body).Read", handler, served)...)
	events := made(20, receives("example.com/shop.tell /src/shop/tell.go:3", handler, served)...)
	assert.Zero(t, surveyed(sites.Now{InFlight: 40, Streaming: 20}, uploads, events).Waiting())
}

// The middleware of a request that waits by design may be beyond the cut.
func TestExpectedRequestsAreMissingFromNoCutStack(t *testing.T) {
	declared := made(20, receives("example.com/shop.poll /src/shop/poll.go:3")...)
	declared.Cut = true
	polls := made(8, selects(handler, served)...)
	survey := surveyed(sites.Now{InFlight: 28, Expected: 20}, declared, polls)
	assert.Zero(t, survey.Waiting())
	assert.Empty(t, survey.Sites(sites.Waiting))

	seen := made(20, receives("example.com/shop.poll /src/shop/poll.go:3", "o.io/observer.(*middleware).serveExpected")...)
	seen.Cut = true
	cut := made(12, receives("example.com/shop.query /src/shop/query.go:3")...)
	cut.Cut = true
	survey = surveyed(sites.Now{InFlight: 32, Expected: 20}, seen, cut)
	assert.InDelta(t, 12, survey.Waiting(), 1e-9)
	require.Len(t, survey.Sites(sites.Waiting), 1)
	assert.Equal(t, "query.go:3", survey.Sites(sites.Waiting)[0].Location)
}

// A request that waits for a tool waits outside of this process.
func TestChildProcessesAreOutside(t *testing.T) {
	survey := surveyed(sites.Now{InFlight: 12}, made(12, "syscall.Syscall6", "os.(*Process).wait", "os/exec.(*Cmd).Wait", handler, served))
	assert.InDelta(t, 12, survey.Waiting(), 1e-9)
	assert.InDelta(t, 12, survey.Outside(), 1e-9)
}

// All of those in getConn wait for a connection that is being made: nobody waits for
// the pool, and nobody holds it.
func TestNoHolderOfAPoolThatIsNotWaitedFor(t *testing.T) {
	out := []string{"o.io/observer.(*transport).RoundTrip", "net/http.(*Client).Do", handler, served}
	dialling := made(10, polls("net/http.(*Transport).dialConn")...)
	survey := surveyed(sites.Now{InFlight: 30}, made(10, append(selects("net/http.(*Transport).getConn"), out...)...), dialling,
		made(20, append(selects("net/http.(*persistConn).roundTrip"), out...)...))
	assert.Empty(t, survey.Sites(sites.Waiting))
	var tally sites.Tally
	tally.Add(sites.Site{Location: "a.go:1"})
	assert.Empty(t, tally.Sites(sites.KindWait, 1), "a share of nothing is no number")
}

func TestStreamsAreNotWaiting(t *testing.T) {
	streams := made(30, receives(handler, served)...)
	sick := made(10, receives("example.com/shop.query /src/shop/query.go:3", handler, served)...)
	client := made(20, polls("net/http.(*connReader).Read", handler, served)...)
	assert.InDelta(t, 10, surveyed(sites.Now{InFlight: 40, Streaming: 30}, streams, sick).Waiting(), 1e-9)
	// Streams are those that wait for their client, as far as there are any.
	assert.InDelta(t, 10, surveyed(sites.Now{InFlight: 30, Streaming: 20}, client, sick).Waiting(), 1e-9)
	assert.InDelta(t, 0, surveyed(sites.Now{InFlight: 30, Streaming: 30}, streams).Waiting(), 1e-9)
}

// Ten requests wait for three goroutines each, one of which runs and one of which
// calls out.
func TestRequestIsCountedWhereItsGoroutinesWait(t *testing.T) {
	parent := made(10, "runtime.gopark", "runtime.goparkunlock", "runtime.semacquire1", "sync.runtime_SemacquireWaitGroup", "sync.(*WaitGroup).Wait", handler, caller, served)
	child := func(count int, calls ...string) sites.Stack {
		return made(count, append(calls, "example.com/shop.handle.func1 /src/shop/handle.go:7", "sync.(*WaitGroup).Go.func1")...)
	}
	survey := surveyed(sites.Now{InFlight: 10}, parent,
		child(10, receives("example.com/shop.load /src/shop/load.go:8")...),
		child(10, "example.com/shop.compute /src/shop/compute.go:9"),
		child(10, selects("net/http.(*persistConn).roundTrip", "o.io/observer.(*transport).RoundTrip")...),
	)
	found := survey.Sites(sites.Waiting)
	require.Len(t, found, 1)
	assert.Equal(t, "load.go:8", found[0].Location)
	assert.Equal(t, "handle.go:7", found[0].Caller)
	assert.InDelta(t, 10.0/3, survey.Waiting(), 1e-9)
	assert.InDelta(t, 10, survey.Load(sites.Outbound), 1e-9)
}

// What a goroutine of another function of a similar name does is not theirs.
func TestChildIsAClosureOfTheVeryFunction(t *testing.T) {
	survey := surveyed(sites.Now{InFlight: 10},
		made(10, receives(handler, served)...),
		made(10, receives("example.com/shop.handleAll.func1 /src/shop/all.go:8")...),
		made(10, receives("example.com/shop.handle /src/shop/handle.go:10", "main.main /src/shop/main.go:3")...),
	)
	require.Len(t, survey.Sites(sites.Waiting), 1)
	assert.Equal(t, "handle.go:10", survey.Sites(sites.Waiting)[0].Location)
}

func TestWhoWaitsInTheSecondQueryHoldsNothing(t *testing.T) {
	query := func(count, line int) sites.Stack {
		return made(count, selects("database/sql.(*DB).conn", "database/sql.(*DB).QueryContext", fmt.Sprintf("example.com/shop.handle /src/shop/handle.go:%d", line), served)...)
	}
	found := surveyed(sites.Now{}, query(12, 10), query(4, 20)).Sites(sites.Waiting)
	require.Len(t, found, 2)
	assert.Equal(t, sites.KindWait, found[1].Kind)

	scan := made(2, polls("database/sql.(*Rows).Next", "example.com/shop.handle /src/shop/handle.go:15", served)...)
	found = surveyed(sites.Now{}, query(12, 10), query(4, 20), scan).Sites(sites.Waiting)
	require.Len(t, found, 4)
	assert.Equal(t, sites.Site{
		Kind: sites.KindHold, Function: "example.com/shop.handle", Location: "handle.go:15", In: "database/sql.(*Rows).Next", Load: 2, Share: 1,
		Stack: []string{
			"runtime.gopark", "runtime.netpollblock", "internal/poll.runtime_pollWait", "internal/poll.(*pollDesc).wait", "internal/poll.(*FD).Read",
			"net.(*netFD).Read", "net.(*conn).Read", "database/sql.(*Rows).Next", "example.com/shop.handle", "o.io/observer.(*middleware).ServeHTTP",
		},
	}, found[3])
}

func TestAtMostFiveSites(t *testing.T) {
	var stacks []sites.Stack
	for i := range 8 {
		stacks = append(stacks, made(10+i, locks(fmt.Sprintf("example.com/shop.f%d /src/shop/f.go:%d", i, 10*i+1), served)...))
		stacks = append(stacks, made(1, fmt.Sprintf("example.com/shop.f%d /src/shop/f.go:%d", i, 10*i+2), served))
	}
	found := surveyed(sites.Now{}, stacks...).Sites(sites.Locks)
	require.Len(t, found, sites.MaxSites)
	var kinds []string
	for _, s := range found {
		kinds = append(kinds, s.Kind)
	}
	assert.Equal(t, []string{"wait", "wait", "wait", "hold", "hold"}, kinds)
	assert.Equal(t, "f.go:71", found[0].Location)
	assert.InDelta(t, 17, found[0].Load, 0)
}

func TestWhatIsBarelyThereIsNotToldBesideMore(t *testing.T) {
	var tally sites.Tally
	for location, load := range map[string]float64{"a.go:1": 985, "b.go:2": 10, "c.go:3": 5} {
		tally.Add(sites.Site{Location: location, Load: load})
	}
	found := tally.Sites(sites.KindAlloc, 1)
	require.Len(t, found, 2)
	assert.Equal(t, "b.go:2", found[1].Location)

	var spread sites.Tally
	for i := range 200 {
		spread.Add(sites.Site{Location: fmt.Sprintf("a.go:%d", i+1), Load: 1})
	}
	assert.Len(t, spread.Sites(sites.KindAlloc, 1), 1, "of many the first is told")
}

func TestSnapshotsAreAveraged(t *testing.T) {
	reader := sites.NewReader(sites.Build{Main: "example.com/shop"}, sites.MarksOf("o.io/observer"))
	var survey sites.Survey
	for range 3 {
		survey.Add(reader.Read([]sites.Stack{made(12, receives(handler, served)...)}, sites.Now{}))
	}
	survey.Add(reader.Read(nil, sites.Now{}))
	assert.Equal(t, 4, survey.Snapshots())
	assert.InDelta(t, 9, survey.Waiting(), 1e-9)
	require.Len(t, survey.Sites(sites.Waiting), 1)
	assert.InDelta(t, 9, survey.Sites(sites.Waiting)[0].Load, 1e-9)
	assert.InDelta(t, 1, survey.Sites(sites.Waiting)[0].Share, 1e-9)
	assert.Empty(t, new(sites.Survey).Sites(sites.Waiting))
	assert.Zero(t, new(sites.Survey).Load(sites.Waiting))
}

// Whatever a stack looks like, nobody panics, and shares are shares.
func FuzzRead(f *testing.F) {
	f.Add(strings.Join(receives(handler, served), "\n"), 3, 5)
	f.Add(strings.Join(locks("example.com/shop.handle.func1 /x/y.go:3", handler), "\n"), 1, 2)
	f.Add("runtime.gopark\nruntime.semacquire1", 1, 1)
	f.Add("\n.\n/\n%2e\n[...]", 1, 1)
	f.Fuzz(func(t *testing.T, text string, count, inFlight int) {
		stack := sites.Stack{Count: count % 1000, Cut: count%2 == 0}
		for _, call := range strings.Split(text, "\n") {
			function, at, _ := strings.Cut(call, " ")
			file, line, _ := strings.Cut(at, ":")
			frame := sites.Frame{Function: function, File: file}
			_, _ = fmt.Sscan(line, &frame.Line)
			stack.Frames = append(stack.Frames, frame)
		}
		survey := surveyed(sites.Now{InFlight: inFlight, Streaming: inFlight / 2}, stack, made(3, receives(handler, served)...))
		for subject := sites.Locks; subject <= sites.Perhaps; subject++ {
			for _, s := range survey.Sites(subject) {
				assert.Positive(t, s.Load)
				assert.Positive(t, s.Share)
				assert.LessOrEqual(t, s.Share, 1.0)
				assert.NotEmpty(t, s.Location)
			}
		}
		assert.GreaterOrEqual(t, survey.Waiting(), 0.0)
	})
}
