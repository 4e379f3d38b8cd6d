package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gym-observer/observer"
)

// injection is one way to make this process suffer from a cause.
type injection struct {
	cause observer.Cause
	kind  string
	what  string // what it does, for whoever watches
	idle  bool   // nobody asks the server anything meanwhile

	// prepare, which may be nil, comes before the observer starts.
	prepare func(context.Context, *server) error

	// inject makes the process suffer until ctx ends, and then undoes what it has
	// done. An error that wraps errNotPossible says that it cannot be had here.
	inject func(context.Context, *server) error
}

// name is that of the cause and the kind.
func (i injection) name() string { return string(i.cause) + "/" + i.kind }

// causes are what a verdict can be.
var causes = []struct {
	cause   observer.Cause
	meaning string
}{
	{observer.CauseCPUThrottled, "the cgroup's CPU quota, a container's limit, stops the process"},
	{observer.CauseStopTheWorld, "something other than the collector stops all goroutines, again and again"},
	{observer.CauseGC, "the garbage collector takes the processors"},
	{observer.CauseCPUContended, "others have the processors, or GOMAXPROCS promises more than there are"},
	{observer.CauseCPUSaturated, "more goroutines want to run than processors can"},
	{observer.CauseLock, "goroutines wait for mutexes"},
	{observer.CauseOutputWrite, "the rollouts of a driver wait for their output to be written"},
	{observer.CauseDownstream, "the time goes by in another server"},
	{observer.CauseAdmission, "rollouts wait for a limit"},
	{observer.CauseBlockedThread, "goroutines are stuck in system calls or C code"},
	{observer.CauseWait, "requests wait for a channel, a pool, a semaphore, a limiter: something in this process"},
	{observer.CauseDescriptors, "the file descriptors are nearly used up"},
	{observer.CauseMemory, "a memory limit is nearly used up"},
	{observer.CauseUnknown, "the process is late, and nothing that is measured says why"},
	{observer.CauseNone, "all is well, though much may be going on"},
}

