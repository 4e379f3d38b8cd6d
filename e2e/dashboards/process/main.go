// Command process is a server and a rollout driver in one, which exports through
// OpenTelemetry's Prometheus exporter. A little of everything that the observer
// measures happens in it, all the time.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
)

func main() {
	strategy := flag.String("strategy", string(otlptranslator.UnderscoreEscapingWithSuffixes), "how names are translated")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, otlptranslator.TranslationStrategyOption(*strategy)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, strategy otlptranslator.TranslationStrategyOption) error {
	reader, err := exporter.New(exporter.WithTranslationStrategy(strategy))
	if err != nil {
		return err
	}
	observing := observer.Start(ctx, "process", export.WithReader(reader), observer.WithTaskCount(true),
		observer.WithWindow(time.Second))
	defer observing.Stop()
	if err := observing.Err(); err != nil {
		return err
	}
	scraped, err := serve(promhttp.Handler())
	if err != nil {
		return err
	}
	model, err := serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(5 * time.Millisecond) }))
	if err != nil {
		return err
	}
	server, err := serve(observer.Middleware(handler("http://" + model)))
	if err != nil {
		return err
	}
	go visit(ctx, "http://"+server)
	go drive(ctx)
	go collect(ctx)
	fmt.Printf("scrape http://%s/metrics\n", scraped)
	<-ctx.Done()
	return nil
}

// serve serves on a free port of the loopback, until the process ends.
func serve(handler http.Handler) (address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	quiet := log.New(io.Discard, "", 0) // of the panics, which it is asked for
	go func() { _ = (&http.Server{Handler: handler, ErrorLog: quiet}).Serve(listener) }()
	return listener.Addr().String(), nil
}
