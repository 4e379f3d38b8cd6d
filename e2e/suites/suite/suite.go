// Package suite runs test suites that nobody here wrote with the observer in
// their servers and clients, and compares what passes with and without it. A
// test that passes without and fails with the observer has found that it can be
// seen.
//
// It works with a copy of the Go installation, whose net/http has variables that
// wrap handlers and round trippers, and with copies of modules from the module
// cache. Nothing else is written to, but the build cache.
package suite

import (
	"fmt"
	"slices"
	"strings"
)

// Suite is somebody's tests.
type Suite struct {
	Name     string
	Module   string // empty for packages of the standard library
	Version  string
	Packages []string // of the module, relative to it; of the standard library, by their paths

	// Patches are needed where requests reach a handler past net/http's server:
	// they make that place ask the variables, too.
	Patches []Patch

	Flags   map[string][]string // for the tests of one package
	Skip    string              // a pattern of tests that are run neither with nor without
	GODEBUG string              // what the module's own go.mod means, which a newer line "go" changes
}

// All returns the suites, the cheap ones first.
func All() []Suite {
	return []Suite{
		{Name: "cors", Module: "github.com/rs/cors", Version: "v1.11.1", Packages: []string{"."}},
		{Name: "chi", Module: "github.com/go-chi/chi/v5", Version: "v5.5.0", Packages: []string{".", "./middleware"},
			Patches: []Patch{router("mux.go", "*Mux")}},
		{Name: "gorilla-websocket", Module: "github.com/gorilla/websocket", Version: "v1.5.3", Packages: []string{"."},
			GODEBUG: "randseednop=0"},
		{Name: "net/http", Packages: []string{"net/http", "net/http/httputil"}},
		{Name: "gin", Module: "github.com/gin-gonic/gin", Version: "v1.12.0", Packages: []string{"."},
			Patches: []Patch{router("gin.go", "*Engine")}},
		{Name: "echo", Module: "github.com/labstack/echo/v4", Version: "v4.16.5", Packages: []string{".", "./middleware"},
			Patches: []Patch{router("echo.go", "*Echo")}},
		{Name: "coder-websocket", Module: "github.com/coder/websocket", Version: "v1.8.15", Packages: []string{"."}},
		{Name: "connect", Module: "connectrpc.com/connect", Version: "v1.21.1", Packages: []string{"."}},
		{Name: "gzhttp", Module: "github.com/klauspost/compress", Version: "v1.20.4", Packages: []string{"./gzhttp"}},
		{Name: "go-httpbin", Module: "github.com/mccutchen/go-httpbin/v2", Version: "v2.26.0", Packages: []string{"./httpbin"}},
		{Name: "x-net", Module: "golang.org/x/net", Version: "v0.62.0", Packages: []string{"./http2", "./http2/h2c"},
			Patches: []Patch{http2Server}},
		{Name: "grpc", Module: "google.golang.org/grpc", Version: "v1.85.0", Packages: []string{"./internal/transport", "./test"},
			Patches: []Patch{ignoreObserver},
			Flags:   map[string][]string{"./test": {"-only_env=handler-tls"}}},
	}
}

// Named returns the suites of these names, or all of them where there is none,
// and the names that no suite has.
func Named(names []string) (found []Suite, unknown []string) {
	all := All()
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(s Suite) bool { return s.Name == name })
		if i < 0 {
			unknown = append(unknown, name)
			continue
		}
		found = append(found, all[i])
	}
	return found, unknown
}

// Mode says where the observer is put.
type Mode string

// The modes. Each has a run of its own, so that a difference names its cause.
const (
	Without   Mode = "without"
	Server    Mode = "server"    // the middleware around the handler of each http.Server, HTTP/1 and HTTP/2
	Inner     Mode = "inner"     // the middleware around each http.HandlerFunc and router, behind whatever else there is
	Transport Mode = "transport" // the transport in each http.Client and httputil.ReverseProxy
)

// Modes are all but Without.
var Modes = []Mode{Server, Inner, Transport}

// ParseModes reads modes with commas between them; all where there is none.
func ParseModes(text string) (modes []Mode, err error) {
	if text == "" {
		return Modes, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		if !slices.Contains(Modes, Mode(name)) {
			return nil, fmt.Errorf("no mode is called %q", name)
		}
		modes = append(modes, Mode(name))
	}
	return modes, nil
}
