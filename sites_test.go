//lint:file-ignore SA2001 to wait for the lock is all that is to be done

package observer_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/gym-observer/observer"
)

const waiters = 12 // requests, more than the 8 from which on a verdict is given

// here is the location of its caller, so many lines further down.
func here(down int) string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d", file[strings.LastIndexByte(file, '/')+1:], line+down)
}

// waiting has requests of a real server wait in a handler until the test ends.
// Release lets them go on.
func waiting(t *testing.T, e *observer.Examined, n int, handler http.HandlerFunc, release func(), options ...observer.MiddlewareOption) {
	t.Helper()
	server := httptest.NewServer(observer.Middleware(handler, options...))
	var clients sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{}}
	for range n {
		clients.Go(func() {
			if response, err := client.Get(server.URL); err == nil {
				response.Body.Close()
			}
		})
	}
	t.Cleanup(func() {
		release()
		clients.Wait()
		client.CloseIdleConnections()
		server.Close()
	})
	require.Eventually(t, func() bool { served, _, _ := e.InFlight(); return served == int64(n) }, 10*time.Second, time.Millisecond, "requests in flight")
	settle(t, handler)
}

// settle waits until no goroutine is on its way into its wait: all that can be seen
// of one is that it is parked.
func settle(t *testing.T, _ http.HandlerFunc) {
	t.Helper()
	require.Eventually(t, func() bool {
		text := make([]byte, 1<<20)
		text = text[:runtime.Stack(text, true)]
		for stack := range strings.SplitSeq(string(text), "\n\n") {
			head, _, _ := strings.Cut(stack, "\n")
			busy := strings.Contains(head, "[running") || strings.Contains(head, "[runnable")
			if busy && strings.Contains(stack, "(*middleware).ServeHTTP") {
				return false
			}
		}
		return true
	}, 10*time.Second, time.Millisecond, "handlers that wait")
}

// pool is a database with one connection.
type pool struct{}

func (pool) Open(string) (driver.Conn, error)             { return pool{}, nil }
func (pool) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (pool) Close() error                                 { return nil }
func (pool) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }
func (pool) Driver() driver.Driver                        { return pool{} }
func (pool) Connect(context.Context) (driver.Conn, error) { return pool{}, nil }

func TestRequestsThatWaitHaveTheirLine(t *testing.T) {
	tests := []struct {
		name string
		in   string // the library function that waits
		wait func(t *testing.T) (handler http.HandlerFunc, line string, release func())
	}{
		{"a channel", "", func(*testing.T) (http.HandlerFunc, string, func()) {
			result := make(chan int)
			return func(http.ResponseWriter, *http.Request) {
				<-result
			}, here(-1), func() { close(result) }
		}},
		{"a pool of slots", "", func(*testing.T) (http.HandlerFunc, string, func()) {
			slots := make(chan struct{})
			return func(http.ResponseWriter, *http.Request) {
					slots <- struct{}{}
				}, here(-1), func() {
					go func() {
						for range waiters {
							<-slots
						}
					}()
				}
		}},
		{"a semaphore", "golang.org/x/sync/semaphore.(*Weighted).Acquire", func(t *testing.T) (http.HandlerFunc, string, func()) {
			limit := semaphore.NewWeighted(1)
			require.True(t, limit.TryAcquire(1))
			return func(_ http.ResponseWriter, r *http.Request) {
				_ = limit.Acquire(context.Background(), 1)
				limit.Release(1)
			}, here(-2), func() { limit.Release(1) }
		}},
		{"a database's pool", "database/sql.(*DB).conn", func(t *testing.T) (http.HandlerFunc, string, func()) {
			db := sql.OpenDB(pool{})
			db.SetMaxOpenConns(1)
			held, err := db.Conn(t.Context())
			require.NoError(t, err)
			return func(http.ResponseWriter, *http.Request) {
				connection, err := db.Conn(context.Background())
				if err == nil {
					connection.Close()
				}
			}, here(-4), func() { held.Close() }
		}},
		{"work of its own", "", func(*testing.T) (http.HandlerFunc, string, func()) {
			result := make(chan int)
			return func(http.ResponseWriter, *http.Request) {
				var parts sync.WaitGroup
				parts.Go(func() {
					<-result
				})
				parts.Wait()
			}, here(-3), func() { close(result) }
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := observer.Examine(t)
			handler, line, release := test.wait(t)
			waiting(t, e, waiters, handler, release)
			d := e.Windows(3) // snapshots come in the second, and two must agree
			require.Equal(t, observer.CauseWait, d.Verdict, d.Summary)
			require.NotEmpty(t, d.Sites)
			first := d.Sites[0]
			assert.Equal(t, "wait", first.Kind)
			assert.Equal(t, line, first.Location)
			assert.Equal(t, test.in, first.In)
			assert.Contains(t, first.Function, "TestRequestsThatWaitHaveTheirLine")
			assert.InDelta(t, waiters, first.Load, 0.5)
			assert.InDelta(t, 1, first.Share, 0.05)
			assert.Contains(t, d.Summary, line)
			assert.NotEmpty(t, e.LogOf("verdict=wait", "site="+line, "share="), "the log's line")

			text, err := json.Marshal(d)
			require.NoError(t, err)
			var read observer.Diagnosis
			require.NoError(t, json.Unmarshal(text, &read))
			assert.Equal(t, d.Sites, read.Sites)
			assert.Contains(t, string(text), `"location":"`+line+`"`)
		})
	}
}

