//lint:file-ignore SA2001 to wait for the lock is all that is to be done

package sites_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/gym-observer/observer/internal/sites"
)

// The corpus: handlers that wait in every way, each with the line that is to be
// named marked by a comment. The test finds the marks in this file's source.

// middleware, transport and MeteredAdmission stand in for the observer's, whose
// names in a stack tell whose a goroutine is.
type middleware struct{ next http.HandlerFunc }

func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.next(w, r) }

type transport struct{ base http.RoundTripper }

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) { return t.base.RoundTrip(r) }

type MeteredAdmission struct{ *semaphore.Weighted }

func (a *MeteredAdmission) Acquire(ctx context.Context, n int64) error {
	return a.Weighted.Acquire(ctx, n)
}

const corpusPackage = "github.com/gym-observer/observer/internal/sites_test"

func newReader() *sites.Reader {
	return sites.NewReader(sites.ReadBuild(), sites.MarksOf(corpusPackage))
}

// sick is a workload in which requests wait.
type sick struct {
	subject sites.Subject
	least   float64 // goroutines that wait at the line; all the requests where 0
	in      string
	hold    bool  // there is a second mark, of who holds
	calls   int64 // that reach the backend
	start   func(t *testing.T, end <-chan struct{}) http.HandlerFunc
}

const requests = 20

