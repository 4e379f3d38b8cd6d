package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Patch changes the sources below a folder.
type Patch func(folder string) error

// replace puts one text in place of another that is there exactly once. A Go, or
// a module, in which it is not has to be looked at by somebody.
func replace(file, old, replacement string) Patch {
	return func(folder string) error {
		return edit(filepath.Join(folder, file), func(text string) (string, error) {
			if n := strings.Count(text, old); n != 1 {
				return "", fmt.Errorf("%q is there %d times, want once", old, n)
			}
			return strings.Replace(text, old, replacement, 1), nil
		})
	}
}

// add writes a new file.
func add(file, text string) Patch {
	return func(folder string) error { return write(filepath.Join(folder, file), []byte(text)) }
}

func edit(file string, change func(string) (string, error)) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := change(string(text))
	if err != nil {
		return fmt.Errorf("patching %s: %w", file, err)
	}
	return write(file, []byte(changed))
}

// write makes a new file in the place of an old one. To write into the old one
// would write into the original, to which it may be a hard link.
func write(file string, text []byte) error {
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// goPatches are the ones of the Go installation.
func goPatches() []Patch {
	return []Patch{
		add("src/net/http/foreign.go", foreignVariables),
		replace("src/net/http/server.go", "\thandler.ServeHTTP(rw, req)\n}\n\nfunc badServeHTTP(",
			"\tif ForeignHandler != nil {\n\t\thandler = ForeignHandler(handler)\n\t}\n\thandler.ServeHTTP(rw, req)\n}\n\nfunc badServeHTTP("),
		replace("src/net/http/server.go", "func (f HandlerFunc) ServeHTTP(w ResponseWriter, r *Request) {\n",
			"func (f HandlerFunc) ServeHTTP(w ResponseWriter, r *Request) {\n"+
				"\tif ForeignInner != nil {\n\t\tForeignInner(foreignFunc(f)).ServeHTTP(w, r)\n\t\treturn\n\t}\n"),
		replace("src/net/http/client.go", "func (c *Client) transport() RoundTripper {\n",
			"func (c *Client) transport() RoundTripper {\n\tif ForeignTransport != nil {\n\t\treturn ForeignTransport(c.Transport)\n\t}\n"),
		replace("src/net/http/httputil/reverseproxy.go", "\t\ttransport = http.DefaultTransport\n\t}\n",
			"\t\ttransport = http.DefaultTransport\n\t}\n\tif http.ForeignTransport != nil {\n\t\ttransport = http.ForeignTransport(transport)\n\t}\n"),
		add("src/testing/foreign.go", "package testing\n\n// ForeignRun is called in the place of the first M.Run, which it is given.\nvar ForeignRun func(run func() int) int\n"),
		replace("src/testing/testing.go", "func (m *M) Run() (code int) {\n",
			"func (m *M) Run() (code int) {\n\tif run := ForeignRun; run != nil {\n\t\tForeignRun = nil\n\t\treturn run(m.foreignRun)\n\t}\n\treturn m.foreignRun()\n}\n\n"+
				"func (m *M) foreignRun() (code int) {\n"),
	}
}

const foreignVariables = `package http

// What a test binary sets to have a wrapper around everything.
var (
	ForeignHandler   func(Handler) Handler           // the handler of each server
	ForeignInner     func(Handler) Handler           // each HandlerFunc
	ForeignTransport func(RoundTripper) RoundTripper // of each client; its argument may be nil
)

type foreignFunc HandlerFunc

func (f foreignFunc) ServeHTTP(w ResponseWriter, r *Request) { f(w, r) }
`

// router wraps the ServeHTTP of a type that tests call without a server.
func router(file, receiver string) Patch {
	name := strings.TrimPrefix(receiver, "*")
	head := regexp.MustCompile(`func \((\w+) ` + regexp.QuoteMeta(receiver) + `\) ServeHTTP\((\w+) http\.ResponseWriter, (\w+) \*http\.Request\) \{`)
	return func(folder string) error {
		return edit(filepath.Join(folder, file), func(text string) (string, error) {
			if n := len(head.FindAllString(text, -1)); n != 1 {
				return "", fmt.Errorf("%s has %d methods ServeHTTP, want one", receiver, n)
			}
			return head.ReplaceAllString(text, `type foreign`+name+` struct{ of `+receiver+` }

func (f foreign`+name+`) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.of.foreignServeHTTP(w, r) }

func (x `+receiver+`) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if http.ForeignInner != nil {
		http.ForeignInner(foreign`+name+`{x}).ServeHTTP(w, r)
		return
	}
	x.foreignServeHTTP(w, r)
}

func (${1} `+receiver+`) foreignServeHTTP(${2} http.ResponseWriter, ${3} *http.Request) {`), nil
		})
	}
}

// http2Server wraps the handler of x/net's HTTP/2 server. One that net/http
// serves for is wrapped there already.
func http2Server(folder string) error {
	err := replace("http2/server.go", "\thandler(rw, req)\n", "\tforeignHandler(sc.handler, handler)(rw, req)\n")(folder)
	if err != nil {
		return err
	}
	return add("http2/foreign.go", `package http2

import (
	"fmt"
	"net/http"
)

func foreignHandler(of http.Handler, handler func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request) {
	if http.ForeignHandler == nil || fmt.Sprintf("%T", of) == "http.initALPNRequest" {
		return handler
	}
	return http.ForeignHandler(foreignFunc(handler)).ServeHTTP
}

type foreignFunc func(http.ResponseWriter, *http.Request)

func (f foreignFunc) ServeHTTP(w http.ResponseWriter, r *http.Request) { f(w, r) }
`)(folder)
}

// ignoreObserver keeps grpc's search for leaked goroutines to its own.
func ignoreObserver(folder string) error {
	const list = "var goroutinesToIgnore = []string{\n"
	return replace("internal/leakcheck/leakcheck.go", list, list+"\t\"gym-observer\", \"foreign.test/hook\",\n")(folder)
}
