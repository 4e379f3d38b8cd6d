package page

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// queries are of everything that is served.
var queries = []string{"", "?format=json", "?format=events", "?capture=20261129T140000.000000Z-gc-1/goroutines.txt"}

func TestH75ANameBoundToLoopback(t *testing.T) {
	h := handlerOf(Snapshot{Summary: "secret", Captures: evidenceOf(t)})
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("no %s here: %v", address, err)
			continue
		}
		server := httptest.NewUnstartedServer(h.Serving("Ops.example.com", "other.example.com:8443"))
		server.Listener.Close()
		server.Listener = listener
		server.Start()
		defer server.Close()
		_, port, err := net.SplitHostPort(listener.Addr().String())
		require.NoError(t, err)
		for host, status := range map[string]int{
			"evil.example.com":           http.StatusForbidden,
			"evil.example.com:" + port:   http.StatusForbidden,
			"EVIL.example.com.":          http.StatusForbidden,
			"localhost.evil.example.com": http.StatusForbidden,
			"127.0.0.1.evil.example.com": http.StatusForbidden,
			"ops.example.com.evil.com":   http.StatusForbidden,
			"xops.example.com":           http.StatusForbidden,
			"localhost":                  http.StatusOK,
			"LOCALHOST:" + port:          http.StatusOK,
			"localhost.":                 http.StatusOK,
			"127.0.0.1":                  http.StatusOK,
			"127.0.0.1:" + port:          http.StatusOK,
			"192.0.2.7":                  http.StatusOK,
			"[::1]":                      http.StatusOK,
			"[::1]:" + port:              http.StatusOK,
			"ops.example.com":            http.StatusOK,
			"OPS.EXAMPLE.COM.:" + port:   http.StatusOK,
			"other.example.com":          http.StatusOK,
		} {
			for _, query := range queries {
				for _, method := range []string{http.MethodGet, http.MethodHead} {
					request, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/debug/observer"+query, nil)
					require.NoError(t, err)
					request.Host = host
					answer, err := server.Client().Do(request)
					require.NoError(t, err)
					body, err := io.ReadAll(answer.Body)
					require.NoError(t, err)
					require.NoError(t, answer.Body.Close())
					assert.Equal(t, status, answer.StatusCode, "%s %s %q", method, host, query)
					if status == http.StatusForbidden {
						assert.NotContains(t, string(body), "secret")
						assert.NotContains(t, string(body), "goroutines")
					}
				}
			}
		}
	}
}

func TestH75NoOtherNameIsServedWithoutTheOption(t *testing.T) {
	server := httptest.NewServer(handlerOf(Snapshot{}))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	request.Host = "ops.example.com"
	request.Header.Set("X-Forwarded-Host", "localhost")
	answer, err := server.Client().Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	assert.Equal(t, http.StatusForbidden, answer.StatusCode)
}

func TestH75OnOtherAddressesAllHostsAreServed(t *testing.T) {
	for name, local := range map[string]net.Addr{
		"an address of the network": &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 6060},
		"IPv6":                      &net.TCPAddr{IP: net.ParseIP("2001:db8::7"), Port: 6060},
		"a Unix socket":             &net.UnixAddr{Name: "/run/page", Net: "unix"},
		"not known":                 nil,
	} {
		request := httptest.NewRequest(http.MethodGet, "/?format=json", nil)
		request.Host = "evil.example.com"
		if local != nil {
			request = request.WithContext(context.WithValue(request.Context(), http.LocalAddrContextKey, local))
		}
		answer := httptest.NewRecorder()
		handlerOf(Snapshot{}).ServeHTTP(answer, request)
		assert.Equal(t, http.StatusOK, answer.Code, name)
	}
	// An IPv4 address as a socket of both kinds has it.
	mapped := &net.TCPAddr{IP: net.ParseIP("::ffff:127.0.0.1"), Port: 6060}
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request = request.WithContext(context.WithValue(request.Context(), http.LocalAddrContextKey, mapped))
	answer := httptest.NewRecorder()
	handlerOf(Snapshot{}).ServeHTTP(answer, request)
	assert.Equal(t, http.StatusForbidden, answer.Code, "loopback, whatever the socket")
}
