package export

import (
	"crypto/x509"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/otlptest"
)

func TestCertificatesForMetricsComeFirst(t *testing.T) {
	otlptest.ClearEnvironment(t)
	one, two := otlptest.StartTLS(t, otlptest.HTTP), otlptest.StartTLS(t, otlptest.HTTP)
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", one.CertificateFile)
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", two.CertificateFile)
	t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "missing")
	t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", "missing")
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE", two.CertificateFile)
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY", two.KeyFile)
	config, err := tlsFromEnv()
	require.NoError(t, err)
	assert.Len(t, config.Certificates, 1)
	text, err := os.ReadFile(two.CertificateFile)
	require.NoError(t, err)
	want := x509.NewCertPool()
	want.AppendCertsFromPEM(text)
	assert.True(t, want.Equal(config.RootCAs))
}

func TestOverTLS(t *testing.T) {
	for _, test := range []struct {
		name                       string
		metrics, general, insecure string
		want                       bool
	}{
		{"nothing set", "", "", "", true},
		{"http", "", "http://a:1", "", false},
		{"upper case", "", "HTTP://a:1", "", false},
		{"https", "", "https://a:1", "", true},
		{"metrics first", "https://a:1", "http://a:1", "", true},
		{"metrics that is no URL", "http://%zz", "http://a:1", "", false},
		{"socket", "", "unix:/run/otel.sock", "", false},
		{"resolver of gRPC", "", "dns:collector:4317", "", true},
		{"insecure over the scheme", "", "https://a:1", "true", false},
		{"secure over the scheme", "", "http://a:1", "false", true},
		{"bare", "", "a:1", "", false},
		{"bare and secure", "", "a:1", "false", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			otlptest.ClearEnvironment(t)
			t.Setenv(metricsEndpoint, test.metrics)
			t.Setenv(generalEndpoint, test.general)
			t.Setenv("OTEL_EXPORTER_OTLP_INSECURE", test.insecure)
			_, endpoint := endpointWithoutScheme(otlptest.NewJournal().Logger)
			assert.Equal(t, test.want, overTLS(endpoint))
		})
	}
}
