package export

import (
	"fmt"
	"log/slog"
	"reflect"
)

// maxRemarks bounds the lines about what collectors remark. A collector that
// puts a number or a time into its remark has a new one at every interval.
const maxRemarks = 8

// remarks are what collectors said of exports that they accepted whole. OTLP
// answers those with a partial success that rejects nothing, which the SDK's
// exporters return as an error. It has the zero value to begin with, and is
// touched by Export alone.
type remarks struct {
	seen []string
}

// takeFrom returns the error without the remarks in it, nil if nothing else is,
// and logs each remark once.
func (r *remarks) takeFrom(err error, logger *slog.Logger) error {
	found, only := remarksIn(err)
	if !only {
		return err // what was also remarked stands in the error
	}
	for _, remark := range found {
		r.note(remark, logger)
	}
	return nil
}

func (r *remarks) note(remark string, logger *slog.Logger) {
	remark = fmt.Sprintf("%.1000s", remark) // the collector's text
	for _, seen := range r.seen {
		if seen == remark {
			return
		}
	}
	if len(r.seen) == maxRemarks {
		return
	}
	r.seen = append(r.seen, remark)
	defer func() { _ = recover() }() // of the logger: there is nowhere left to report it
	logger.Warn("observer: the collector accepted an export with a remark; the same one is logged once", slog.String("remark", remark))
}

// remarksIn returns the remarks in an error, and whether the error is nothing
// but remarks.
func remarksIn(err error) (found []string, only bool) {
	var inner []error
	switch wrapping := err.(type) {
	case nil:
		return nil, true
	case interface{ Unwrap() error }:
		inner = []error{wrapping.Unwrap()}
	case interface{ Unwrap() []error }:
		inner = wrapping.Unwrap()
	default:
		remark, ok := remarkOf(err)
		return []string{remark}, ok
	}
	for _, e := range inner {
		remarks, ok := remarksIn(e)
		if !ok {
			return nil, false
		}
		found = append(found, remarks...)
	}
	return found, len(found) > 0
}

// remarkOf returns the message of a partial success that rejected nothing. Each
// of the SDK's exporters has that type in an internal package of its own, so that
// errors.As cannot ask for it. Its fields say what a pattern over the text could
// not: the message in the text may be made to look like anything.
func remarkOf(err error) (remark string, ok bool) {
	value := reflect.ValueOf(err)
	if value.Kind() != reflect.Struct || value.Type().Name() != "PartialSuccess" {
		return "", false
	}
	rejected, message := value.FieldByName("RejectedItems"), value.FieldByName("ErrorMessage")
	if !rejected.IsValid() || !rejected.CanInt() || !message.IsValid() || message.Kind() != reflect.String {
		return "", false
	}
	return message.String(), rejected.Int() == 0
}
