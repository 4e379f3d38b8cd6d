// Package demo is what the example programs share: a small server with a slow
// model behind it, and a reading of the process's own export.
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// drainPatience is how long the requests under way may take when a server ends.
// The longest here take two seconds, but for a connection that never had a
// request net/http waits five.
const drainPatience = 10 * time.Second

// Server is an HTTP server on an address of its own.
type Server struct {
	URL  string
	http *http.Server
}

// Serve starts to serve handler on address, whose port may be 0 for a free one.
func Serve(address string, handler http.Handler) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{
		URL:  "http://" + listener.Addr().String(),
		http: &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second},
	}
	go func() { _ = s.http.Serve(listener) }() // returns at Drain
	return s, nil
}

// Drain ends the server once the requests under way are answered.
func (s *Server) Drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainPatience)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("draining %s: %w", s.URL, errors.Join(err, s.http.Close()))
	}
	return err
}

// NewTransport returns a transport that keeps as many connections as it opened.
// The default one keeps two a host, and would run out of ports under load.
func NewTransport() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 10_000}
}

// Until returns a context that ends with Ctrl-C or SIGTERM, and after duration
// unless that is 0. A signal that comes after its end ends the process.
func Until(duration time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	if duration > 0 {
		time.AfterFunc(duration, cancel)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, cancel
}

// ParseFlags reads the command line, and ends the program where that cannot be
// used: with code 2, or after -help with code 0. No value may be negative.
func ParseFlags(usage string) {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	wrong := ""
	if flag.NArg() > 0 {
		wrong = fmt.Sprintf("unexpected argument %q", flag.Arg(0))
	}
	flag.VisitAll(func(f *flag.Flag) {
		if negative(f.Value.(flag.Getter).Get()) {
			wrong = fmt.Sprintf("-%s is %v, which is less than 0", f.Name, f.Value)
		}
	})
	if wrong != "" {
		fmt.Fprintf(flag.CommandLine.Output(), "%s; -help explains\n", wrong)
		os.Exit(2)
	}
}

func negative(value any) bool {
	switch value := value.(type) {
	case int:
		return value < 0
	case time.Duration:
		return value < 0
	}
	return false
}

// WhereMetricsGo says where they are to be seen; observing is the observer's Err.
func WhereMetricsGo(observing error) string {
	if observing != nil {
		return fmt.Sprintf("Nothing observes it: %v.", observing)
	}
	return "Its metrics are in the lines below, and go where the environment says, such as\n" +
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317."
}
