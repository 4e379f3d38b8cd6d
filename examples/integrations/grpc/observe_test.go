package main

import (
	"context"
	"errors"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/export"
)

var method = &grpc.UnaryServerInfo{FullMethod: "/rollouts.Agent/Step"}

func TestPanicCountsAndGoesOn(t *testing.T) {
	observe(t)
	before := observer.Requests().Counts()
	panicked := func() (value any) {
		defer func() { value = recover() }()
		_, _ = observeUnary(t.Context(), nil, method, func(context.Context, any) (any, error) { panic("a bug") })
		return nil
	}()
	if panicked != "a bug" {
		t.Errorf("the panic goes on as %v", panicked)
	}
	after := observer.Requests().Counts()
	if got := after.UnhandledExceptions - before.UnhandledExceptions; got != 1 {
		t.Errorf("%d unhandled exceptions were counted, want 1", got)
	}
	if after.InFlight != 0 {
		t.Errorf("%d calls are in flight after the panic, want 0", after.InFlight)
	}
}

func TestCodesCountAsStatuses(t *testing.T) {
	observe(t)
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 200},
		{status.Error(codes.InvalidArgument, ""), 400},
		{status.Error(codes.NotFound, ""), 404},
		{status.Error(codes.ResourceExhausted, ""), 429},
		{status.Error(codes.Unavailable, ""), 503},
		{status.Error(codes.DeadlineExceeded, ""), 504},
		{status.Error(codes.Internal, ""), 500},
		{errors.New("not one of gRPC's"), 500},
	} {
		before := observer.Requests().Counts().Responses[test.want]
		if _, err := observeUnary(t.Context(), nil, method, func(context.Context, any) (any, error) { return nil, test.err }); err != test.err {
			t.Errorf("the error %v goes on as %v", test.err, err)
		}
		if got := observer.Requests().Counts().Responses[test.want] - before; got != 1 {
			t.Errorf("%v counts %d times as %d, want once", test.err, got, test.want)
		}
	}
}

func TestDeadlineIsNoCancellation(t *testing.T) {
	observe(t)
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	before := observer.Requests().Counts()
	_, _ = observeUnary(ctx, nil, method, func(ctx context.Context, _ any) (any, error) { return nil, status.FromContextError(ctx.Err()).Err() })
	after := observer.Requests().Counts()
	if got := after.Responses[504] - before.Responses[504]; got != 1 {
		t.Errorf("%d responses were counted with 504, want 1", got)
	}
	if len(after.Cancellations) != len(before.Cancellations) {
		t.Errorf("the cancellations are %v, want %v", after.Cancellations, before.Cancellations)
	}
}

// observe observes this process until the test ends.
func observe(t *testing.T) {
	t.Helper()
	observing := observer.Start(context.Background(), "test", export.WithReader(sdkmetric.NewManualReader()))
	t.Cleanup(observing.Stop)
	if err := observing.Err(); err != nil {
		t.Fatal(err)
	}
}
