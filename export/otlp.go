package export

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gym-observer/observer/internal/env"
)

// The variables of the endpoint. The one for metrics comes first.
const (
	generalEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	metricsEndpoint = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
)

// The SDK's exporters wait 5 s before they try an export again, for up to a
// minute. A Stop could not get its last totals past an export that sleeps so
// long, although the collector is back; and a later export carries the totals
// of all before it.
const (
	firstRetry = time.Second
	maxRetry   = 2 * time.Second
	retryFor   = 4 * time.Second
)

const (
	// maxReconnect bounds gRPC's wait before it connects again, by itself two
	// minutes: after a long outage, exports resume within one interval.
	maxReconnect = 10 * time.Second

	// maxConnect is how long a connection may take, over either protocol. An
	// export has 10 s by default.
	maxConnect = 10 * time.Second
)

// newOTLPExporter makes the exporter that the environment's protocol names,
// which reads the rest of OTEL_EXPORTER_OTLP_* by itself, but for the
// certificates: one that cannot be read is nothing to it. It dials at the first
// export. Release frees what the exporter's Shutdown leaves behind.
func newOTLPExporter(ctx context.Context, logger *slog.Logger) (_ sdkmetric.Exporter, release func(), err error) {
	variable, endpoint := endpointWithoutScheme(logger)
	certificates, err := security(endpoint, logger)
	if err != nil {
		return nil, nil, err
	}
	if protocolFromEnv(logger) == "http/protobuf" {
		life, release := context.WithCancel(context.Background())
		options := []otlpmetrichttp.Option{
			otlpmetrichttp.WithHTTPClient(newHTTPClient(life, certificates, logger)),
			otlpmetrichttp.WithTLSClientConfig(nil), // the client has it; the SDK refuses one beside http://
			otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: maxRetry, MaxElapsedTime: retryFor}),
		}
		if endpoint != nil {
			if variable == generalEndpoint {
				endpoint = endpoint.JoinPath("v1", "metrics") // the one for metrics is used as it stands
			}
			options = append(options, otlpmetrichttp.WithEndpointURL(endpoint.String()))
		}
		exporter, err := otlpmetrichttp.New(ctx, options...)
		return exporter, release, err
	}

	reconnect := backoff.DefaultConfig
	reconnect.MaxDelay = maxReconnect
	credential := insecure.NewCredentials()
	if certificates != nil {
		credential = credentials.NewTLS(certificates)
	}
	options := []otlpmetricgrpc.Option{
		otlpmetricgrpc.WithTLSCredentials(credential),
		otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: maxRetry, MaxElapsedTime: retryFor}),
		otlpmetricgrpc.WithDialOption(grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: maxConnect})),
	}
	if endpoint != nil {
		options = append(options, otlpmetricgrpc.WithEndpointURL(endpoint.String()))
	}
	exporter, err := otlpmetricgrpc.New(ctx, options...)
	return exporter, func() {}, err
}

// protocolFromEnv returns grpc or http/protobuf.
func protocolFromEnv(logger *slog.Logger) string {
	protocol := forMetrics("PROTOCOL")
	switch name := strings.ToLower(protocol.Text); name {
	case "grpc", "http/protobuf":
		return name
	case "":
	default:
		warn(logger, unusable, fmt.Errorf("%s is %.100q, want grpc or http/protobuf", protocol.Name, protocol.Text))
	}
	return "grpc"
}

// endpointWithoutScheme returns the endpoint that the SDK would misread, with a
// scheme, and the variable that it comes from; nil where the SDK reads it right.
// Left alone, the SDK takes the host in host:port for a scheme, and refuses
// 127.0.0.1:4317 for the colon.
func endpointWithoutScheme(logger *slog.Logger) (variable string, endpoint *url.URL) {
	for _, v := range []env.Value{env.Standard(metricsEndpoint), env.Standard(generalEndpoint)} {
		if !v.Set() {
			continue
		}
		assumed := assumedScheme()
		endpoint, bare, err := parseEndpoint(v.Text, assumed)
		switch {
		case err != nil: // the SDK goes on to the next one, too
			warn(logger, unusable, fmt.Errorf("%s is not a URL", v.Name)) // and may hold a password
		case !bare:
			return "", nil
		default:
			warn(logger, "observer: an endpoint has no scheme, reading it as "+assumed+"://", fmt.Errorf("%s has no scheme", v.Name))
			return v.Name, endpoint
		}
	}
	return "", nil
}

// withoutScheme matches a host with an optional port and path. It does not match
// the targets of gRPC that have a scheme without slashes, such as unix:/socket.
var withoutScheme = regexp.MustCompile(`^(//)?(\[[^]/]+\]|[^]:/[?#@]+)(:[0-9]+)?(/.*)?$`)

// parseEndpoint reads an endpoint, with the assumed scheme where it is bare of one.
func parseEndpoint(text, assumed string) (endpoint *url.URL, bare bool, err error) {
	bare = withoutScheme.MatchString(text)
	if bare {
		text = assumed + "://" + strings.TrimPrefix(text, "//")
	}
	endpoint, err = url.Parse(text)
	return endpoint, bare, err
}

// assumedScheme is http, unless the environment insists on TLS as the SDK reads it.
func assumedScheme() string {
	if insecure := forMetrics("INSECURE"); insecure.Set() && !strings.EqualFold(insecure.Text, "true") {
		return "https"
	}
	return "http"
}

// forMetrics returns the variable of OTLP for metrics, or the one for all signals.
func forMetrics(suffix string) env.Value {
	if v := env.Standard("OTEL_EXPORTER_OTLP_METRICS_" + suffix); v.Set() {
		return v
	}
	return env.Standard("OTEL_EXPORTER_OTLP_" + suffix)
}
