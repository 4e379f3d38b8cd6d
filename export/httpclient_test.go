package export

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/otlptest"
)

func TestHTTPTimeout(t *testing.T) {
	for _, test := range []struct {
		name, metrics, general string
		want                   time.Duration
		warned                 string
	}{
		{"default", "", "", 10 * time.Second, ""},
		{"general", "", "250", 250 * time.Millisecond, ""},
		{"metrics first", "100", "250", 100 * time.Millisecond, ""},
		{"unusable", "", "5s", 10 * time.Second, "OTEL_EXPORTER_OTLP_TIMEOUT"},
		{"unusable for metrics", "0", "250", 10 * time.Second, "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT"},
	} {
		t.Run(test.name, func(t *testing.T) {
			otlptest.ClearEnvironment(t)
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", test.metrics)
			t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", test.general)
			journal := otlptest.NewJournal()
			assert.Equal(t, test.want, timeoutFromEnv(journal.Logger))
			if test.warned == "" {
				assert.Empty(t, journal.Lines())
			} else {
				assert.Len(t, journal.Lines("level=WARN", test.warned), 1)
			}
		})
	}
}

func TestConnectionsEndWithTheirDialersLife(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	life, end := context.WithCancel(t.Context())
	dial := dialFor(life)
	address := listener.Addr().String()

	ctx, cancel := context.WithCancel(t.Context())
	open, err := dial(ctx, "tcp", address)
	require.NoError(t, err)
	cancel() // the request that dialled is over; the connection is kept for the next
	_, err = open.Write([]byte("x"))
	require.NoError(t, err)

	failed := time.Now().Add(10 * time.Second) // nobody answers: without an end, reads wait until then
	require.NoError(t, open.SetReadDeadline(failed))
	end()
	_, err = open.Read(make([]byte, 1))
	assert.ErrorIs(t, err, net.ErrClosed)

	late, err := dial(t.Context(), "tcp", address)
	if err == nil { // made before the end was noticed
		_ = late.SetReadDeadline(failed)
		_, err = late.Read(make([]byte, 1))
		assert.ErrorIs(t, err, net.ErrClosed)
	}
}
