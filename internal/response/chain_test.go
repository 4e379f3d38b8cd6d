package response

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recorder has all optional methods, and lists the calls of them under its name.
type recorder struct {
	name  string
	calls *[]string
}

func (r *recorder) called(method string) { *r.calls = append(*r.calls, r.name+"."+method) }

func (r *recorder) Header() http.Header         { return make(http.Header) }
func (r *recorder) WriteHeader(int)             { r.called("WriteHeader") }
func (r *recorder) Write(p []byte) (int, error) { r.called("Write"); return len(p), nil }
func (r *recorder) Flush()                      { r.called("Flush") }
func (r *recorder) FlushError() error           { r.called("FlushError"); return nil }
func (r *recorder) CloseNotify() <-chan bool    { r.called("CloseNotify"); return nil }
func (r *recorder) EnableFullDuplex() error     { r.called("EnableFullDuplex"); return nil }

func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.called("Hijack")
	return nil, nil, nil
}

func (r *recorder) ReadFrom(source io.Reader) (int64, error) {
	r.called("ReadFrom")
	return io.Copy(io.Discard, source)
}

func (r *recorder) SetReadDeadline(time.Time) error {
	r.called("SetReadDeadline")
	return nil
}

func (r *recorder) SetWriteDeadline(time.Time) error {
	r.called("SetWriteDeadline")
	return nil
}

func (r *recorder) Push(string, *http.PushOptions) error {
	r.called("Push")
	return nil
}

func (r *recorder) WriteString(s string) (int, error) {
	r.called("WriteString")
	return len(s), nil
}

// outerOf is an application's writer with some of the optional methods, behind
// which inner is. It is made of a link whose own notes nobody looks at: a link to
// a writer that unwraps no further is followed by the first writer.
func outerOf(has optional, name string, calls *[]string, inner http.ResponseWriter) http.ResponseWriter {
	own := new(writer)
	own.init(inner, httptest.NewRequest(http.MethodGet, "/", nil))
	return combine(&link{&recorder{name, calls}, own}, has)
}

func TestEverySetOfMethodsIsItself(t *testing.T) {
	for has := range combinations {
		assert.Equal(t, has, optionalOf(outerOf(has, "outer", new([]string), nil)))
	}
}

// find walks along Unwrap until a writer has the methods of T.
func find[T any](w http.ResponseWriter) (found T, ok bool) {
	for w != nil {
		if found, ok = w.(T); ok {
			return found, true
		}
		next, unwraps := w.(unwrapper)
		if !unwraps {
			break
		}
		w = next.Unwrap()
	}
	return found, false
}

// noted is what the middleware is to know after something was done.
type noted struct {
	status              int
	hijacked, streaming bool
}

var (
	nothing = noted{}
	started = noted{status: http.StatusOK}
	flushed = noted{status: http.StatusOK, streaming: true}
	taken   = noted{hijacked: true, streaming: true}
)

var errNone = errors.New("no writer has it")

// walked finds the first writer that has a method and calls it.
func walked[T any](call func(T)) func(http.ResponseWriter) error {
	return func(w http.ResponseWriter) error {
		found, ok := find[T](w)
		if !ok {
			return errNone
		}
		call(found)
		return nil
	}
}

// asserted calls a method if the handler's writer itself has it.
func asserted[T any](call func(T)) func(http.ResponseWriter) error {
	return func(w http.ResponseWriter) error {
		found, ok := w.(T)
		if !ok {
			return errNone
		}
		call(found)
		return nil
	}
}

// uses are what code does with the writer that it has, and what is to be noted
// where it succeeds.
var uses = map[string]struct {
	do   func(http.ResponseWriter) error
	want noted
}{
	"controller's Flush": {func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() }, flushed},
	"controller's Hijack": {func(w http.ResponseWriter) error {
		_, _, err := http.NewResponseController(w).Hijack()
		return err
	}, taken},
	"controller's read deadline": {func(w http.ResponseWriter) error {
		return http.NewResponseController(w).SetReadDeadline(time.Time{})
	}, nothing},
	"controller's write deadline": {func(w http.ResponseWriter) error {
		return http.NewResponseController(w).SetWriteDeadline(time.Time{})
	}, nothing},
	"controller's full duplex": {func(w http.ResponseWriter) error { return http.NewResponseController(w).EnableFullDuplex() }, nothing},

	"walk to Flush":        {walked(func(f http.Flusher) { f.Flush() }), flushed},
	"walk to FlushError":   {walked(func(f flushErrorer) { _ = f.FlushError() }), flushed},
	"walk to Hijack":       {walked(func(h http.Hijacker) { _, _, _ = h.Hijack() }), taken},
	"walk to ReadFrom":     {walked(func(r io.ReaderFrom) { _, _ = r.ReadFrom(strings.NewReader("x")) }), started},
	"walk to WriteString":  {walked(func(s io.StringWriter) { _, _ = s.WriteString("x") }), started},
	"walk to Push":         {walked(func(p http.Pusher) { _ = p.Push("/", nil) }), nothing},
	"walk to CloseNotify":  {walked(func(c closeNotifier) { c.CloseNotify() }), nothing},
	"walk to a deadline":   {walked(func(d readDeadliner) { _ = d.SetReadDeadline(time.Time{}) }), nothing},
	"walk to full duplex":  {walked(func(d fullDuplexer) { _ = d.EnableFullDuplex() }), nothing},
	"Flush of its own":     {asserted(func(f http.Flusher) { f.Flush() }), flushed},
	"Hijack of its own":    {asserted(func(h http.Hijacker) { _, _, _ = h.Hijack() }), taken},
	"ReadFrom of its own":  {asserted(func(r io.ReaderFrom) { _, _ = r.ReadFrom(strings.NewReader("x")) }), started},
	"Push of its own":      {asserted(func(p http.Pusher) { _ = p.Push("/", nil) }), nothing},
	"deadlines of its own": {asserted(func(d deadliner) { _ = d.SetWriteDeadline(time.Time{}) }), nothing},
}

