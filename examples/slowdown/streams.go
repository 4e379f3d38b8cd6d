package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/gym-observer/observer"
)

// Requests that take seconds by design, and what a server does with them: none of
// these waits is anything to mend. Each has a server of its own beside the one that
// is asked now and then.

// streamingClients are more than the 8 from which on requests that wait are a verdict.
const streamingClients = 32

// eventInterval is how often something happens that a stream tells of.
const eventInterval = 250 * time.Millisecond

// letStream serves what clients each ask for again and again until ctx ends.
func letStream(ctx context.Context, client *http.Client, serve http.HandlerFunc, ask func(client *http.Client, url string)) error {
	server := httptest.NewUnstartedServer(observer.Middleware(serve))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	client.Timeout = 0
	defer context.AfterFunc(ctx, server.CloseClientConnections)()
	defer client.CloseIdleConnections()
	together(ctx, streamingClients, func() { ask(client, server.URL) })
	return nil
}

// serverSentEvents tells each client of events, which come to it through a channel.
func serverSentEvents(ctx context.Context, _ *server) error {
	topic := newTopic()
	defer topic.publishEvery(ctx, eventInterval)()
	return letStream(ctx, newClient(), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		stream := http.NewResponseController(w)
		_ = stream.Flush() // the client learns that it is connected
		events, leave := topic.join()
		defer leave()
		for event := range events {
			if _, err := fmt.Fprintf(w, "data: %d\n\n", event); err != nil || stream.Flush() != nil || r.Context().Err() != nil {
				return
			}
		}
	}, func(client *http.Client, url string) { _ = get(ctx, client, url) })
}

// topic hands each event to all who have joined.
type topic struct {
	mu   sync.Mutex
	ways map[chan int]struct{} // nil once it is over
}

func newTopic() *topic { return &topic{ways: make(map[chan int]struct{})} }

// join returns the events from now on; leave ends them. They also end with the topic.
func (t *topic) join() (events <-chan int, leave func()) {
	way := make(chan int, 16)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ways == nil {
		close(way)
		return way, func() {}
	}
	t.ways[way] = struct{}{}
	return way, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.ways, way)
	}
}

// publishEvery hands out an event at each interval until ctx ends; wait returns then.
func (t *topic) publishEvery(ctx context.Context, interval time.Duration) (wait func()) {
	var publisher sync.WaitGroup
	publisher.Go(func() {
		for event := 0; sleep(ctx, interval) == nil; event++ {
			t.mu.Lock()
			for way := range t.ways {
				select {
				case way <- event:
				default: // who reads too slowly misses some
				}
			}
			t.mu.Unlock()
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		for way := range t.ways {
			close(way)
		}
		t.ways = nil
	})
	return publisher.Wait
}

// webSockets keeps connections that were taken over from HTTP, as WebSocket libraries
// do. A goroutine of the handler waits for the client's next word.
func webSockets(ctx context.Context, _ *server) error {
	return letStream(ctx, newClient(), func(w http.ResponseWriter, _ *http.Request) {
		connection, words, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer connection.Close()
		fmt.Fprint(words, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		for words.Flush() == nil {
			line, err := words.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Fprint(words, line)
		}
	}, func(_ *http.Client, address string) {
		_ = talk(ctx, address)
	})
}

// talk says a word now and then over a connection that it has upgraded.
func talk(ctx context.Context, address string) error {
	server, err := url.Parse(address)
	if err != nil {
		return err
	}
	connection, err := net.Dial("tcp", server.Host)
	if err != nil {
		return err
	}
	defer connection.Close()
	fmt.Fprintf(connection, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", server.Host)
	answers := bufio.NewReader(connection)
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		return err
	}
	response.Body.Close()
	for sleep(ctx, eventInterval) == nil {
		if _, err := fmt.Fprintln(connection, "word"); err != nil {
			return err
		}
		if _, err := answers.ReadString('\n'); err != nil {
			return err
		}
	}
	return nil
}

// streamBothWays keeps streams over one HTTP/2 connection, in which client and server
// talk in turn, as a streaming call of gRPC does.
func streamBothWays(ctx context.Context, _ *server) error {
	client := &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols)}}
	client.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
	return letStream(ctx, client, func(w http.ResponseWriter, r *http.Request) {
		stream := http.NewResponseController(w)
		_ = stream.Flush()
		for words := bufio.NewReader(r.Body); ; {
			line, err := words.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Fprint(w, line)
			_ = stream.Flush()
		}
	}, func(client *http.Client, url string) {
		said, words := io.Pipe()
		defer said.Close()
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, said)
		if err != nil {
			return
		}
		response, err := client.Do(request)
		if err != nil {
			return
		}
		defer response.Body.Close()
		defer words.Close()
		for answers := bufio.NewReader(response.Body); sleep(ctx, eventInterval) == nil; {
			if _, err := fmt.Fprintln(words, "word"); err != nil {
				return
			}
			if _, err := answers.ReadString('\n'); err != nil {
				return
			}
		}
	})
}

