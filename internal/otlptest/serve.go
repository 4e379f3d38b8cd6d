package otlptest

import (
	"compress/gzip"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // so that the server reads it
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

type intValue = commonpb.AnyValue_IntValue

func (c *Collector) serveGRPC(listener net.Listener) (stop func()) {
	options := []grpc.ServerOption{grpc.StatsHandler(compressionReader{})}
	if c.identity != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(c.identity.server())))
	}
	server := grpc.NewServer(options...)
	collectorpb.RegisterMetricsServiceServer(server, metricsService{collector: c})
	go func() { _ = server.Serve(listener) }() // returns when stopped
	return server.Stop
}

type metricsService struct {
	collectorpb.UnimplementedMetricsServiceServer
	collector *Collector
}

func (s metricsService) Export(ctx context.Context, body *collectorpb.ExportMetricsServiceRequest) (*collectorpb.ExportMetricsServiceResponse, error) {
	request := Request{Header: make(http.Header), Body: body}
	request.Path, _ = grpc.Method(ctx)
	incoming, _ := metadata.FromIncomingContext(ctx)
	for name, values := range incoming {
		for _, value := range values {
			request.Header.Add(name, value)
		}
	}
	if compression, ok := ctx.Value(compressionKey{}).(*string); ok {
		request.Compression = *compression
	}
	if client, ok := peer.FromContext(ctx); ok {
		info, overTLS := client.AuthInfo.(credentials.TLSInfo)
		request.Certified = overTLS && len(info.State.PeerCertificates) > 0
	}
	answer := s.collector.receive(ctx, request)
	switch answer.kind {
	case refuse:
		return nil, status.Error(codes.InvalidArgument, "refused by the test")
	case unavailable:
		return nil, status.Error(codes.Unavailable, "unavailable by the test")
	case never:
		return nil, ctx.Err()
	default:
		return &collectorpb.ExportMetricsServiceResponse{PartialSuccess: answer.partial}, nil
	}
}

// compressionReader notes how a request of gRPC was compressed, which its
// handler is not told.
type compressionReader struct{}

type compressionKey struct{}

func (compressionReader) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, compressionKey{}, new(string))
}

func (compressionReader) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if header, ok := s.(*stats.InHeader); ok {
		*ctx.Value(compressionKey{}).(*string) = header.Compression
	}
}

func (compressionReader) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}

func (compressionReader) HandleConn(context.Context, stats.ConnStats) {}

func (c *Collector) serveHTTP(listener net.Listener) (stop func()) {
	server := &http.Server{
		Handler:  http.HandlerFunc(c.export),
		ErrorLog: log.New(io.Discard, "", 0), // clients that do not trust the certificate are a test's subject
	}
	serve := server.Serve
	if c.identity != nil {
		server.TLSConfig = c.identity.server()
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	go func() { _ = serve(listener) }() // returns when closed
	return func() { _ = server.Close() }
}

func (c *Collector) export(w http.ResponseWriter, r *http.Request) {
	request := Request{
		Path:        r.URL.Path,
		Header:      r.Header,
		Compression: r.Header.Get("Content-Encoding"),
		Certified:   r.TLS != nil && len(r.TLS.PeerCertificates) > 0,
		Body:        new(collectorpb.ExportMetricsServiceRequest),
	}
	body, err := readAll(r)
	if err == nil {
		err = proto.Unmarshal(body, request.Body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := c.receive(r.Context(), request)
	switch answer.kind {
	case refuse:
		http.Error(w, "refused by the test", http.StatusBadRequest)
	case unavailable:
		http.Error(w, "unavailable by the test", http.StatusServiceUnavailable)
	case never:
		panic(http.ErrAbortHandler)
	default:
		w.Header().Set("Content-Type", "application/x-protobuf")
		body, _ := proto.Marshal(&collectorpb.ExportMetricsServiceResponse{PartialSuccess: answer.partial})
		_, _ = w.Write(body) // nothing, where there is no partial success
	}
}

func readAll(r *http.Request) ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(r.Body)
	}
	unzipped, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(unzipped)
	_, _ = io.Copy(io.Discard, r.Body) // to its end, so that net/http notices a client that leaves
	return body, err
}

// StartSilent starts a listener that accepts connections and says nothing, and
// returns its host and port. It calls dialled at each connection, and stops with
// the test.
func StartSilent(t testing.TB, dialled func()) (address string) {
	t.Helper()
	listener := listen(t, "127.0.0.1:0")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			defer connection.Close()
			dialled()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return listener.Addr().String()
}

// ClosedAddress returns a host and port on which nothing listens.
func ClosedAddress(t testing.TB) string {
	t.Helper()
	listener := listen(t, "127.0.0.1:0")
	defer listener.Close()
	return listener.Addr().String()
}

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("listening on %s: %v", address, err)
	}
	return listener
}