// chains are what may be behind an outer writer.
var chains = map[string]func(calls *[]string) http.ResponseWriter{
	"nothing":      func(*[]string) http.ResponseWriter { return nil },
	"all methods":  func(calls *[]string) http.ResponseWriter { return &recorder{"inner", calls} },
	"a flush only": func(calls *[]string) http.ResponseWriter { return outerOf(hasFlush, "inner", calls, nil) },
	"a flush, then all": func(calls *[]string) http.ResponseWriter {
		return outerOf(hasFlush, "middle", calls, &recorder{"inner", calls})
	},
	"nothing twice, then all": func(calls *[]string) http.ResponseWriter {
		return outerOf(0, "middle", calls, outerOf(0, "next", calls, &recorder{"inner", calls}))
	},
	"a read deadline, then all": func(calls *[]string) http.ResponseWriter {
		return &readOnly{recorder: recorder{"middle", calls}, inner: &recorder{"inner", calls}}
	},
}

// readOnly has one deadline of two, for which there is no set of methods.
type readOnly struct {
	recorder recorder
	inner    http.ResponseWriter
}

func (r *readOnly) Header() http.Header               { return r.recorder.Header() }
func (r *readOnly) WriteHeader(status int)            { r.recorder.WriteHeader(status) }
func (r *readOnly) Write(p []byte) (int, error)       { return r.recorder.Write(p) }
func (r *readOnly) Unwrap() http.ResponseWriter       { return r.inner }
func (r *readOnly) SetReadDeadline(t time.Time) error { return r.recorder.SetReadDeadline(t) }

type writeOnly struct {
	recorder recorder
	inner    http.ResponseWriter
}

func (r *writeOnly) Header() http.Header                { return r.recorder.Header() }
func (r *writeOnly) WriteHeader(status int)             { r.recorder.WriteHeader(status) }
func (r *writeOnly) Write(p []byte) (int, error)        { return r.recorder.Write(p) }
func (r *writeOnly) Unwrap() http.ResponseWriter        { return r.inner }
func (r *writeOnly) SetWriteDeadline(t time.Time) error { return r.recorder.SetWriteDeadline(t) }

// agrees does the same to an outer writer without the middleware and with it.
func agrees(t *testing.T, what string, outer func(calls *[]string) http.ResponseWriter) {
	for name, use := range uses {
		var bareCalls, calls []string
		bareErr := use.do(outer(&bareCalls))

		before := Streaming()
		w, observed := Wrap(outer(&calls), httptest.NewRequest(http.MethodGet, "/", nil))
		err := use.do(w)
		status, _ := observed.Status()
		got := noted{status, observed.Hijacked(), Streaming() > before}
		observed.End()

		want := use.want
		if bareErr != nil {
			want = nothing
		}
		if !assert.Equal(t, bareCalls, calls, "%s: %s", what, name) ||
			!assert.Equal(t, bareErr == nil, err == nil, "%s: %s: without it %v, with it %v", what, name, bareErr, err) ||
			!assert.Equal(t, errors.Is(bareErr, http.ErrNotSupported), errors.Is(err, http.ErrNotSupported)) ||
			!assert.Equal(t, want, got, "%s: %s", what, name) {
			return
		}
	}
}

func TestH57EverySetOfMethodsOfAnOuterWriter(t *testing.T) {
	for behind, inner := range chains {
		t.Run(behind, func(t *testing.T) {
			for has := range combinations {
				agrees(t, fmt.Sprintf("%09b", has), func(calls *[]string) http.ResponseWriter {
					return outerOf(has, "outer", calls, inner(calls))
				})
				if t.Failed() {
					return
				}
			}
		})
	}
}

func TestH57OuterWriterWithOneDeadline(t *testing.T) {
	for behind, inner := range chains {
		t.Run(behind, func(t *testing.T) {
			agrees(t, "read", func(calls *[]string) http.ResponseWriter {
				return &readOnly{recorder{"outer", calls}, inner(calls)}
			})
			agrees(t, "write", func(calls *[]string) http.ResponseWriter {
				return &writeOnly{recorder{"outer", calls}, inner(calls)}
			})
		})
	}
}

// Code may look for a writer of a type that it knows, and not for a method.
func TestH57WalkFindsTheWritersThemselves(t *testing.T) {
	for has := range combinations {
		calls := new([]string)
		inner := &recorder{"inner", calls}
		middle := outerOf(hasFlush, "middle", calls, inner)
		outer := outerOf(has, "outer", calls, middle)
		w, _ := Wrap(outer, httptest.NewRequest(http.MethodGet, "/", nil))

		var found []http.ResponseWriter
		for w != nil {
			found = append(found, w)
			next, ok := w.(unwrapper)
			if !ok {
				break
			}
			w = next.Unwrap()
		}
		require.GreaterOrEqual(t, len(found), 3)
		last := found[len(found)-3:]
		require.Same(t, outer, last[0], "%09b", has)
		require.Same(t, middle, last[1], "%09b", has)
		require.Same(t, inner, last[2], "%09b", has)
	}
}