// injections are all of them. The first of a cause is its default.
var injections = []injection{
	{cause: observer.CauseCPUThrottled, kind: "steady", inject: throttleSteadily,
		what: "the process moves to a cgroup with a quota of a fifth of a CPU, and wants all CPUs"},
	{cause: observer.CauseCPUThrottled, kind: "bursts", inject: throttleBursts,
		what: "a cgroup with a quota of a fifth of a CPU; bursts of work use it up at once, and wait for the next period"},

	{cause: observer.CauseStopTheWorld, kind: "memstats", inject: readMemStats,
		what: "two goroutines call runtime.ReadMemStats in a loop, as an eager metrics library would"},
	{cause: observer.CauseStopTheWorld, kind: "stacks", inject: dumpStacks,
		what: "every 50 ms the stacks of 3,000 goroutines are written down, as an eager profiler would"},
	{cause: observer.CauseStopTheWorld, kind: "gomaxprocs", inject: flipProcessors,
		what: "GOMAXPROCS goes up and down in a loop; each change stops the world"},

	{cause: observer.CauseGC, kind: "churn", inject: churn,
		what: "goroutines allocate as fast as they can beside a live heap of 64 MiB, with GOGC=10"},
	{cause: observer.CauseGC, kind: "limit", inject: thrash,
		what: "the live heap leaves 8 MiB below GOMEMLIMIT, and goroutines allocate"},

	{cause: observer.CauseCPUContended, kind: "neighbours", inject: crowd,
		what: "four other processes a CPU spin, while this one keeps its processors busy"},
	{cause: observer.CauseCPUContended, kind: "priority", inject: outrank,
		what: "one other process a CPU spins with a better nice value"},
	{cause: observer.CauseCPUContended, kind: "gomaxprocs", inject: promiseProcessors,
		what: "GOMAXPROCS is eight times the CPUs, and a goroutine spins on each"},

	{cause: observer.CauseCPUSaturated, kind: "spinners", inject: spinners,
		what: "eight goroutines a processor spin"},
	{cause: observer.CauseCPUSaturated, kind: "short", inject: shortGoroutines,
		what: "a thousand goroutines a processor are alive; each works for some 50 µs, and another is started in its place"},
	{cause: observer.CauseCPUSaturated, kind: "clients", inject: impatientClients,
		what: "sixteen clients a processor ask the server for work, again as soon as it has answered"},
	{cause: observer.CauseCPUSaturated, kind: "bursts", inject: computeInBursts,
		what: "16 goroutines a processor compute for 300 ms of each 1.3 s"},

	{cause: observer.CauseLock, kind: "mutex", inject: holdMutex,
		what: "32 goroutines take one mutex in turn, for 2 ms each; the server's handler needs it, too"},
	{cause: observer.CauseLock, kind: "rwmutex", inject: stormRWMutex,
		what: "64 readers and 4 writers of one RWMutex; a waiting writer keeps the readers out"},
	{cause: observer.CauseLock, kind: "logger", inject: logSlowly,
		what: "32 goroutines log through one handler, which locks while its writer takes 2 ms a line"},
	{cause: observer.CauseLock, kind: "pipe", inject: waitForPipe,
		what: "16 requests log into a pipe whose reader is slow: they wait for the lock of the file"},

	{cause: observer.CauseOutputWrite, kind: "begun", inject: writeSlowly,
		what: "8 rollouts write into pipes that are read slowly, between BeginOutputWrite and its end"},
	{cause: observer.CauseOutputWrite, kind: "recorded", inject: recordSlowWrites,
		what: "the same writes, each given to RecordOutputWrite once it is finished"},
	{cause: observer.CauseOutputWrite, kind: "locked", inject: writeInTurn,
		what: "64 rollouts write one after the other, for 30 ms each, with a lock held over the write"},
	{cause: observer.CauseOutputWrite, kind: "hung", inject: hangWrites,
		what: "3 writes begin, and the disk never answers"},

	{cause: observer.CauseDownstream, kind: "driver", inject: askSlowModel,
		what: "32 rollouts wait for a model server that takes 300 ms"},
	{cause: observer.CauseDownstream, kind: "small", inject: askWithFew,
		what: "the same with four rollouts, which is all that a small driver has"},
	{cause: observer.CauseDownstream, kind: "writes", inject: writeForAHundredth,
		what: "128 rollouts wait for a model for a second each, and write for a hundredth of that"},
	{cause: observer.CauseDownstream, kind: "proxy", inject: proxySlowModel,
		what: "the server's handler calls another server, which works on two requests at a time; there are no rollouts"},
	{cause: observer.CauseDownstream, kind: "silent", inject: askSilentModel,
		what: "16 rollouts wait for a server that takes connections and never answers"},

	{cause: observer.CauseAdmission, kind: "full", inject: fillAdmission,
		what: "32 rollouts share a limit of 4; each works elsewhere for 200 ms"},
	{cause: observer.CauseAdmission, kind: "leaked", inject: leakAdmission,
		what: "a limit of 4 whose slots were never given back; 8 rollouts wait for ever"},

	{cause: observer.CauseBlockedThread, kind: "pipes", inject: blockInPipes,
		what: "32 goroutines read pipes that stay empty, through raw system calls"},
	{cause: observer.CauseBlockedThread, kind: "flock", inject: blockInFlock,
		what: "32 goroutines wait for a lock on a file that another has"},

	{cause: observer.CauseWait, kind: "channel", inject: waitForConsumer,
		what: "16 requests hand something to one goroutine, which takes 50 ms for each"},
	{cause: observer.CauseWait, kind: "database", inject: waitForDatabase,
		what: "16 requests share a pool of two database connections; a statement takes 50 ms"},
	{cause: observer.CauseWait, kind: "semaphore", inject: waitForSemaphore,
		what: "16 requests share a semaphore of two"},
	{cause: observer.CauseWait, kind: "limiter", inject: waitForLimiter,
		what: "16 requests wait for a ticker that lets 20 pass a second"},
	{cause: observer.CauseWait, kind: "waitgroup", inject: waitForParts,
		what: "each of 16 requests starts two goroutines and waits for them, which share two slots"},
	{cause: observer.CauseWait, kind: "singleflight", inject: waitForFlight,
		what: "16 requests wait for one answer that fills a cache"},
	{cause: observer.CauseWait, kind: "transport", inject: waitForConnection,
		what: "16 requests call another server through an http.Transport with two connections"},
	{cause: observer.CauseWait, kind: "logger", inject: waitForLogger,
		what: "16 requests log through a channel, whose writer takes 50 ms a line"},
	{cause: observer.CauseWait, kind: "backoff", inject: backOff,
		what: "16 requests sleep for half a second before they would try again"},
	{cause: observer.CauseWait, kind: "objects", inject: waitForObject,
		what: "16 requests share a pool of two objects, which is a channel"},
	{cause: observer.CauseWait, kind: "token", inject: waitForToken,
		what: "16 requests share one token, which is a channel of one place"},
	{cause: observer.CauseWait, kind: "future", inject: waitForFuture,
		what: "16 requests wait for the results of two workers"},
	{cause: observer.CauseWait, kind: "batch", inject: waitForBatch,
		what: "16 requests wait until their batch is written, twice a second"},
	{cause: observer.CauseWait, kind: "errgroup", inject: waitForGroup,
		what: "each of 16 requests runs four parts in an errgroup, one at a time"},
	{cause: observer.CauseWait, kind: "rollouts", inject: waitInRollouts,
		what: "16 rollouts call their model through an HTTP client with two connections, and 16 more wait for the limit"},

	{cause: observer.CauseDescriptors, kind: "files", inject: openFiles,
		what: "the limit is lowered, and files are opened until 92 % of it is in use"},
	{cause: observer.CauseDescriptors, kind: "sockets", inject: leakSockets,
		what: "the limit is lowered, and connections are leaked until 92 % of it is in use"},

	{cause: observer.CauseMemory, kind: "heap", inject: fillHeap,
		what: "the live heap is 93 % of GOMEMLIMIT, and hardly anything is allocated"},
	{cause: observer.CauseMemory, kind: "cache", inject: fillCache,
		what: "a map fills GOMEMLIMIT to 93 %, and nothing is taken out again"},
	{cause: observer.CauseMemory, kind: "stacks", inject: fillStacks,
		what: "the stacks of parked goroutines fill GOMEMLIMIT; the heap is small"},
	{cause: observer.CauseMemory, kind: "cgroup", inject: fillCgroup,
		what: "memory outside of Go's heap is 93 % of the limit of a cgroup"},

	{cause: observer.CauseUnknown, kind: "stopped", inject: stopOften,
		what: "another process stops this one for 300 ms of every 600 ms, as a debugger or a suspended machine does"},
	{cause: observer.CauseUnknown, kind: "long", inject: stopLong,
		what: "another process stops this one for 1.2 s of every 2.4 s"},

	{cause: observer.CauseNone, kind: "idle", inject: rest, idle: true,
		what: "an idle process"},
	{cause: observer.CauseNone, kind: "open", inject: serveOpenLoop, prepare: measureCapacity,
		what: "requests arrive at random, at 60 % of the capacity that was measured before"},
	{cause: observer.CauseNone, kind: "workers", inject: keepBusy,
		what: "one goroutine a processor works all the time, and nothing queues"},
	{cause: observer.CauseNone, kind: "outbound", inject: askALittle,
		what: "the server's handler calls a server that takes 300 ms, four times at once; there are no rollouts"},
	{cause: observer.CauseNone, kind: "collecting", inject: allocateModerately,
		what: "100 MiB of garbage a second beside a live heap of 32 MiB: the collector works, and copes"},
	{cause: observer.CauseNone, kind: "herd", inject: wakeTogether,
		what: "a thousand goroutines wake up at the same moment, ten times a second, and have little to do"},
	{cause: observer.CauseNone, kind: "bursts", inject: computeNowAndThen,
		what: "one goroutine a processor computes for 300 ms of each 1.3 s: the processors are full by turns, and nothing queues"},
	{cause: observer.CauseNone, kind: "writes", inject: writeNowAndThen,
		what: "128 rollouts each write for a hundredth of their time: one or two always do, and none waits for another"},
	{cause: observer.CauseNone, kind: "children", inject: runTools,
		what: "16 rollouts each run a tool of 3 s in a process of its own"},
	{cause: observer.CauseNone, kind: "watch", inject: watch,
		what: "twelve calls wait for events that do not come, and are declared as expected waits"},
	{cause: observer.CauseNone, kind: "poll", inject: pollForEvents,
		what: "16 requests wait in a select for events, and nobody has declared that"},
	{cause: observer.CauseNone, kind: "cond", inject: pollWithCond,
		what: "16 requests wait in a sync.Cond for events"},
	{cause: observer.CauseNone, kind: "limit", inject: shareALimit,
		what: "a limit of 4 that is used to 80 %: some rollouts always wait, for some milliseconds"},
	{cause: observer.CauseNone, kind: "events", inject: serverSentEvents,
		what: "32 clients read server-sent events, which reach each handler through a channel"},
	{cause: observer.CauseNone, kind: "websocket", inject: webSockets,
		what: "32 connections that were upgraded and taken over, whose clients say a word four times a second"},
	{cause: observer.CauseNone, kind: "streams", inject: streamBothWays,
		what: "32 streams over one HTTP/2 connection, in which client and server talk in turn"},
	{cause: observer.CauseNone, kind: "tokens", inject: passTokensOn,
		what: "a proxy passes on what a model says word by word, to 32 clients at a time, for 3 s each"},
	{cause: observer.CauseNone, kind: "download", inject: sendFile,
		what: "32 clients with slow lines read a file of 64 MiB"},
	{cause: observer.CauseNone, kind: "upload", inject: takeUploads,
		what: "32 clients with slow lines send a body, which takes them 10 s"},
	{cause: observer.CauseNone, kind: "batch", inject: workBatches,
		what: "4 requests at a time each wait for 16 pieces of work, done 8 at a time"},
	{cause: observer.CauseNone, kind: "pool", inject: useHalfAPool,
		what: "requests arrive at random and hand their work of 40 ms to 16 workers, half of whom have something to do"},
	{cause: observer.CauseNone, kind: "driver", inject: driveWell,
		what: "16 rollouts below their limit, with a quick model, quick writes and a mutex"},
}