var corpus = map[string]sick{
	"mutex": {subject: sites.Locks, least: requests - 1, in: "sync.(*Mutex).Lock", hold: true, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		var mu sync.Mutex
		return func(http.ResponseWriter, *http.Request) {
			mu.Lock() // planted: mutex
			defer mu.Unlock()
			<-end // holds: mutex
		}
	}},
	"reading lock": {subject: sites.Locks, in: "sync.(*RWMutex).RLock", start: func(t *testing.T, end <-chan struct{}) http.HandlerFunc {
		var mu sync.RWMutex
		mu.Lock()
		go func() { <-end; mu.Unlock() }()
		return func(http.ResponseWriter, *http.Request) {
			mu.RLock() // planted: reading lock
			mu.RUnlock()
		}
	}},
	"writing lock": {subject: sites.Locks, in: "sync.(*Mutex).Lock", start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		var mu sync.RWMutex
		mu.Lock()
		go func() { <-end; mu.Unlock() }()
		return func(http.ResponseWriter, *http.Request) {
			mu.Lock() // planted: writing lock
			mu.Unlock()
		}
	}},
	"once": {subject: sites.Locks, least: requests - 1, in: "sync.(*Mutex).Lock", start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		var once sync.Once
		return func(http.ResponseWriter, *http.Request) {
			once.Do(func() { <-end }) // planted: once
		}
	}},
	"descriptor": {subject: sites.Locks, least: requests - 1, in: "os.(*File).Write", start: func(t *testing.T, end <-chan struct{}) http.HandlerFunc {
		_, w := fullPipe(t, end)
		return func(http.ResponseWriter, *http.Request) {
			_, _ = w.Write(make([]byte, 1<<17)) // planted: descriptor
		}
	}},
	"log": {subject: sites.Locks, least: requests - 1, in: "log.(*Logger).output", start: func(t *testing.T, end <-chan struct{}) http.HandlerFunc {
		_, w := fullPipe(t, end)
		logger := log.New(w, "", 0)
		return func(http.ResponseWriter, *http.Request) {
			logger.Print(strings.Repeat("x", 1<<17)) // planted: log
		}
	}},
	"send": {subject: sites.Waiting, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		slow := make(chan int)
		go func() {
			<-end
			for range requests {
				<-slow
			}
		}()
		return func(http.ResponseWriter, *http.Request) {
			slow <- 1 // planted: send
		}
	}},
	"receive": {subject: sites.Waiting, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) {
			<-end // planted: receive
		}
	}},
	"slot": {subject: sites.Waiting, least: requests - 4, hold: true, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		slots := make(chan struct{}, 4)
		return func(http.ResponseWriter, *http.Request) {
			slots <- struct{}{} // planted: slot
			work(end)           // holds: slot
			<-slots
		}
	}},
	"select": {subject: sites.Perhaps, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) {
			select { // planted: select
			case <-end:
			case <-make(chan int):
			}
		}
	}},
	"cond": {subject: sites.Perhaps, in: "sync.(*Cond).Wait", start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		cond, ended := sync.NewCond(&sync.Mutex{}), false
		go func() {
			<-end
			cond.L.Lock()
			defer cond.L.Unlock()
			ended = true
			cond.Broadcast()
		}()
		return func(http.ResponseWriter, *http.Request) {
			cond.L.Lock()
			defer cond.L.Unlock()
			for !ended {
				cond.Wait() // planted: cond
			}
		}
	}},
	"pipe": {subject: sites.Perhaps, in: "io.(*pipe).read", start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		r, w := io.Pipe()
		go func() { <-end; w.Close() }()
		return func(http.ResponseWriter, *http.Request) {
			_, _ = r.Read(make([]byte, 1)) // planted: pipe
		}
	}},
	"wait group": {subject: sites.Waiting, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) {
			var group sync.WaitGroup
			for range 3 {
				group.Go(func() {
					<-end // planted: wait group
				})
			}
			group.Wait()
		}
	}},
	"errgroup": {subject: sites.Waiting, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) {
			var group errgroup.Group
			for range 3 {
				group.Go(func() error {
					work(end)
					return nil
				})
			}
			_ = group.Wait()
		}
	}},
	"helper": {subject: sites.Waiting, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) {
			parallel(func() {
				<-end // planted: helper
			})
		}
	}},
	"go": {subject: sites.Waiting, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			done := make(chan int)
			go func() {
				<-end // planted: go
				close(done)
			}()
			select {
			case <-done:
			case <-r.Context().Done():
			}
		}
	}},
	"method": {subject: sites.Waiting, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) {
			w := worker{end: end, done: make(chan int)}
			go w.work()
			<-w.done // planted: method
		}
	}},
	"limited errgroup": {subject: sites.Waiting, least: requests - 2, in: "golang.org/x/sync/errgroup.(*Group).Go", start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		var group errgroup.Group
		group.SetLimit(2)
		rest := worker{end: end}
		return func(http.ResponseWriter, *http.Request) {
			group.Go(rest.wait) // planted: limited errgroup
		}
	}},
	"semaphore": {subject: sites.Waiting, in: "golang.org/x/sync/semaphore.(*Weighted).Acquire", start: func(t *testing.T, end <-chan struct{}) http.HandlerFunc {
		limit := semaphore.NewWeighted(1)
		require.True(t, limit.TryAcquire(1))
		go func() { <-end; limit.Release(1) }()
		return func(_ http.ResponseWriter, r *http.Request) {
			_ = limit.Acquire(r.Context(), 1) // planted: semaphore
			limit.Release(1)
		}
	}},
	"single flight": {subject: sites.Waiting, least: requests - 1, in: "golang.org/x/sync/singleflight.(*Group).Do", start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		var group singleflight.Group
		rest := worker{end: end}
		return func(http.ResponseWriter, *http.Request) {
			_, _, _ = group.Do("key", rest.load) // planted: single flight
		}
	}},
	"limiter": {subject: sites.Waiting, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) {
			for !ended(end) {
				<-time.After(time.Second) // planted: limiter
			}
		}
	}},
	"sleep": {subject: sites.Waiting, in: "time.Sleep", start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) {
			for !ended(end) {
				time.Sleep(time.Second) // planted: sleep
			}
		}
	}},
	"database pool": {subject: sites.Waiting, least: requests - 2, in: "database/sql.(*DB).conn", hold: true, start: func(t *testing.T, end <-chan struct{}) http.HandlerFunc {
		db := sql.OpenDB(database{})
		db.SetMaxOpenConns(2)
		t.Cleanup(func() { _ = db.Close() })
		return func(_ http.ResponseWriter, r *http.Request) {
			conn, err := db.Conn(r.Context()) // planted: database pool
			if err == nil {
				work(end) // holds: database pool
				_ = conn.Close()
			}
		}
	}},
	"transport pool": {subject: sites.Waiting, least: requests - 2, calls: 2, in: "net/http.(*Transport).getConn", start: func(t *testing.T, end <-chan struct{}) http.HandlerFunc {
		client := &http.Client{Transport: &transport{&http.Transport{MaxConnsPerHost: 2}}}
		address := backend(t, end)
		return func(http.ResponseWriter, *http.Request) {
			get(client, address)
		}
	}},
	"other client": {subject: sites.Waiting, least: requests - 2, calls: requests, in: "net/http.(*persistConn).roundTrip", start: func(t *testing.T, end <-chan struct{}) http.HandlerFunc {
		client := &http.Client{Transport: &http.Transport{}}
		address := backend(t, end)
		return func(http.ResponseWriter, *http.Request) {
			get(client, address)
		}
	}},
	"network": {subject: sites.Waiting, in: "net.(*conn).Read", start: func(t *testing.T, end <-chan struct{}) http.HandlerFunc {
		silent := listen(t)
		return func(http.ResponseWriter, *http.Request) {
			conn, err := net.Dial("tcp", silent)
			if err == nil {
				go func() { <-end; _ = conn.Close() }()
				_, _ = conn.Read(make([]byte, 1)) // planted: network
			}
		}
	}},
	"file": {subject: sites.Waiting, least: 1, in: "os.(*File).Read", start: func(t *testing.T, end <-chan struct{}) http.HandlerFunc {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		go func() { <-end; _ = w.Close() }()
		return func(http.ResponseWriter, *http.Request) {
			_, _ = r.Read(make([]byte, 1)) // planted: file
			runtime.KeepAlive(r)
		}
	}},
	"child process": {subject: sites.Waiting, in: "os.(*Process).pidfdWait", start: func(t *testing.T, end <-chan struct{}) http.HandlerFunc {
		if runtime.GOOS != "linux" {
			t.Skip("the name of the wait is Linux's")
		}
		return func(http.ResponseWriter, *http.Request) {
			command := exec.Command("sleep", "600")
			if command.Start() == nil {
				go func() { <-end; _ = command.Process.Kill() }()
				_ = command.Wait() // planted: child process
			}
		}
	}},
	"timeout handler": {subject: sites.Waiting, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		return http.TimeoutHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			<-end // planted: timeout handler
		}), time.Hour, "").ServeHTTP
	}},
	"60 calls": {subject: sites.Waiting, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { down(60, end) }
	}},
	"200 calls": {subject: sites.Waiting, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { down(200, end) }
	}},
	"generic": {subject: sites.Waiting, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { receive(end) }
	}},
	"outbound": {subject: sites.Outbound, least: requests - 2, calls: requests, in: "net/http.(*Client).Get", start: func(t *testing.T, end <-chan struct{}) http.HandlerFunc {
		client := &http.Client{Transport: &transport{&http.Transport{}}}
		address := backend(t, end)
		return func(http.ResponseWriter, *http.Request) {
			get(client, address)
		}
	}},
	"admission": {subject: sites.Admissions, in: corpusPackage + ".(*MeteredAdmission).Acquire", start: func(t *testing.T, end <-chan struct{}) http.HandlerFunc {
		limit := &MeteredAdmission{semaphore.NewWeighted(1)}
		require.True(t, limit.TryAcquire(1))
		go func() { <-end; limit.Release(1) }()
		return func(_ http.ResponseWriter, r *http.Request) {
			_ = limit.Acquire(r.Context(), 1) // planted: admission
			limit.Release(1)
		}
	}},
}

