package response

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"
)

// snoop returns a writer with those of the methods that the base has too.
func (w *http1Response) snoop() http.ResponseWriter {
	return httpsnoop.Wrap(w.base, httpsnoop.Hooks{
		Header:      func(httpsnoop.HeaderFunc) httpsnoop.HeaderFunc { return w.Header },
		WriteHeader: func(httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc { return w.WriteHeader },
		Write:       func(httpsnoop.WriteFunc) httpsnoop.WriteFunc { return w.Write },
		WriteString: func(httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc { return w.WriteString },
		ReadFrom:    func(httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc { return w.ReadFrom },
		Flush:       func(httpsnoop.FlushFunc) httpsnoop.FlushFunc { return w.Flush },
		FlushError:  func(httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc { return w.FlushError },
		Hijack:      func(httpsnoop.HijackFunc) httpsnoop.HijackFunc { return w.Hijack },
	})
}

// unwrapResponse stands for a writer that has Unwrap and nothing else, the usual
// hand-made one: http.ResponseController reaches past it.
type unwrapResponse struct{ observed writer }

func (w *unwrapResponse) Header() http.Header         { return w.observed.Header() }
func (w *unwrapResponse) WriteHeader(status int)      { w.observed.WriteHeader(status) }
func (w *unwrapResponse) Write(p []byte) (int, error) { return w.observed.Write(p) }

func (w *unwrapResponse) Unwrap() http.ResponseWriter {
	return w.observed.behind(w.observed.base.(interface{ Unwrap() http.ResponseWriter }).Unwrap())
}

// behind returns a writer with the methods of inner that notes what reaches it past the one
// that the middleware received.
func (w *writer) behind(inner http.ResponseWriter) http.ResponseWriter {
	if inner != nil && isUnwrapOnly(inner) {
		return w.behind(inner.(interface{ Unwrap() http.ResponseWriter }).Unwrap())
	}
	return httpsnoop.Wrap(inner, httpsnoop.Hooks{
		Flush: func(flush httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() { w.start(http.StatusOK); flush() }
		},
		FlushError: func(flush httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
			return func() error { w.start(http.StatusOK); return flush() }
		},
		Hijack: func(hijack httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, buffered, err := hijack()
				if err == nil {
					w.flags.Or(hijacked)
				}
				return conn, buffered, err
			}
		},
	})
}

// isUnwrapOnly reports whether a writer has no optional methods of its own.
func isUnwrapOnly(w http.ResponseWriter) bool {
	if _, ok := w.(interface{ Unwrap() http.ResponseWriter }); !ok {
		return false
	}
	switch w.(type) {
	case http.Flusher, flushErrorer, http.Hijacker, http.Pusher, io.ReaderFrom, io.StringWriter, closeNotifier, deadliner, fullDuplexer:
		return false
	}
	return true
}
