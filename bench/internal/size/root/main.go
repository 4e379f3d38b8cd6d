// Command root is the bare server, observed through the global provider.
package main

import (
	"context"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel"

	"github.com/gym-observer/observer"
)

func main() {
	defer observer.Start(context.Background(), "server").Stop()
	counter, err := otel.Meter("root").Int64Counter("requests")
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(http.ListenAndServe("127.0.0.1:8080", observer.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		counter.Add(r.Context(), 1)
	}))))
}
