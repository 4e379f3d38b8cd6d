package export

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/gym-observer/observer/internal/env"
)

// security returns what either protocol connects with: nil for an endpoint in
// plain text, beside which certificates are of no use. The SDK's exporters would
// refuse to be made with them over HTTP, and speak TLS to a plain port over gRPC.
func security(endpoint *url.URL, logger *slog.Logger) (*tls.Config, error) {
	if overTLS(endpoint) {
		return tlsFromEnv()
	}
	if unused := certificateVariables(); len(unused) > 0 {
		warn(logger, "observer: the endpoint is in plain text, exporting without certificates",
			fmt.Errorf("%s of no use", strings.Join(unused, ", ")))
	}
	return nil, nil
}

// overTLS tells how the SDK reads the environment: what says INSECURE holds over
// the scheme. Endpoint is the one that the SDK is given in its place, or nil.
func overTLS(endpoint *url.URL) bool {
	if endpoint != nil {
		return endpoint.Scheme == "https"
	}
	if insecure := forMetrics("INSECURE"); insecure.Set() {
		return !strings.EqualFold(insecure.Text, "true")
	}
	for _, v := range []env.Value{env.Standard(metricsEndpoint), env.Standard(generalEndpoint)} {
		if read, err := url.Parse(v.Text); v.Set() && err == nil {
			scheme := strings.ToLower(read.Scheme)
			return scheme != "http" && scheme != "unix" && scheme != "unix-abstract"
		}
	}
	return true
}

// certificateVariables returns the names of those that are set.
func certificateVariables() (set []string) {
	for _, suffix := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
		if v := forMetrics(suffix); v.Set() {
			set = append(set, v.Name)
		}
	}
	return set
}

// tlsFromEnv returns the certificates to trust and to show. One that cannot be
// used is an error. To go on without it, as the SDK does, would trust the
// system's roots where somebody asked for one authority alone, or hide from a
// collector who it is that sends.
func tlsFromEnv() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	var failed []error
	if file := forMetrics("CERTIFICATE"); file.Set() {
		roots, err := rootsFrom(file.Text)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", file.Name, err))
		}
		config.RootCAs = roots
	}
	certificate, key := forMetrics("CLIENT_CERTIFICATE"), forMetrics("CLIENT_KEY")
	switch {
	case certificate.Set() && key.Set():
		pair, err := tls.LoadX509KeyPair(certificate.Text, key.Text)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s and %s: %w", certificate.Name, key.Name, err))
		}
		config.Certificates = []tls.Certificate{pair}
	case certificate.Set():
		failed = append(failed, fmt.Errorf("%s is set without %s", certificate.Name, key.Name))
	case key.Set():
		failed = append(failed, fmt.Errorf("%s is set without %s", key.Name, certificate.Name))
	}
	if len(failed) > 0 {
		return nil, errors.Join(failed...)
	}
	return config, nil
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
