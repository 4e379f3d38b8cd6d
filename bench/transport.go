package main

import (
	"net/http"
	"net/http/httptest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer"
)

const bareTransport = "bare transport"

func transports() *family {
	type wrapping struct {
		name     string
		role     role
		observed bool
		wrap     func(http.RoundTripper) http.RoundTripper
	}
	f := &family{name: outbound, about: "One round trip through a transport that answers at once.", unit: "ns"}
	for _, w := range []wrapping{
		{bareTransport, floor, false, func(t http.RoundTripper) http.RoundTripper { return t }},
		{withObserver, ours, true, observing},
		{notRunning, ours, false, observing},
		{"promhttp: in flight", peer, false, func(t http.RoundTripper) http.RoundTripper {
			return promhttp.InstrumentRoundTripperInFlight(prometheus.NewGauge(prometheus.GaugeOpts{Name: "in_flight"}), t)
		}},
		{withOtelhttp, peer, false, func(t http.RoundTripper) http.RoundTripper {
			return otelhttp.NewTransport(t, otelhttp.WithMeterProvider(providerOf(sdkmetric.NewManualReader())))
		}},
	} {
		run := func(_ *observed, e effort) (sample, error) {
			transport := w.wrap(atOnce{&http.Response{StatusCode: http.StatusOK, Body: http.NoBody}})
			request := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
			return operation{repeat: func(n int) {
				for range n {
					_, _ = transport.RoundTrip(request)
				}
			}}.time(e), nil
		}
		f.cases = append(f.cases, &testCase{w.name, w.role, observedOrNot(w.observed, run)})
	}
	return f
}

// atOnce is a transport that answers without asking anybody.
type atOnce struct{ response *http.Response }

func (t atOnce) RoundTrip(*http.Request) (*http.Response, error) { return t.response, nil }

// observing wraps a transport, without options.
func observing(next http.RoundTripper) http.RoundTripper { return observer.Transport(next) }
