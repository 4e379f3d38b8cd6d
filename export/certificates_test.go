package export_test

import (
	"crypto/x509"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
	"github.com/gym-observer/observer/internal/otlptest"
)

// systemRoots stand in for the system's in this test binary, from the first
// trustedBySystem on. The standard library takes them once a process.
var (
	systemRoots    = x509.NewCertPool()
	setSystemRoots sync.Once
)

// trustedBySystem returns a collector whose certificate the system trusts.
func trustedBySystem(t *testing.T, protocol otlptest.Protocol) *otlptest.Collector {
	t.Helper()
	setSystemRoots.Do(func() {
		t.Setenv("GODEBUG", "x509usefallbackroots=1")
		x509.SetFallbackRoots(systemRoots)
	})
	collector := otlptest.StartTLS(t, protocol)
	text, err := os.ReadFile(collector.CertificateFile)
	require.NoError(t, err)
	require.True(t, systemRoots.AppendCertsFromPEM(text))
	return collector
}

func anyRequest(otlptest.Request) bool { return true }

// TestH77CertificateThatCannotBeRead exports nothing, although the system's roots
// would do: whoever names a certificate wants no other.
func TestH77CertificateThatCannotBeRead(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage.pem")
	require.NoError(t, os.WriteFile(garbage, []byte("-----BEGIN CERTIFICATE-----\nno\n"), 0o600))
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	missing := filepath.Join(t.TempDir(), "missing.pem")

	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := trustedBySystem(t, protocol)
		t.Run("the system trusts it", func(t *testing.T) {
			to(t, protocol, collector.Endpoint())
			start(t, export.FromEnv())
			collector.WaitFor(t, anyRequest)
		})
		good, key := collector.CertificateFile, collector.KeyFile
		type variables map[string]string // by what follows OTEL_EXPORTER_OTLP_
		for name, test := range map[string]struct {
			environment variables
			named       string // in the one line
		}{
			"missing":                  {variables{"CERTIFICATE": missing}, missing},
			"missing for metrics":      {variables{"METRICS_CERTIFICATE": missing}, "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE"},
			"missing beside a general": {variables{"CERTIFICATE": good, "METRICS_CERTIFICATE": missing}, "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE"},
			"garbage":                  {variables{"CERTIFICATE": garbage}, garbage},
			"empty":                    {variables{"METRICS_CERTIFICATE": empty}, empty},
			"a key alone":              {variables{"CERTIFICATE": key}, "OTEL_EXPORTER_OTLP_CERTIFICATE"},
			"a folder":                 {variables{"CERTIFICATE": os.TempDir()}, "OTEL_EXPORTER_OTLP_CERTIFICATE"},

			"client certificate without key":             {variables{"CLIENT_CERTIFICATE": good}, "OTEL_EXPORTER_OTLP_CLIENT_KEY"},
			"client certificate without key for metrics": {variables{"METRICS_CLIENT_CERTIFICATE": good}, "OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE"},
			"client key without certificate":             {variables{"CLIENT_KEY": key}, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"},
			"client key without certificate for metrics": {variables{"METRICS_CLIENT_KEY": key}, "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY"},
			"client certificate missing":                 {variables{"CLIENT_CERTIFICATE": missing, "CLIENT_KEY": key}, missing},
			"client key missing":                         {variables{"METRICS_CLIENT_CERTIFICATE": good, "METRICS_CLIENT_KEY": missing}, missing},
			"client certificate garbage":                 {variables{"CLIENT_CERTIFICATE": garbage, "CLIENT_KEY": key}, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"},
			"both":                                       {variables{"CERTIFICATE": missing, "CLIENT_KEY": key}, "OTEL_EXPORTER_OTLP_CLIENT_KEY"},
		} {
			t.Run(name, func(t *testing.T) {
				to(t, protocol, collector.Endpoint())
				for suffix, value := range maps.All(test.environment) {
					t.Setenv("OTEL_EXPORTER_OTLP_"+suffix, value)
				}
				before := collector.Attempts()
				o, journal := start(t, export.FromEnv())
				require.ErrorContains(t, o.Err(), test.named)
				assert.Len(t, journal.Lines("level=WARN", test.named), 1)
				assert.Len(t, journal.Lines(), 1)
				answers(t)
				o.Stop()
				assert.Equal(t, before, collector.Attempts(), "exports went out without what was asked for")
			})
		}
	})
}

