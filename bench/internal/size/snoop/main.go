// Command snoop is the bare server, with what a middleware needs that does its own
// counting: httpsnoop for the response.
package main

import (
	"fmt"
	"net/http"

	"github.com/felixge/httpsnoop"
	"go.opentelemetry.io/otel"
)

func main() {
	counter, err := otel.Meter("snoop").Int64Counter("requests")
	if err != nil {
		fmt.Println(err)
	}
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { counter.Add(r.Context(), 1) })
	fmt.Println(http.ListenAndServe("127.0.0.1:8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpsnoop.CaptureMetrics(handler, w, r)
	})))
}
