package export

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// newHTTPClient makes the client that OTLP over HTTP exports with, for as long as
// life lasts. The SDK's own client keeps its connections, with two goroutines
// each, for 90 s after the exporter's shutdown; those of this one are closed. The
// price is to read the timeout, which the SDK applies to its own client only.
func newHTTPClient(life context.Context, certificates *tls.Config, logger *slog.Logger) *http.Client {
	return &http.Client{
		Timeout: timeoutFromEnv(logger),
		Transport: &http.Transport{ // not a clone of the default one, which the application may have wrapped
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         dialFor(life),
			TLSHandshakeTimeout: maxConnect,
			TLSClientConfig:     certificates,
			ForceAttemptHTTP2:   true,
			IdleConnTimeout:     90 * time.Second,
		},
	}
}

// dialFor returns a dialer whose connections, also those under way, end with
// life. Transport.CloseIdleConnections would leave those that are not idle yet:
// over HTTP/2, a response is complete a moment before its connection is.
func dialFor(life context.Context) func(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: maxConnect}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		dialled, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		forget := context.AfterFunc(life, func() { _ = dialled.Close() })
		return &connection{dialled, forget}, nil
	}
}

// connection is one that its dialer can close.
type connection struct {
	net.Conn
	forget func() bool // drops the dialer's reference: connections come and go with the collector
}

func (c *connection) Close() error {
	c.forget()
	return c.Conn.Close()
}

// timeoutFromEnv returns how long one request may take; 10 s is OTLP's default.
func timeoutFromEnv(logger *slog.Logger) time.Duration {
	timeout, err := forMetrics("TIMEOUT").Milliseconds(10 * time.Second)
	if err != nil {
		warn(logger, unusable, err)
	}
	return timeout
}
