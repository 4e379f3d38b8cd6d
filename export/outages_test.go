package export_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
	"github.com/gym-observer/observer/internal/otlptest"
)

// stopInTime stops and checks the promise.
func stopInTime(t *testing.T, o *observer.Observer) {
	t.Helper()
	began := time.Now()
	o.Stop()
	assert.Less(t, time.Since(began), stopLimit)
}

func TestCollectorRefusesConnections(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		to(t, protocol, "http://"+otlptest.ClosedAddress(t))
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
		o, journal := start(t, export.FromEnv())
		require.NoError(t, o.Err())
		journal.WaitFor(t, "level=WARN", "an export failed")
		stopInTime(t, o)
		assert.Len(t, journal.Lines("an export failed"), 1)
	})
}

func TestCollectorNeverSpeaks(t *testing.T) {
	for _, test := range []struct {
		protocol otlptest.Protocol
		scheme   string
	}{{otlptest.GRPC, "http://"}, {otlptest.HTTP, "http://"}, {otlptest.HTTP, "https://"}} {
		t.Run(string(test.protocol)+" over "+test.scheme, func(t *testing.T) {
			dialled := make(chan struct{}, 1000)
			to(t, test.protocol, test.scheme+otlptest.StartSilent(t, func() { dialled <- struct{}{} }))
			o, _ := start(t, export.FromEnv())
			<-dialled
			stopInTime(t, o)
		})
	}
}

func TestCollectorNeverAnswers(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		collector.Answer(otlptest.Never)
		to(t, protocol, collector.Endpoint())
		o, journal := start(t, export.FromEnv())
		collector.WaitForAttempts(t, 1)
		stopInTime(t, o)
		assert.LessOrEqual(t, len(journal.Lines("an export failed")), 1)
	})
}

func TestCollectorNeverAnswersOverHTTP2(t *testing.T) {
	collector := otlptest.StartTLS(t, otlptest.HTTP)
	collector.Answer(otlptest.Never)
	to(t, otlptest.HTTP, collector.Endpoint())
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", collector.CertificateFile)
	o, _ := start(t, export.FromEnv())
	collector.WaitForAttempts(t, 1)
	stopInTime(t, o)
}

func TestCollectorThatAnswersTooLateIsAnOutage(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		collector.Answer(otlptest.Never)
		to(t, protocol, collector.Endpoint())
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100")
		t.Setenv("OTEL_METRIC_EXPORT_TIMEOUT", "300")
		_, journal := start(t, export.FromEnv())
		journal.WaitFor(t, "level=WARN", "an export failed")
		collector.Answer(otlptest.Accept)
		journal.WaitFor(t, "level=INFO", "exports work again")
		assert.Len(t, journal.Lines("an export failed"), 1)
	})
}

func TestExportIsGivenUpAfterOTLPsTimeout(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		collector.Answer(otlptest.Never)
		to(t, protocol, collector.Endpoint())
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100")
		start(t, export.FromEnv())
		collector.WaitForAttempts(t, 2) // the reader would leave the first one 30 s
		collector.Answer(otlptest.Accept)
		collector.WaitForMetric(t, "go.schedule.duration")
	})
}

func TestCollectorAnswersSlowly(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		collector.Answer(otlptest.AcceptAfter(time.Second))
		to(t, protocol, collector.Endpoint())
		t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "3600000")
		o, journal := start(t, export.FromEnv())
		before := countedBefore(226)
		observer.Requests().CountResponse(226)
		stopInTime(t, o)
		require.NotEmpty(t, collector.Requests())
		assert.Equal(t, before+1, responses(collector.Requests()[0], 226), "the flush had the time")
		assert.Empty(t, journal.Lines("an export failed"))
	})
}