func TestWithoutSitesNoSnapshotIsTaken(t *testing.T) {
	e := observer.Examine(t, observer.WithSites(false))
	result := make(chan int)
	waiting(t, e, waiters, func(http.ResponseWriter, *http.Request) { <-result }, func() { close(result) })
	d := e.Windows(4)
	assert.Equal(t, observer.CauseNone, d.Verdict, d.Summary)
	assert.Empty(t, d.Sites)
	assert.Zero(t, e.Snapshots())
}

func TestHealthyMinuteTakesNoSnapshot(t *testing.T) {
	e := observer.Examine(t)
	result := make(chan int)
	// Less than eight wait, so that nobody has a reason to look.
	waiting(t, e, 7, func(http.ResponseWriter, *http.Request) { <-result }, func() { close(result) })
	for range 60 {
		d := e.Windows(1)
		require.Equal(t, observer.CauseNone, d.Verdict, d.Summary)
	}
	assert.Zero(t, e.Snapshots())
}

func TestExpectedWaitsAreAcquitted(t *testing.T) {
	e := observer.Examine(t)
	result := make(chan int)
	waiting(t, e, 2*waiters, func(http.ResponseWriter, *http.Request) { <-result }, func() { close(result) },
		observer.WithExpectedWait(func(*http.Request) bool { return true }))
	d := e.Windows(4)
	assert.Equal(t, observer.CauseNone, d.Verdict, d.Summary)
	assert.Empty(t, d.Sites)
	assert.Zero(t, e.Snapshots())
}

func TestLongPollsAreNamedAndNoVerdict(t *testing.T) {
	e := observer.Examine(t)
	events, over := make(chan int), make(chan struct{})
	line := here(2)
	waiting(t, e, waiters, func(http.ResponseWriter, *http.Request) {
		select {
		case <-events:
		case <-over:
		}
	}, func() { close(over) })
	var looked []int // the windows with snapshots
	for window := range 32 {
		before := e.Snapshots()
		d := e.Windows(1)
		require.Equal(t, observer.CauseNone, d.Verdict, d.Summary)
		require.Empty(t, d.Sites)
		if e.Snapshots() > before {
			looked = append(looked, window)
			assert.Contains(t, d.Summary, "12.0 requests in flight wait in observer_test.TestLongPollsAreNamedAndNoVerdict")
		}
		if window > 0 {
			assert.Contains(t, d.Summary, line, "window %d", window)
			assert.Contains(t, d.Summary, "perhaps for events")
		}
	}
	assert.Equal(t, []int{1, 3, 7, 15, 31}, looked, "after 2, 4, … windows")
}

func TestMutexHeldForLongerThanAWindow(t *testing.T) {
	e := observer.Examine(t)
	var held sync.Mutex
	held.Lock()
	line := here(2)
	waiting(t, e, waiters, func(http.ResponseWriter, *http.Request) {
		held.Lock()
		held.Unlock()
	}, held.Unlock)
	d := e.Windows(3)
	require.Equal(t, observer.CauseLock, d.Verdict, d.Summary)
	require.NotEmpty(t, d.Sites)
	assert.Equal(t, line, d.Sites[0].Location)
	assert.Contains(t, d.Summary, line)

	var shown struct {
		Sites []struct{ Functions []string }
	}
	answer := httptest.NewRecorder()
	observer.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/?format=json", nil))
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &shown))
	require.Len(t, shown.Sites, len(d.Sites))
	stack := shown.Sites[0].Functions
	assert.Equal(t, "runtime.gopark", stack[0], "the page has the stack: the innermost function first")
	assert.Contains(t, stack, "sync.(*Mutex).Lock")
	assert.Contains(t, stack, d.Sites[0].Function)
}

func TestOwnPoolIsNoOtherServersDoing(t *testing.T) {
	e := observer.Examine(t)
	over := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	t.Cleanup(silent.Close) // after the requests have ended
	transport := &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: observer.Transport(transport)}
	line := here(2)
	waiting(t, e, waiters, func(http.ResponseWriter, *http.Request) {
		if response, err := client.Get(silent.URL); err == nil {
			response.Body.Close()
		}
	}, func() { close(over) })
	require.Eventually(t, func() bool { _, outbound, _ := e.InFlight(); return outbound == waiters }, 10*time.Second, time.Millisecond)
	d := e.Windows(4)
	require.Equal(t, observer.CauseWait, d.Verdict, d.Summary)
	require.NotEmpty(t, d.Sites)
	assert.Equal(t, line, d.Sites[0].Location)
	assert.NotContains(t, d.Also, observer.CauseDownstream)
	for _, site := range d.Sites {
		// The clients of this test wait in an http.Transport, too, but in another one.
		assert.Equal(t, line, site.Location, "%+v", site)
	}
}

