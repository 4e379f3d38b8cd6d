package export

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer/internal/otlptest"
)

func TestProtocol(t *testing.T) {
	const (
		general = "OTEL_EXPORTER_OTLP_PROTOCOL"
		metrics = "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"
	)
	for _, test := range []struct {
		name             string
		metrics, general string
		want             string
		warned           string
	}{
		{"default", "", "", "grpc", ""},
		{"general", "", "http/protobuf", "http/protobuf", ""},
		{"metrics", "http/protobuf", "", "http/protobuf", ""},
		{"metrics first", "grpc", "http/protobuf", "grpc", ""},
		{"blank metrics", " ", " HTTP/protobuf ", "http/protobuf", ""},
		{"unknown general", "", "http/json", "grpc", general},
		{"unknown metrics", "udp", "http/protobuf", "grpc", metrics},
	} {
		t.Run(test.name, func(t *testing.T) {
			otlptest.ClearEnvironment(t)
			t.Setenv(metrics, test.metrics)
			t.Setenv(general, test.general)
			journal := otlptest.NewJournal()
			assert.Equal(t, test.want, protocolFromEnv(journal.Logger))
			if test.warned == "" {
				assert.Empty(t, journal.Lines())
				return
			}
			assert.Len(t, journal.Lines(), 1)
			assert.Len(t, journal.Lines("level=WARN", test.warned, test.metrics), 1)
		})
	}
}

func TestEndpointWithoutScheme(t *testing.T) {
	for _, test := range []struct {
		name             string
		metrics, general string
		variable, want   string // empty where the SDK reads it right
	}{
		{"none", "", "", "", ""},
		{"http", "", "http://collector:4317", "", ""},
		{"https", "", "https://collector:4317/prefix", "", ""},
		{"upper case", "", "HTTP://collector:4317", "", ""},
		{"host and port", "", "collector:4317", generalEndpoint, "http://collector:4317"},
		{"white space around", "", " collector:4317\t", generalEndpoint, "http://collector:4317"},
		{"address and port", "", "127.0.0.1:4317", generalEndpoint, "http://127.0.0.1:4317"},
		{"IPv6", "", "[::1]:4317", generalEndpoint, "http://[::1]:4317"},
		{"host", "", "collector", generalEndpoint, "http://collector"},
		{"with a path", "", "collector:4318/otel/", generalEndpoint, "http://collector:4318/otel/"},
		{"slashes", "", "//collector:4317", generalEndpoint, "http://collector:4317"},
		{"metrics", "collector:4318/in", "", metricsEndpoint, "http://collector:4318/in"},
		{"metrics first", "a:1", "b:2", metricsEndpoint, "http://a:1"},
		{"metrics right, general not used", "http://a:1", "b:2", "", ""},
		{"metrics blank", " ", "b:2", generalEndpoint, "http://b:2"},
		{"socket", "", "unix:/run/otel.sock", "", ""},
		{"socket with slashes", "", "unix:///run/otel.sock", "", ""},
		{"resolver of gRPC", "", "dns:collector:4317", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			otlptest.ClearEnvironment(t)
			t.Setenv(metricsEndpoint, test.metrics)
			t.Setenv(generalEndpoint, test.general)
			journal := otlptest.NewJournal()
			variable, endpoint := endpointWithoutScheme(journal.Logger)
			assert.Equal(t, test.variable, variable)
			if test.want == "" {
				assert.Nil(t, endpoint)
				assert.Empty(t, journal.Lines())
				return
			}
			assert.Equal(t, test.want, endpoint.String())
			assert.Len(t, journal.Lines(), 1)
			assert.Len(t, journal.Lines("level=WARN", test.variable, "http://"), 1)
		})
	}
}

func TestEndpointThatIsNoURLWarnsWithoutItsPassword(t *testing.T) {
	otlptest.ClearEnvironment(t)
	t.Setenv(metricsEndpoint, "http://user:secret@host:port")
	t.Setenv(generalEndpoint, "collector:4317")
	journal := otlptest.NewJournal()
	variable, endpoint := endpointWithoutScheme(journal.Logger)
	assert.Equal(t, generalEndpoint, variable)
	assert.Equal(t, "http://collector:4317", endpoint.String())
	assert.Len(t, journal.Lines("level=WARN", metricsEndpoint), 1)
	assert.Empty(t, journal.Lines("secret"))
}

func TestInsistingOnTLSHoldsForAnEndpointWithoutScheme(t *testing.T) {
	for _, test := range []struct{ name, metrics, general, want string }{
		{"insecure", "", "true", "http://collector:4317"},
		{"secure", "", "false", "https://collector:4317"},
		{"secure for metrics", "False", "true", "https://collector:4317"},
		{"insecure for metrics", "TRUE", "false", "http://collector:4317"},
	} {
		t.Run(test.name, func(t *testing.T) {
			otlptest.ClearEnvironment(t)
			t.Setenv(generalEndpoint, "collector:4317")
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_INSECURE", test.metrics)
			t.Setenv("OTEL_EXPORTER_OTLP_INSECURE", test.general)
			_, endpoint := endpointWithoutScheme(otlptest.NewJournal().Logger)
			assert.Equal(t, test.want, endpoint.String())
		})
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for _, text := range []string{"http://collector:4317", "collector:4317", "127.0.0.1:4317/otel", "[::1]:1", "unix:/run/otel.sock", "//collector", "a%zz:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		endpoint, bare, err := parseEndpoint(text, "http")
		if err != nil || !bare {
			return
		}
		if endpoint.Scheme != "http" || endpoint.Host == "" || endpoint.Opaque != "" {
			t.Errorf("%q gave %#v, want a host under http", text, endpoint)
		}
		if strings.Contains(text, "://") && !strings.Contains(endpoint.Path, "://") {
			t.Errorf("%q has a scheme, and was given another: %v", text, endpoint)
		}
	})
}
