package sites

import (
	"slices"
	"strings"
)

// wait is what keeps a goroutine from going on.
type wait uint8

const (
	running    wait = iota // runs, or is ready to
	inCall                 // in a system call or in C code
	inRuntime              // the collector's assist, or another wait of the runtime's own
	forLock                // a mutex, or the lock of a file descriptor
	forChild               // a child process to end
	forClient              // its own client's connection
	forPool                // a free connection of an http.Transport
	forNetwork             // another server
	forGate                // a channel, a WaitGroup, a timer, a pool, a limit: something here
	forEvent               // a select or a Cond that is perhaps a gate and perhaps a long poll
)

// pause is a goroutine's wait: what for, and how the stack shows it.
type pause struct {
	wait  wait
	at    int  // the frame that waits: the innermost that is not runtime's or sync's
	join  bool // somebody else's work could end it: a channel, select, Cond or WaitGroup
	group bool // it is a WaitGroup
	send  bool // it is a send to a channel: not for somebody's end
}

// pauseOf classifies a stack by its innermost frames. A profile has no reason of
// waiting, but the functions that park are few. A goroutine that was made ready
// and did not run yet still shows its wait: with a long run queue these are
// many, and the rules of the processor come first.
func (r *Reader) pauseOf(frames []Frame) pause {
	if len(frames) == 0 {
		return pause{}
	}
	if top := frames[0].Function; top != "runtime.gopark" {
		return r.callOf(frames, top)
	}
	how, i := "", 1
	for ; i < len(frames) && packageOf(frames[i].Function) == "runtime"; i++ {
		switch frames[i].Function {
		case "runtime.selectgo", "runtime.block", "runtime.chanrecv", "runtime.chansend", "runtime.semacquire1", "runtime.netpollblock":
			how = frames[i].Function
		}
	}
	if i == len(frames) {
		return pause{wait: inRuntime}
	}
	door := frames[i].Function // through which the library entered the runtime
	at := i
	for at < len(frames)-1 && waitsForOthers[packageOf(frames[at].Function)] {
		at++
	}
	p := pause{at: at}
	switch how {
	case "runtime.selectgo", "runtime.block":
		p.wait, p.join = r.gate(frames, at), true
	case "runtime.chanrecv", "runtime.chansend":
		p.wait, p.join, p.send = forGate, true, how == "runtime.chansend"
		if known := r.gate(frames, at); known != forEvent {
			p.wait = known
		}
	case "runtime.netpollblock":
		p.wait = r.connection(frames, at)
	case "runtime.semacquire1":
		switch door {
		case "internal/sync.runtime_SemacquireMutex", "sync.runtime_SemacquireMutex",
			"sync.runtime_SemacquireRWMutexR", "sync.runtime_SemacquireRWMutex", "internal/poll.runtime_Semacquire":
			p.wait = forLock
		case "sync.runtime_SemacquireWaitGroup":
			p.wait, p.join, p.group = forGate, true, true
		default:
			p.wait = inRuntime // stopping the world, or starting a collection
		}
	default:
		switch door {
		case "time.Sleep":
			p.wait = forGate
		case "sync.runtime_notifyListWait":
			p.wait, p.join = r.gate(frames, at), true
		default:
			p.wait = inRuntime
		}
	}
	return p
}

// waitsForOthers are packages whose functions wait on behalf of their caller.
var waitsForOthers = map[string]bool{"runtime": true, "sync": true, "internal/sync": true, "internal/poll": true, "time": true, "internal/runtime/maps": true}

// callOf tells a goroutine in a system call or in C from one that runs.
func (r *Reader) callOf(frames []Frame, top string) pause {
	switch packageOf(top) {
	case "syscall", "internal/runtime/syscall", "internal/runtime/syscall/linux", "golang.org/x/sys/unix", "golang.org/x/sys/windows":
	default:
		switch top {
		case "runtime.cgocall", "runtime.notetsleepg", "runtime.libcCall", "runtime.syscall_syscalln":
		default:
			return pause{}
		}
	}
	for i, f := range frames[:min(len(frames), 12)] {
		switch f.Function {
		case "os.(*Process).wait", "os.(*Process).pidfdWait", "os.(*Process).blockUntilWaitable":
			return pause{wait: forChild, at: i}
		case "os/signal.signal_recv":
			return pause{wait: inRuntime}
		}
	}
	return pause{wait: inCall}
}

// gate tells what a select, a Cond or a channel waits for by the functions
// around it. A bare select may be a queue or a long poll, so only functions that
// are known not to wait for events count.
func (r *Reader) gate(frames []Frame, at int) wait {
	if w, ok := r.named(frames, at); ok {
		return w
	}
	f := frames[at]
	if strings.HasPrefix(f.Function, "io.(*pipe).") {
		return forEvent // a proxy of a stream waits in one all day
	}
	switch pkg := packageOf(f.Function); {
	case r.origin(f) == standard:
		return forGate
	case strings.HasPrefix(pkg, "golang.org/x/"):
		return forGate
	}
	return forEvent
}

// named is what a wait is for by the names around it. The functions of net/http
// are looked for behind the application's, too, whose own net.Conn may lie
// between them and the wait. A library's name says nothing any more where the
// application's code waits, which a WebSocket library may have called.
func (r *Reader) named(frames []Frame, at int) (wait, bool) {
	inLibrary := true
	for _, f := range frames[at:min(len(frames), at+reach)] {
		if w, ok := known[generic(f.Function)]; ok {
			return w, true
		}
		if inLibrary = inLibrary && r.origin(f) != application; !inLibrary {
			continue
		}
		if w, ok := knownPackage(packageOf(f.Function)); ok {
			return w, true
		}
	}
	return 0, false
}

