//lint:file-ignore SA1019 what is deprecated is in use, and the subject

package observer_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c"

	"github.com/gym-observer/observer"
)

// unencrypted is a client that speaks HTTP/2 without TLS and without asking.
func unencrypted() *http.Client {
	return &http.Client{Transport: &http2.Transport{
		AllowHTTP: true,
		DialTLSContext: func(ctx context.Context, network, address string, _ *tls.Config) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}
}

func TestH60UnencryptedHTTP2(t *testing.T) {
	teapot := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, 2, r.ProtoMajor)
		w.WriteHeader(http.StatusTeapot)
	})
	askThrice := func(t *testing.T, address string) {
		client := unencrypted()
		defer client.CloseIdleConnections()
		for range 3 {
			response, err := client.Get(address)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, err)
			response.Body.Close()
			assert.Equal(t, http.StatusTeapot, response.StatusCode)
		}
	}

	t.Run("inside of h2c", func(t *testing.T) {
		o := observe(t)
		//lint:ignore SA1019 servers that still call it are the subject
		s := httptest.NewServer(h2c.NewHandler(observer.Middleware(teapot), new(http2.Server)))
		askThrice(t, s.URL)
		s.Close()
		assert.Equal(t, counts{Responses: statuses{418: 3}}, o.counted())
	})
	t.Run("with the server's own protocols", func(t *testing.T) {
		o := observe(t)
		s := httptest.NewUnstartedServer(observer.Middleware(teapot))
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
		askThrice(t, s.URL)
		s.Close()
		assert.Equal(t, counts{Responses: statuses{418: 3}}, o.counted())
	})
	t.Run("around h2c", func(t *testing.T) {
		o, ended := observe(t), make(chan struct{})
		//lint:ignore SA1019 servers that still call it are the subject
		around := observer.Middleware(h2c.NewHandler(teapot, new(http2.Server)))
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			around.ServeHTTP(w, r)
		}))
		defer s.Close()
		askThrice(t, s.URL)
		receive(t, ended)
		assert.Zero(t, o.counted(), "a connection that is taken over, and none of its requests")
	})
}
