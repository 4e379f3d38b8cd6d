package main

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gym-observer/observer"
)

// observed are the options of a server that is observed. gRPC lets a panic end
// the process: an interceptor that recovers belongs before these, where the panic
// still counts, and not after, where an error is all that they see.
func observed() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(observeUnary),
		grpc.ChainStreamInterceptor(observeStream),
	}
}

func observeUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	started := false // one answer, and the handler returns before it
	count(ctx, info.FullMethod, &started, func() error {
		response, err = handler(ctx, request)
		return err
	})
	return response, err
}

func observeStream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	answers := &answers{ServerStream: stream}
	count(stream.Context(), info.FullMethod, &answers.started, func() error {
		err = handler(service, answers)
		return err
	})
	return err
}

// answers notes that a stream has been answered.
type answers struct {
	grpc.ServerStream
	started bool
}

func (a *answers) SendMsg(message any) error {
	a.started = true
	return a.ServerStream.SendMsg(message)
}

// count counts one call. Its method is a registered one, since gRPC calls no
// interceptor for others, so that it may be the route of a cancellation.
func count(ctx context.Context, method string, started *bool, call func() error) {
	requests := observer.Requests() // nil while nothing observes, and then counts nothing
	defer requests.Begin()()
	defer func() {
		if panicked := recover(); panicked != nil {
			requests.CountUnhandledException()
			panic(panicked)
		}
	}()
	err := call()
	// A deadline is the client's wish and gets an answer; a cancelled context has
	// nobody left to read one.
	if errors.Is(ctx.Err(), context.Canceled) {
		requests.CountCancellation(method, *started)
		return
	}
	requests.CountResponse(httpStatus(status.Code(err)))
}

// httpStatus is the HTTP status that stands for a code of gRPC's, so that calls
// and requests share a graph.
func httpStatus(code codes.Code) int {
	switch code {
	case codes.OK:
		return http.StatusOK
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.AlreadyExists, codes.Aborted:
		return http.StatusConflict
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Canceled:
		return 499 // what proxies write for a client that closed the request
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}
