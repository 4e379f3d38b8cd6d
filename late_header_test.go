package observer_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer"
)

// The length that an outer handler has declared counts as it was when the head went
// out, also where the handler asks for the header afterwards, as for trailers.
func TestOuterDeclarationHoldsWhereTheHeaderIsAskedForAfterTheHead(t *testing.T) {
	for name, test := range map[string]struct {
		body, changed string
		complete      bool
	}{
		"looked at":              {"abc", "", true},
		"changed":                {"abc", "5", true},
		"changed, and too short": {"ab", "2", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := observe(t)
			request, leave := endable(http.MethodGet, cancelled)
			base := httptest.NewRecorder()
			base.Header().Set("Content-Length", "3")
			observer.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Write([]byte(test.body))
				for range 2 {
					if header := w.Header(); test.changed != "" {
						header.Set("Content-Length", test.changed)
					}
				}
				leave()
			})).ServeHTTP(base, request)
			want := counts{Responses: statuses{http.StatusOK: 1}}
			if !test.complete {
				want.Cancellations = leftAfter(observer.UnmatchedRoute)
			}
			assert.Equal(t, want, o.counted())
		})
	}
}
