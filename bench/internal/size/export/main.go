// Command export is the bare server, observed through a provider of its own.
package main

import (
	"context"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
)

func main() {
	defer observer.Start(context.Background(), "server", export.FromEnv()).Stop()
	counter, err := otel.Meter("export").Int64Counter("requests")
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(http.ListenAndServe("127.0.0.1:8080", observer.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		counter.Add(r.Context(), 1)
	}))))
}
