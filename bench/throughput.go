package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	bareAgain = "bare handler against itself"

	connections = 64

	// liveHeap is what the server keeps. With a small heap the collector's own minimum
	// of 4 MiB decides how often it runs, and each allocation costs as in no server.
	liveHeap = 64 << 20
)

var pairedWrappings = func() []wrapping {
	again := wrappings[0]
	again.name = bareAgain
	paired := []wrapping{again}
	for _, w := range wrappings {
		if w.name == withObserver || w.name == withPromhttp || w.name == withOtelhttp {
			paired = append(paired, w)
		}
	}
	return paired
}()

// lastPairs are what the throughput has just measured, for the CPU time to show.
var lastPairs = make(map[string]pair)

func throughputs() *family {
	f := &family{
		name:         loaded,
		about:        "Requests a second as a share of the bare handler's, in pairs of windows, one after the other in alternating order. The handler sets two headers and writes 2 KiB, and the server keeps 64 MiB of heap. The client is a process of its own with 64 connections. Under observation everything is on, and every window has a collection.",
		unit:         "of bare",
		moreIsBetter: true,
		rounds:       byPairs,
	}
	for _, w := range pairedWrappings {
		f.cases = append(f.cases, &testCase{w.name, w.role, func(e effort) (sample, error) {
			p, err := measurePair(w, e.window)
			lastPairs[w.name] = p
			return uncounted(p.wrapped.rate / p.bare.rate), err
		}})
	}
	return f
}

func cpuPerRequest() *family {
	f := &family{
		name:   loadedCPU,
		about:  "The server's CPU time for each request as a share of the bare handler's, in the same windows. What else runs on the machine hardly touches it.",
		unit:   "of bare",
		rounds: byPairs,
	}
	for _, w := range pairedWrappings {
		f.cases = append(f.cases, &testCase{w.name, w.role, func(e effort) (sample, error) {
			p, measured := lastPairs[w.name]
			delete(lastPairs, w.name)
			if !measured {
				var err error
				if p, err = measurePair(w, e.window); err != nil {
					return sample{}, err
				}
			}
			return uncounted(p.wrapped.cpu / p.bare.cpu), nil
		}})
	}
	return f
}

// pair is two windows, one after the other.
type pair struct{ bare, wrapped window }

type window struct{ rate, cpu float64 } // requests a second, and CPU seconds a request

var bareFirst bool

func measurePair(w wrapping, length time.Duration) (p pair, err error) {
	server, err := newLoadedServer()
	if err != nil {
		return p, err
	}
	defer server.close()
	bare := func() (err error) {
		p.bare, err = server.window(answering, length, nil)
		return err
	}
	wrapped := func() (err error) {
		var o *observed
		if w.observed {
			if o, err = observe(); err != nil {
				return err
			}
			defer o.Stop()
		}
		p.wrapped, err = server.window(w.wrap(answering), length, o)
		return err
	}
	bareFirst = !bareFirst
	if bareFirst {
		return p, errors.Join(bare(), wrapped())
	}
	return p, errors.Join(wrapped(), bare())
}

// loadedServer is a server with a client in a process of its own, which keeps it
// as busy as it can.
type loadedServer struct {
	heap     []byte
	handler  atomic.Pointer[http.Handler]
	server   http.Server
	client   *exec.Cmd
	commands io.WriteCloser
	counts   *bufio.Scanner
}

func newLoadedServer() (*loadedServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &loadedServer{heap: make([]byte, liveHeap)}
	runtime.GC() // which counts it
	s.use(answering)
	s.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.handler.Load()).ServeHTTP(w, r) })
	go s.server.Serve(listener) // until close, and returns nothing else
	if err := s.startClient(listener.Addr().String()); err != nil {
		_ = s.server.Close()
		return nil, err
	}
	return s, nil
}

func (s *loadedServer) startClient(address string) (err error) {
	if s.client, err = reexec("client", address, strconv.Itoa(connections)); err != nil {
		return err
	}
	s.client.Stderr = os.Stderr
	if s.commands, err = s.client.StdinPipe(); err != nil {
		return err
	}
	counts, err := s.client.StdoutPipe()
	if err != nil {
		return err
	}
	s.counts = bufio.NewScanner(counts)
	return s.client.Start()
}

func (s *loadedServer) use(h http.Handler) { s.handler.Store(&h) }

// window measures the server with one handler for a while.
func (s *loadedServer) window(h http.Handler, length time.Duration, o *observed) (window, error) {
	s.use(h)
	time.Sleep(length / 10) // warms up
	before, err := s.count()
	if err != nil {
		return window{}, err
	}
	cpuBefore, began := cpuTime(), time.Now()
	time.Sleep(length / 2)
	o.collectIfAny()
	time.Sleep(length - time.Since(began))
	after, err := s.count()
	requests := float64(after - before)
	return window{requests / time.Since(began).Seconds(), (cpuTime() - cpuBefore).Seconds() / requests}, err
}

// count returns how many responses the client has had.
func (s *loadedServer) count() (int64, error) {
	if _, err := io.WriteString(s.commands, "count\n"); err != nil {
		return 0, err
	}
	if !s.counts.Scan() {
		return 0, fmt.Errorf("the client says nothing: %w", errors.Join(io.ErrUnexpectedEOF, s.counts.Err()))
	}
	return strconv.ParseInt(s.counts.Text(), 10, 64)
}

func (s *loadedServer) close() {
	runtime.KeepAlive(s.heap)
	_ = s.commands.Close() // ends the client
	_ = s.client.Wait()
	_ = s.server.Close()
}

// hammer is the client: it sends requests over several connections, each as soon
// as the last is answered, and prints its count of responses for every line that
// it is sent. It speaks just enough HTTP to leave the server the larger part of
// the machine.
func hammer(address, connections string) error {
	runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2))
	n, err := strconv.Atoi(connections)
	if err != nil {
		return err
	}
	var answered atomic.Int64
	for range n {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		go ask(connection, &answered)
	}
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		fmt.Println(answered.Load())
	}
	return nil
}

// ask asks again as soon as it has a whole answer: its head, and a page behind that.
func ask(connection net.Conn, answered *atomic.Int64) {
	request := []byte("GET / HTTP/1.1\r\nHost: bench\r\n\r\n")
	response := make([]byte, 2*len(page))
	for {
		if _, err := connection.Write(request); err != nil {
			return // the server has ended
		}
		for n := 0; !isWhole(response[:n]); {
			more, err := connection.Read(response[n:])
			if err != nil {
				return
			}
			n += more
		}
		answered.Add(1)
	}
}

func isWhole(response []byte) bool {
	_, body, found := bytes.Cut(response, []byte("\r\n\r\n"))
	return found && len(body) == len(page)
}
