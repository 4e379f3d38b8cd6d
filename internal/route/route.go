// Package route names the registered pattern of a request: never its path, which is
// unbounded, and may hold what must not leave the process.
package route

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/gym-observer/observer/internal/count"
	"github.com/gym-observer/observer/internal/inflight"
)

// NameOf returns the route of a request in flight, or nothing: what own says of it,
// which may be nil, or the pattern of next where that is a ServeMux; the default one
// where it is nil. The pattern in the request is the handler's to write while it runs,
// so the router is asked with a made-up request.
func NameOf(asked *inflight.Request, next http.Handler, own func(*http.Request) string) string {
	route := Of(asked, func() string {
		r := &http.Request{Method: asked.Method, Host: asked.Host, URL: &url.URL{Path: asked.Path, RawPath: asked.RawPath}, Header: make(http.Header)}
		if own != nil {
			return own(r)
		}
		if next == nil {
			next = http.DefaultServeMux
		}
		if mux, ok := next.(*http.ServeMux); ok {
			_, pattern := mux.Handler(r)
			return pattern
		}
		return ""
	})
	if route == count.Unmatched {
		return ""
	}
	return route
}

// Of returns the path of the pattern that find gives for a request, if it is
// one.
func Of(asked *inflight.Request, find func() string) (route string) {
	defer func() {
		if recover() != nil {
			route = count.Unmatched
		}
	}()
	pattern := find()
	if asked.Method == http.MethodConnect && pattern == redirectOf(asked.Path) {
		// To a CONNECT without the slash at its end a ServeMux answers with a
		// redirect, and calls the path that it redirects to the pattern.
		return count.Unmatched
	}
	return pathOf(pattern)
}

// redirectOf is where a ServeMux redirects a CONNECT to.
func redirectOf(name string) string {
	clean := path.Clean("/" + name)
	if strings.HasSuffix(name, "/") && clean != "/" {
		clean += "/"
	}
	return clean + "/"
}

// pathOf returns the path part of a ServeMux pattern, "[METHOD ][HOST]/[PATH]",
// without the method and the host, which would multiply the routes.
func pathOf(pattern string) string {
	if method, rest, found := strings.Cut(pattern, " "); found && !strings.Contains(method, "/") {
		pattern = strings.TrimLeft(rest, " \t")
	}
	if i := strings.IndexByte(pattern, '/'); i >= 0 {
		return pattern[i:]
	}
	return count.Unmatched
}
