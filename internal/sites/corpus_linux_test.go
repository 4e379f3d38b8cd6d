package sites_test

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/gym-observer/observer/internal/sites"
)

func init() {
	corpus["blocked call"] = sick{subject: sites.Calls, start: func(_ *testing.T, end <-chan struct{}) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) {
			var ends [2]int
			if syscall.Pipe(ends[:]) != nil {
				return
			}
			defer func() { _ = syscall.Close(ends[0]) }()
			go func() { <-end; _ = syscall.Close(ends[1]) }()
			_, _ = syscall.Read(ends[0], make([]byte, 1)) // planted: blocked call
		}
	}}
}
