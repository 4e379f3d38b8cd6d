// Command bare is the server that the others are compared with.
package main

import (
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel"
)

func main() {
	counter, err := otel.Meter("bare").Int64Counter("requests")
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(http.ListenAndServe("127.0.0.1:8080", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		counter.Add(r.Context(), 1)
	})))
}