// marks of lines that several share.
var sameLine = map[string]string{"errgroup": "work", "other client": "get", "transport pool": "get", "outbound": "get", "60 calls": "down", "200 calls": "down"}

func work(end <-chan struct{}) {
	<-end // planted: work
}

func get(client *http.Client, address string) {
	response, err := client.Get(address) // planted: get
	if err == nil {
		_ = response.Body.Close()
	}
}

//go:noinline
func down(calls int, end <-chan struct{}) {
	if calls > 0 {
		down(calls-1, end)
		return
	}
	<-end // planted: down
}

func receive[T any](from <-chan T) (value T) {
	value = <-from // planted: generic
	return value
}

func parallel(work func()) {
	var group sync.WaitGroup
	group.Go(work)
	group.Wait()
}

type worker struct {
	end  <-chan struct{}
	done chan int
}

func (w *worker) work()              { <-w.end; close(w.done) }
func (w *worker) wait() error        { <-w.end; return nil }
func (w *worker) load() (any, error) { <-w.end; return nil, nil }

func ended(end <-chan struct{}) bool {
	select {
	case <-end:
		return true
	default:
		return false
	}
}

// fullPipe is a pipe in which no byte has room, and that blocks in the kernel.
func fullPipe(t *testing.T, end <-chan struct{}) (r, w *os.File) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	_ = w.Fd() // out of the runtime's poller
	go func() { <-end; _, _ = io.Copy(io.Discard, r) }()
	t.Cleanup(func() { _ = w.Close(); _ = r.Close() })
	return r, w
}