// errNotPossible is why an injection cannot be had on this system.
var errNotPossible = errors.New("not possible here")

// find returns the injection of a kind, or the first of the cause.
func find(cause observer.Cause, kind string) (injection, error) {
	for _, i := range injections {
		if i.cause == cause && (kind == "" || kind == i.kind) {
			return i, nil
		}
	}
	all := kinds(cause)
	if all == nil {
		return injection{}, fmt.Errorf("%q is no cause", cause)
	}
	return injection{}, fmt.Errorf("%s has no kind %q, only %s", cause, kind, strings.Join(all, ", "))
}

// kinds are the names of a cause's injections, nil if there is no such cause.
func kinds(cause observer.Cause) (names []string) {
	for _, i := range injections {
		if i.cause == cause {
			names = append(names, i.kind)
		}
	}
	return names
}

// suffering is an injection under way.
type suffering struct {
	cancel context.CancelFunc
	began  time.Time
	took   atomic.Int64 // nanoseconds, once it is over
	done   chan struct{}
	err    error // set before done is closed
}

// begin injects until ctx ends, or for a time unless that is 0.
func begin(ctx context.Context, i injection, s *server, length time.Duration) *suffering {
	ctx, cancel := context.WithCancel(ctx)
	if length > 0 {
		time.AfterFunc(length, cancel)
	}
	suffering := &suffering{cancel: cancel, began: time.Now(), done: make(chan struct{})}
	go func() {
		defer close(suffering.done)
		err := i.inject(ctx, s)
		suffering.took.Store(int64(time.Since(suffering.began)))
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			suffering.err = err
		}
	}()
	return suffering
}

// soFar returns for how long the process has suffered.
func (s *suffering) soFar() time.Duration {
	if took := s.took.Load(); took > 0 {
		return time.Duration(took)
	}
	return time.Since(s.began)
}

// end ends it, waits until what was done is undone, and returns what failed.
func (s *suffering) end() error {
	s.cancel()
	<-s.done
	return s.err
}

// failed returns the error of an injection that could not go on.
func (s *suffering) failed() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// sleep waits for d, or for the end of ctx, whose error it returns.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// together runs n goroutines that each do something again and again until ctx
// ends.
func together(ctx context.Context, n int, do func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				do()
			}
		})
	}
	all.Wait()
}