// answers checks that the application goes on.
func answers(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(observer.Middleware(http.NotFoundHandler()))
	defer server.Close()
	response, err := http.Get(server.URL)
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, http.StatusNotFound, response.StatusCode)
}

func TestH77OtherReadersGoOn(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := trustedBySystem(t, protocol)
		to(t, protocol, collector.Endpoint())
		t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "missing.pem")
		reader := sdkmetric.NewManualReader()
		o, journal := start(t, export.FromEnv(reader))
		require.NoError(t, o.Err())
		names, _ := collect(t, reader)
		assert.Contains(t, names, observer.ProcessMemoryUsageInstrument)
		assert.Len(t, journal.Lines("level=WARN", "missing.pem"), 1)
		assert.Len(t, journal.Lines(), 1)
		o.Stop()
		assert.Zero(t, collector.Attempts())
	})
}

// TestH78CertificateBesidePlainEndpoint exports in plain text, as the endpoint
// says. What it has no use for need not even be readable.
func TestH78CertificateBesidePlainEndpoint(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		identity := otlptest.StartTLS(t, protocol)
		type variables map[string]string
		for name, environment := range map[string]variables{
			"valid":              {"CERTIFICATE": identity.CertificateFile},
			"valid for metrics":  {"METRICS_CERTIFICATE": identity.CertificateFile},
			"missing":            {"CERTIFICATE": "missing.pem"},
			"of the client":      {"CLIENT_CERTIFICATE": identity.CertificateFile, "CLIENT_KEY": identity.KeyFile},
			"all":                {"CERTIFICATE": identity.CertificateFile, "CLIENT_CERTIFICATE": identity.CertificateFile, "CLIENT_KEY": identity.KeyFile},
			"key without a pair": {"CLIENT_KEY": identity.KeyFile},
		} {
			t.Run(name, func(t *testing.T) {
				collector := otlptest.Start(t, protocol)
				to(t, protocol, collector.Endpoint())
				for suffix, value := range environment {
					t.Setenv("OTEL_EXPORTER_OTLP_"+suffix, value)
				}
				o, journal := start(t, export.FromEnv())
				require.NoError(t, o.Err())
				collector.WaitFor(t, anyRequest)
				for suffix := range environment {
					assert.Len(t, journal.Lines("level=WARN", "plain text", "OTEL_EXPORTER_OTLP_"+suffix), 1)
				}
				assert.Len(t, journal.Lines("level=WARN"), 1)
			})
		}
	})
}

// INSECURE makes a TLS endpoint a plain one in the SDK's eyes, and an endpoint
// without a scheme is one, too.
func TestH78CertificateBesideOtherPlainEndpoints(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		identity := otlptest.StartTLS(t, protocol)
		collector := otlptest.Start(t, protocol)
		for name, environment := range map[string]map[string]string{
			"insecure": {"ENDPOINT": "https://" + collector.Address(), "INSECURE": "true"},
			"bare":     {"ENDPOINT": collector.Address()},
		} {
			t.Run(name, func(t *testing.T) {
				to(t, protocol, collector.Endpoint())
				t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", identity.CertificateFile)
				for suffix, value := range environment {
					t.Setenv("OTEL_EXPORTER_OTLP_"+suffix, value)
				}
				collector.Forget()
				o, journal := start(t, export.FromEnv())
				require.NoError(t, o.Err())
				collector.WaitFor(t, anyRequest)
				assert.Len(t, journal.Lines("level=WARN", "plain text", "OTEL_EXPORTER_OTLP_CERTIFICATE"), 1)
			})
		}
	})
}
