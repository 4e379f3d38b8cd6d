package observer_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer"
)

// outer is the usual writer of an outer handler: http.ResponseController finds
// the methods of the server's behind it.
type outer struct{ http.ResponseWriter }

func (w outer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestOuterWriterWithUnwrapAlone(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    counts
	}{
		"hijacked": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if assert.NoError(t, err) {
				conn.Close()
			}
		}, counts{}},
		"flushed, then left": {func(w http.ResponseWriter, r *http.Request) {
			assert.NoError(t, http.NewResponseController(w).Flush())
			<-r.Context().Done()
		}, counts{Responses: statuses{200: 1}, Cancellations: cancellations{{Route: observer.UnmatchedRoute, ResponseStarted: true}: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			o := observe(t)
			middleware := observer.Middleware(test.handler)
			s := serve(t, http1Protocol, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				middleware.ServeHTTP(outer{outer{w}}, r)
			}))
			response, err := s.Client().Post(s.URL, "", nil)
			if err == nil {
				response.Body.Close()
			}
			receive(t, s.ended)
			assert.Equal(t, test.want, o.counted())
		})
	}
}