func TestOutboundRequestsHaveTheirLine(t *testing.T) {
	e := observer.Examine(t)
	over := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	t.Cleanup(silent.Close) // after the requests have ended
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: observer.Transport(transport)}
	line := here(2)
	waiting(t, e, waiters, func(http.ResponseWriter, *http.Request) {
		if response, err := client.Get(silent.URL); err == nil {
			response.Body.Close()
		}
	}, func() { close(over) })
	require.Eventually(t, func() bool { _, outbound, _ := e.InFlight(); return outbound == waiters }, 10*time.Second, time.Millisecond)
	d := e.Windows(3)
	require.Equal(t, observer.CauseDownstream, d.Verdict, d.Summary)
	require.NotEmpty(t, d.Sites)
	assert.Equal(t, line, d.Sites[0].Location)
	assert.Contains(t, d.Summary, line)
}

// A name that no stack has would let every goroutine go uncounted, and nothing else
// would fail.
func TestMarksAreInTheStacks(t *testing.T) {
	observe(t)
	marks := observer.TheMarks()
	functions := func() (names []string) {
		pcs := make([]uintptr, 64)
		frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
		for {
			frame, more := frames.Next()
			names = append(names, frame.Function)
			if !more {
				return names
			}
		}
	}
	serve := func(options ...observer.MiddlewareOption) (names []string) {
		handler := observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { names = functions() }), options...)
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		return names
	}
	expected := observer.WithExpectedWait(func(*http.Request) bool { return true })
	assert.Contains(t, serve(), marks.Request)
	assert.NotContains(t, serve(), marks.Expected)
	assert.Contains(t, serve(expected), marks.Request)
	assert.Contains(t, serve(expected), marks.Expected)

	var names []string
	transport := observer.Transport(roundTrip(func(*http.Request) (*http.Response, error) {
		names = functions()
		return nil, errors.ErrUnsupported
	}))
	_, _ = transport.RoundTrip(httptest.NewRequest(http.MethodGet, "http://model/", nil))
	assert.Contains(t, names, marks.Outbound)

	admission := observer.NewMeteredAdmission(limiter(func() { names = functions() }))
	for way, admit := range map[string]func(){
		"Acquire": func() { require.NoError(t, admission.Acquire(t.Context(), 1)); admission.Release(1) },
		"Admit": func() {
			release, err := admission.Admit(t.Context())
			require.NoError(t, err)
			release()
		},
		"Do": func() {
			require.NoError(t, admission.Do(t.Context(), func(context.Context) error { return nil }))
		},
	} {
		names = nil
		admit()
		assert.True(t, slices.ContainsFunc(marks.Admission, func(mark string) bool { return slices.Contains(names, mark) }), "%s: %v", way, names)
	}
}

// limiter looks around while it admits.
type limiter func()

func (f limiter) Acquire(context.Context, int64) error { f(); return nil }
func (limiter) TryAcquire(int64) bool                  { return false }
func (limiter) Release(int64)                          {}

// A window that ends early in a test would let this one pass by itself: the same
// server, looked at while some of its requests come to an end, stays what it was.
func TestVerdictGoesOnWhileRequestsComeAndGo(t *testing.T) {
	e := observer.Examine(t)
	var served atomic.Int64
	slots, over := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(observer.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		<-slots
		served.Add(1)
	})))
	var clients sync.WaitGroup
	for range waiters {
		clients.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if response, err := server.Client().Get(server.URL); err == nil {
					response.Body.Close()
				}
			}
		})
	}
	defer server.Close()
	defer clients.Wait()
	defer close(slots)
	defer close(over)
	inFlight := func() bool { n, _, _ := e.InFlight(); return n == waiters }
	var d observer.Diagnosis
	for range 5 {
		require.Eventually(t, inFlight, 10*time.Second, time.Millisecond)
		settle(t, nil)
		d = e.Windows(1)
		for range 3 {
			slots <- struct{}{}
		}
	}
	assert.Equal(t, observer.CauseWait, d.Verdict, d.Summary)
	assert.Positive(t, served.Load())
}

// What was planned while requests waited must not be looked at by a loop that begins
// when they have gone.
func TestFirstWindowHasNoSnapshotOfAnother(t *testing.T) {
	e := observer.Examine(t)
	t.Run("requests wait", func(t *testing.T) {
		result := make(chan int)
		waiting(t, e, waiters, func(http.ResponseWriter, *http.Request) { <-result }, func() { close(result) })
		e.Windows(3)
	})
	before := e.Snapshots()
	require.Positive(t, before)
	e.Begin()
	d := e.Windows(2)
	assert.Equal(t, observer.CauseNone, d.Verdict, d.Summary)
	assert.Equal(t, before, e.Snapshots())
	found, _ := e.Named(observer.CauseWait)
	assert.Empty(t, found)
}
