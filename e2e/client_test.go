package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/e2e/internal/backend"
)

// client asks a server, and counts the answers for itself.
type client struct {
	url  string
	http *http.Client

	mu        sync.Mutex
	responses values // by status
}

// newClient returns a client of examples/server. It has a connection for each
// request, because on one that it has used before net/http asks again, unseen,
// where the server hangs up.
func newClient(t *testing.T, server *backend.Process) *client {
	t.Helper()
	url := server.WaitForOutput(t, `Serving (http://\S+) `)[1]
	return &client{
		url:       url,
		http:      &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: backend.Patience},
		responses: make(values),
	}
}

// get asks for a path, reads the answer and counts it.
func (c *client) get(t *testing.T, path string) {
	response, err := c.http.Get(c.url + path)
	if err != nil {
		t.Errorf("asking for %s: %v", path, err)
		return
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	if err != nil {
		t.Errorf("reading %s: %v", path, err)
	}
	c.count(response)
}

// getRollouts asks for n of them, a few at a time.
func (c *client) getRollouts(t *testing.T, n int) {
	const atATime = 8
	var clients sync.WaitGroup
	for first := range atATime {
		clients.Go(func() {
			for id := first; id < n; id += atATime {
				c.get(t, fmt.Sprintf("/rollouts/%d", 1+id))
			}
		})
	}
	clients.Wait()
}

// crash asks for what makes the handler panic, so that there is no answer.
func (c *client) crash(t *testing.T) {
	t.Helper()
	response, err := c.http.Get(c.url + "/crash")
	if err == nil {
		response.Body.Close()
	}
	require.ErrorIs(t, err, io.EOF, "asking for a crash")
}

// hangUpBefore leaves as soon as it has asked, long before the answer.
func (c *client) hangUpBefore(t *testing.T, path string) {
	t.Helper()
	ctx, hangUp := context.WithCancel(context.Background())
	defer hangUp()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { hangUp() },
	})
	request, err := http.NewRequestWithContext(traced, http.MethodGet, c.url+path, nil)
	require.NoError(t, err)
	response, err := c.http.Do(request)
	if err == nil {
		response.Body.Close()
	}
	require.ErrorIs(t, err, context.Canceled, "hanging up on %s", path)
}

// hangUpWithin leaves after the first line of an answer.
func (c *client) hangUpWithin(t *testing.T, path string) {
	t.Helper()
	response, err := c.http.Get(c.url + path)
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = bufio.NewReader(response.Body).ReadString('\n')
	require.NoError(t, err, "the first line of %s", path)
	c.count(response)
}

// keepInFlight keeps n requests for a slow path in flight until stop is called,
// which waits for their answers.
func (c *client) keepInFlight(t *testing.T, n int, path string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for range n {
		clients.Go(func() {
			for ctx.Err() == nil {
				c.get(t, path)
			}
		})
	}
	stop = func() {
		cancel()
		clients.Wait()
	}
	t.Cleanup(stop) // for a test that fails before it calls it
	return stop
}

func (c *client) count(response *http.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.responses[strconv.Itoa(response.StatusCode)]++
}

// counted returns the responses so far by status.
func (c *client) counted() values {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.responses)
}
