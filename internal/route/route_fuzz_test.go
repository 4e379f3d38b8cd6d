package route

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gym-observer/observer/internal/count"
)

// accepts reports whether a ServeMux can have the pattern.
func accepts(pattern string) (ok bool) {
	defer func() { ok = recover() == nil }()
	http.NewServeMux().Handle(pattern, http.NotFoundHandler())
	return true
}

func FuzzRouteOf(f *testing.F) {
	for _, pattern := range []string{
		"", "/", "/a/{id}", "GET /a/{id}", "GET\t /a", "example.com/h/", "POST example.com:80/p/{$}",
		"/b/{rest...}", "/with space/x", "GET /with space", "GET  /two", "no path", "GET host",
		"CONNECT //unclean", "//", " /leading", "/a/*", "/a/:id", "{host}/x", "\xff/\xfe", "unmatched",
	} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		route := pathOf(pattern)

		if again := pathOf(route); again != route {
			t.Errorf("pathOf(%q) = %q, of which it makes %q", pattern, route, again)
		}
		path := strings.HasPrefix(route, "/")
		if !path && route != count.Unmatched {
			t.Errorf("pathOf(%q) = %q, which has something before the path", pattern, route)
		}
		before, isPart := strings.CutSuffix(pattern, route)
		if path && (!isPart || strings.Contains(before, "/")) {
			t.Errorf("pathOf(%q) = %q, which is not its whole path", pattern, route)
		}
		// CONNECT, since with another method a ServeMux rejects what it would clean,
		// and without one what has a space.
		if accepts(pattern) && !(path && accepts("CONNECT "+route)) {
			t.Errorf("pathOf(%q) = %q, which no ServeMux accepts", pattern, route)
		}
	})
}
