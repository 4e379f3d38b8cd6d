package otlptest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// identity is a certificate for the loopback address that nobody else has signed.
type identity struct {
	certificate tls.Certificate
	file        string // the certificate in PEM
	keyFile     string
}

func newIdentity(t testing.TB) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encodedKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &identity{
		certificate: tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key},
		file:        writePEM(t, "CERTIFICATE", certificate),
		keyFile:     writePEM(t, "PRIVATE KEY", encodedKey),
	}
}

// server returns what a server with this identity needs; it asks its clients for
// a certificate, and takes any or none.
func (i *identity) server() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{i.certificate}, ClientAuth: tls.RequestClientCert}
}

func writePEM(t testing.TB, kind string, content []byte) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "identity.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