func TestCollectorAnswersWithErrors(t *testing.T) {
	for _, answer := range []struct {
		name string
		with otlptest.Answer
	}{{"not to be tried again", otlptest.Refuse}, {"to be tried again", otlptest.Unavailable}} {
		t.Run(answer.name, func(t *testing.T) {
			overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
				collector := otlptest.Start(t, protocol)
				collector.Answer(answer.with)
				to(t, protocol, collector.Endpoint())
				t.Setenv("OTEL_METRIC_EXPORT_TIMEOUT", "300")
				o, journal := start(t, export.FromEnv())
				collector.WaitForAttempts(t, 2)
				journal.WaitFor(t, "level=WARN", "an export failed", "by the test")
				assert.Len(t, journal.Lines("an export failed"), 1)
				stopInTime(t, o)
			})
		})
	}
}

func TestCollectorDiesAndComesBack(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		to(t, protocol, collector.Endpoint())
		t.Setenv("OTEL_METRIC_EXPORT_TIMEOUT", "500")
		o, journal := start(t, export.FromEnv())
		before := countedBefore(208)
		observer.Requests().CountResponse(208)
		collector.WaitFor(t, func(r otlptest.Request) bool { return responses(r, 208) == before+1 })

		collector.Stop()
		observer.Requests().CountResponse(208)
		journal.WaitFor(t, "level=WARN", "an export failed")
		observer.Requests().CountResponse(208)

		collector.Restart(t)
		collector.WaitFor(t, func(r otlptest.Request) bool { return responses(r, 208) == before+3 })
		journal.WaitFor(t, "level=INFO", "exports work again")
		assert.Len(t, journal.Lines("an export failed"), 1)
		stopInTime(t, o)
	})
}

func TestCollectorBackJustBeforeStopHasTheLastTotals(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		collector.Answer(otlptest.Unavailable)
		to(t, protocol, collector.Endpoint())
		o, _ := start(t, export.FromEnv())
		before := countedBefore(208)
		observer.Requests().CountResponse(208)
		collector.WaitForAttempts(t, 1)
		collector.Answer(otlptest.Accept)
		stopInTime(t, o)
		requests := collector.Requests()
		require.NotEmpty(t, requests)
		last := int64(0)
		for _, request := range requests {
			last = max(last, responses(request, 208))
		}
		assert.Equal(t, before+1, last)
	})
}

// TestH79RemarkIsNoOutage: a collector may accept all of an export and have
// something to say about it.
func TestH79RemarkIsNoOutage(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		collector.Answer(otlptest.AcceptWith(0, "the clock of this node is 3 s late"))
		to(t, protocol, collector.Endpoint())
		o, journal := start(t, export.FromEnv())
		require.NoError(t, o.Err())
		journal.WaitFor(t, "level=WARN", "remark", "3 s late")
		collector.WaitForAttempts(t, collector.Attempts()+2)
		collector.Answer(otlptest.AcceptWith(0, "and another one"))
		journal.WaitFor(t, "level=WARN", "remark", "another one")
		stopInTime(t, o)
		assert.Len(t, journal.Lines("3 s late"), 1)
		assert.Len(t, journal.Lines("another one"), 1)
		assert.Len(t, journal.Lines(), 2, "no line about an outage or its end")
	})
}

func TestH79RejectedPointsAreAnOutage(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		collector.Answer(otlptest.AcceptWith(3, "too old"))
		to(t, protocol, collector.Endpoint())
		o, journal := start(t, export.FromEnv())
		require.NoError(t, o.Err())
		journal.WaitFor(t, "level=WARN", "an export failed", "too old", "3 ")
		collector.WaitForAttempts(t, collector.Attempts()+2)
		assert.Len(t, journal.Lines(), 1)
		collector.Answer(otlptest.Accept)
		journal.WaitFor(t, "level=INFO", "exports work again")
		assert.Len(t, journal.Lines("an export failed"), 1)
	})
}

// A collector that rejects nothing and says nothing has accepted the export.
func TestH79EmptyPartialSuccessIsSilent(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol otlptest.Protocol) {
		collector := otlptest.Start(t, protocol)
		collector.Answer(otlptest.AcceptWith(0, ""))
		to(t, protocol, collector.Endpoint())
		o, journal := start(t, export.FromEnv())
		collector.WaitForAttempts(t, 2)
		stopInTime(t, o)
		assert.Empty(t, journal.Lines())
	})
}
