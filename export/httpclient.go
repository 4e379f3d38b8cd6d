package export

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"
)

// newHTTPClient makes the client that OTLP over HTTP exports with, for as long as
// life lasts. The SDK's own client keeps its connections, with two goroutines
// each, for 90 s after the exporter's shutdown; those of this one are closed. The
// price is to read the variables that the SDK applies to its own client only: the
// certificates and the timeout.
func newHTTPClient(life context.Context, logger *slog.Logger) *http.Client {
	return &http.Client{
		Timeout: timeoutFromEnv(logger),
		Transport: &http.Transport{ // not a clone of the default one, which the application may have wrapped
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         dialFor(life),
			TLSHandshakeTimeout: maxConnect,
			TLSClientConfig:     tlsFromEnv(logger),
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

// tlsFromEnv returns the certificates to trust and to show. What cannot be read
// is left out: the connection then fails, and does not go on untrusted.
func tlsFromEnv(logger *slog.Logger) *tls.Config {
	config := new(tls.Config)
	if file := forMetrics("CERTIFICATE"); file.Set() {
		roots, err := rootsFrom(file.Text)
		if err != nil {
			warn(logger, unusable, fmt.Errorf("%s: %w", file.Name, err))
		}
		config.RootCAs = roots
	}
	certificate, key := forMetrics("CLIENT_CERTIFICATE"), forMetrics("CLIENT_KEY")
	if certificate.Set() && key.Set() {
		pair, err := tls.LoadX509KeyPair(certificate.Text, key.Text)
		if err != nil {
			warn(logger, unusable, fmt.Errorf("%s and %s: %w", certificate.Name, key.Name, err))
		} else {
			config.Certificates = []tls.Certificate{pair}
		}
	}
	return config
}

func rootsFrom(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, errors.New("no certificate in " + file)
	}
	return roots, nil
}
