// Command grpc is a gRPC server that is observed, and a client that asks it.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
)

const usage = `A gRPC server that is observed. It serves gRPC's health service.

  NEMO_GYM_OTEL_EXPORTER=console OTEL_METRIC_EXPORT_INTERVAL=2000 go run .
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 go run .
  go run . -check 127.0.0.1:9090             # in another terminal: one call
  go run . -check 127.0.0.1:9090 -watch 1s   # a stream that is given up after 1 s

Interceptors in observe.go count the calls as a server of net/http counts its
requests: in flight, responses under the HTTP status that stands for the code,
panics, and cancelled calls under their method.

The exit status is 0 after Ctrl-C or an answer, 1 if something failed, 2 for wrong
usage.

`

func main() { os.Exit(run()) }

func run() int {
	address := flag.String("address", "127.0.0.1:9090", "where to listen; port 0 takes a free one")
	server := flag.String("check", "", "serve nothing, but ask the server at this `address` for its health")
	patience := flag.Duration("watch", 0, "with -check, ask for a stream, and give it up after this long")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 || *patience < 0 {
		fmt.Fprintf(os.Stderr, "grpc: unexpected argument %q, or -watch below 0; -help explains\n", flag.Arg(0))
		return 2
	}
	if *server != "" {
		if err := check(*server, *patience); err != nil {
			return fail(err)
		}
		return 0
	}

	observing := observer.Start(context.Background(), "server", export.FromEnv())
	defer observing.Stop()

	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return fail(err)
	}
	fmt.Printf("Serving gRPC on %s. Try: go run . -check %[1]s\n", listener.Addr())
	if err := observing.Err(); err != nil {
		fmt.Printf("Nothing observes it: %v. -help says how to turn that on.\n", err)
	}
	fmt.Println("Ctrl-C ends it.")
	if err := serve(listener); err != nil {
		return fail(err)
	}
	return 0
}

// serve serves until Ctrl-C, and then until the calls under way are answered.
func serve(listener net.Listener) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait

	server := grpc.NewServer(observed()...)
	service := health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, service)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	late := time.AfterFunc(10*time.Second, server.Stop)
	defer late.Stop()
	service.Shutdown() // tells those who watch, but their streams go on
	server.GracefulStop()
	return nil
}

// check asks a server for its health: once, or with patience in a stream.
func check(address string, patience time.Duration) error {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	client := grpc_health_v1.NewHealthClient(connection)
	if patience == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		answer, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			return err
		}
		fmt.Println(answer.GetStatus())
		return nil
	}
	// A cancellation, and not a deadline: the server would be told of that.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer time.AfterFunc(patience, cancel).Stop()
	stream, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	for {
		answer, err := stream.Recv()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Println(answer.GetStatus())
	}
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "grpc:", err)
	return 1
}