// backend is a server that answers at the end.
// arrived counts the requests that the backend has. Until then a call may wait for
// its request to be written, at the same line and in the same function as for the
// answer, and goes on once more.
var arrived atomic.Int64

func backend(t *testing.T, end <-chan struct{}) string {
	arrived.Store(0)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1); <-end }))
	t.Cleanup(server.Close)
	return server.URL
}

// listen is a server that accepts and says nothing.
func listen(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// database is a driver whose connections do nothing.
type database struct{}

func (database) Connect(context.Context) (driver.Conn, error) { return database{}, nil }
func (database) Driver() driver.Driver                        { return nil }
func (database) Prepare(string) (driver.Stmt, error)          { return nil, io.EOF }
func (database) Close() error                                 { return nil }
func (database) Begin() (driver.Tx, error)                    { return nil, io.EOF }

// planted finds the marked lines of the tests.
func planted(t *testing.T, mark string) string {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for i, line := range strings.Split(string(source), "\n") {
			if strings.HasSuffix(line, "// "+mark) {
				return fmt.Sprintf("internal/sites/%s:%d", file, i+1)
			}
		}
	}
	t.Fatalf("no line is marked %q", mark)
	return ""
}

func TestPlantedLineComesFirst(t *testing.T) {
	for name, c := range corpus {
		t.Run(name, func(t *testing.T) {
			end := make(chan struct{})
			var served sync.WaitGroup
			handler := c.start(t, end)
			t.Cleanup(func() { // before what the workload cleans up
				close(end)
				served.Wait()
			})
			for range requests {
				served.Go(func() {
					(&middleware{handler}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
				})
			}
			least := c.least
			if least == 0 {
				least = requests
			}
			mark := name
			if shared, ok := sameLine[name]; ok {
				mark = shared
			}
			want := planted(t, "planted: "+mark)

			reader, taker := newReader(), &sites.Taker{}
			look := func(survey *sites.Survey) error {
				taker.Begin()
				return taker.Look(func(stacks []sites.Stack) {
					survey.Add(reader.Read(stacks, sites.Now{InFlight: requests}))
				})
			}
			var seen sites.Survey
			still := 0 // looks in a row that found them
			require.Eventually(t, func() bool {
				seen = sites.Survey{}
				if look(&seen) != nil {
					return false
				}
				found := seen.Sites(c.subject)
				// A call waits for its connection first and then for the answer, both
				// at one line: it has arrived where it waits in what is named below.
				waiting := len(found) > 0 && found[0].In == c.in && found[0].Load >= least && (!c.hold || holds(found) != nil)
				if !waiting || arrived.Load() < c.calls {
					still = 0
				}
				still++
				return still > 20 // who has just been told that its request was sent has moved on
			}, 10*time.Second, time.Millisecond, "not as many wait")

			for range 3 {
				var survey sites.Survey
				for range 3 {
					require.NoError(t, look(&survey))
				}
				found := survey.Sites(c.subject)
				require.NotEmpty(t, found)
				first := found[0]
				assert.Equal(t, want, first.Location)
				assert.Equal(t, sites.KindWait, first.Kind)
				assert.Equal(t, c.in, first.In)
				if !c.hold { // who holds waits as well
					assert.InDelta(t, 1, first.Share, 0.1)
				}
				assert.GreaterOrEqual(t, first.Load, least)
				if c.subject == sites.Waiting {
					assert.InDelta(t, survey.Load(c.subject), survey.Waiting(), 1e-9)
				} else {
					assert.Less(t, survey.Waiting(), 8.0, "waits of another cause")
				}
				if c.hold {
					held := holds(found)
					require.Len(t, held, 1)
					assert.Equal(t, planted(t, "holds: "+mark), held[0].Location)
				}
			}
		})
	}
}

func holds(found []sites.Site) []sites.Site {
	i := slices.IndexFunc(found, func(s sites.Site) bool { return s.Kind == sites.KindHold })
	if i < 0 {
		return nil
	}
	return found[i:]
}