// reach is how many frames around a wait may say what it is for. A request's
// body is read through a chunk reader, buffers and TLS: nine frames.
const reach = 16

// connection tells whose connection a goroutine waits on. A pipe or a terminal
// is not the network.
func (r *Reader) connection(frames []Frame, at int) wait {
	if w, ok := r.named(frames, at); ok && w == forClient || copiedToClient(frames, at) {
		return forClient
	}
	if strings.HasPrefix(frames[at].Function, "os.(*File).") {
		return forGate
	}
	return forNetwork
}

// copiedToClient reports whether the kernel copies a file or a connection to the
// client (sendfile, splice) and waits until that takes more. Where it waits for the
// source, that is what the request waits for.
func copiedToClient(frames []Frame, at int) bool {
	if !slices.ContainsFunc(frames[:at], func(f Frame) bool { return kernelWrites[f.Function] }) {
		return false
	}
	for _, f := range frames[at:min(len(frames), at+reach)] {
		switch packageOf(f.Function) {
		case "net", "os", "internal/poll":
		default:
			return f.Function == "net/http.(*response).ReadFrom"
		}
	}
	return false
}

// kernelWrites are those functions of such a copy that wait for the side that is
// written to.
var kernelWrites = map[string]bool{
	"internal/poll.sendFile":   true, // reads files alone, which are always ready
	"internal/poll.SendFile":   true, // on Windows
	"internal/poll.splicePump": true,
}

// known are functions whose wait is told by their name, with http2's prefix of
// the bundled copy taken off. Those of the standard library and of golang.org/x
// that are not here are gates.
var known = map[string]wait{
	"net/http.(*connReader).Read":                                forClient,
	"net/http.(*connReader).backgroundRead":                      forClient,
	"net/http.(*connReader).abortPendingRead":                    forClient,
	"net/http.checkConnErrorWriter.Write":                        forClient,
	"net/http.(*requestBody).Read":                               forClient,
	"net/http.(*serverConn).writeDataFromHandler":                forClient,
	"net/http.(*serverConn).writeHeaders":                        forClient,
	"net/http.(*serverConn).writeFrameFromHandler":               forClient,
	"golang.org/x/net/http2.(*requestBody).Read":                 forClient,
	"golang.org/x/net/http2.(*serverConn).writeDataFromHandler":  forClient,
	"golang.org/x/net/http2.(*serverConn).writeHeaders":          forClient,
	"golang.org/x/net/http2.(*serverConn).writeFrameFromHandler": forClient,

	"net/http.(*Transport).getConn": forPool,

	"net/http.(*persistConn).roundTrip":                                                     forNetwork,
	"net/http.(*ClientConn).roundTrip":                                                      forNetwork,
	"net/http.(*transportResponseBody).Read":                                                forNetwork,
	"golang.org/x/net/http2.(*ClientConn).roundTrip":                                        forNetwork,
	"golang.org/x/net/http2.(*transportResponseBody).Read":                                  forNetwork,
	"net.(*Resolver).lookupIPAddr":                                                          forNetwork,
	"google.golang.org/grpc/internal/transport.(*recvBufferReader).readClient":              forNetwork,
	"google.golang.org/grpc/internal/transport.(*recvBufferReader).readMessageHeaderClient": forNetwork,
	"google.golang.org/grpc/internal/transport.(*Stream).waitOnHeader":                      forNetwork,
	"google.golang.org/grpc/internal/transport.(*ClientStream).waitOnHeader":                forNetwork,
	"google.golang.org/grpc.(*pickerWrapper).pick":                                          forNetwork,

	// Pools and limits of widely used libraries, which wait in a select.
	"github.com/redis/go-redis/v9/internal/pool.(*ConnPool).waitTurn":         forGate,
	"github.com/gomodule/redigo/redis.(*Pool).waitVacantConn":                 forGate,
	"github.com/jackc/puddle/v2.(*Pool).acquire":                              forGate,
	"github.com/jackc/puddle/v2.(*Pool).initResourceValue":                    forGate,
	"go.mongodb.org/mongo-driver/x/mongo/driver/topology.(*pool).checkOut":    forGate,
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology.(*pool).checkOut": forGate,
	"github.com/uber-go/ratelimit.(*atomicInt64Limiter).Take":                 forGate,
	"go.uber.org/ratelimit.(*atomicInt64Limiter).Take":                        forGate,
}

// knownPackage is for libraries whose every wait is of one kind: a WebSocket is
// its client's connection.
func knownPackage(pkg string) (wait, bool) {
	if strings.Contains(pkg, "websocket") || strings.HasPrefix(pkg, "github.com/gobwas/ws") {
		return forClient, true
	}
	return 0, false
}

// generic is a function's name without the prefix that net/http gives to its
// copy of http2.
func generic(function string) string {
	for _, prefix := range []string{"net/http.(*", "net/http."} {
		if rest, ok := strings.CutPrefix(function, prefix+"http2"); ok {
			return prefix + rest
		}
	}
	if rest, ok := strings.CutPrefix(function, "net/http/internal/http2."); ok {
		return "golang.org/x/net/http2." + rest
	}
	return function
}