// passTokensOn is a proxy in front of a model, whose answers come word by word.
func passTokensOn(ctx context.Context, _ *server) error {
	const tokens, each = 60, 50 * time.Millisecond
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for n := 0; n < tokens && sleep(r.Context(), each) == nil; n++ {
			fmt.Fprintln(w, "token")
			_ = http.NewResponseController(w).Flush()
		}
	}))
	defer model.Close()
	address, err := url.Parse(model.URL)
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(address) },
		Transport: observer.Transport(newClient().Transport),
		// Who leaves while tokens come is no news.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {},
	}
	return letStream(ctx, newClient(), proxy.ServeHTTP, func(client *http.Client, url string) { _ = get(ctx, client, url) })
}

const (
	fileSize  = 64 * megabyte // more than the connection's buffers hold
	chunkSize = 64 << 10
	chunkTime = 50 * time.Millisecond // a client of some 10 Mbit/s
)

// sendFile sends a file to clients with slow lines.
func sendFile(ctx context.Context, _ *server) error {
	file, err := os.CreateTemp("", "slowdown")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if err := file.Truncate(fileSize); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return letStream(ctx, newClient(), func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file.Name()) },
		func(client *http.Client, url string) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return
			}
			response, err := client.Do(request)
			if err != nil {
				return
			}
			defer response.Body.Close()
			for err == nil && sleep(ctx, chunkTime) == nil {
				_, err = io.CopyN(io.Discard, response.Body, chunkSize)
			}
		})
}

// takeUploads reads what clients with slow lines send.
func takeUploads(ctx context.Context, _ *server) error {
	return letStream(ctx, newClient(), func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			w.WriteHeader(http.StatusNoContent)
		}
	}, func(client *http.Client, url string) {
		body := io.LimitReader(&slowLine{ctx: ctx, reader: zeros{}}, 100*chunkSize)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
		if err != nil {
			return
		}
		if response, err := client.Do(request); err == nil {
			response.Body.Close()
		}
	})
}

// slowLine gives one chunk at a time.
type slowLine struct {
	ctx    context.Context
	reader io.Reader
}

func (s *slowLine) Read(p []byte) (int, error) {
	if err := sleep(s.ctx, chunkTime); err != nil {
		return 0, err
	}
	return s.reader.Read(p[:min(len(p), chunkSize)])
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// workBatches has four requests at a time that each wait for sixteen pieces of work,
// which they do eight at a time.
func workBatches(ctx context.Context, s *server) error {
	return letWaitFor(ctx, s, 4, func(ctx context.Context) {
		slots := make(chan struct{}, 8)
		var pieces sync.WaitGroup
		for range 16 {
			pieces.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				_ = sleep(ctx, 2*slotTime)
			})
		}
		pieces.Wait()
	})
}

// useHalfAPool has requests that arrive at random and hand their work to sixteen
// workers, half of which have something to do.
func useHalfAPool(ctx context.Context, s *server) error {
	const workers, each = 16, 40 * time.Millisecond
	type job struct{ done chan struct{} }
	jobs := make(chan job)
	var pool sync.WaitGroup
	defer pool.Wait()
	defer close(jobs)
	for range workers {
		pool.Go(func() {
			for j := range jobs {
				time.Sleep(each)
				close(j.done)
			}
		})
	}
	wait := func(context.Context) {
		j := job{make(chan struct{})}
		jobs <- j
		<-j.done
	}
	s.wait.Store(&wait)
	defer s.wait.Store(nil)
	arriveAtRandom(ctx, each*2/workers, func() { _ = get(ctx, s.client, s.url+"/wait") })
	return nil
}
