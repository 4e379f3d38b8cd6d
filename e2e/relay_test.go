package e2e_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// relay stands between senders and a collector, and counts what the senders
// send.
type relay struct {
	address string
	sent    atomic.Int64 // bytes
}

// startRelay starts a relay to an address. It stops with the test.
func startRelay(t *testing.T, target string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{address: listener.Addr().String()}
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			sender, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { r.pass(sender, target) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		connections.Wait() // the senders have ended: their clean-up comes before this one
	})
	return r
}

// pass passes on what comes from either side, until one of them ends.
func (r *relay) pass(sender net.Conn, target string) {
	defer sender.Close()
	collector, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer collector.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(sender, collector)
		_ = sender.Close()
	})
	_, _ = io.Copy(countingWriter{collector, &r.sent}, sender)
	_ = collector.Close()
	back.Wait()
}

type countingWriter struct {
	io.Writer
	written *atomic.Int64
}

func (w countingWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.written.Add(int64(n))
	return n, err
}
