// Package page is the live page of an observed process: HTML, JSON and
// server-sent events over a snapshot function, and the history that they show.
// It knows nothing of how the numbers come about.
package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gym-observer/observer/internal/monotonic"
)

// Snapshot is the process at one moment.
type Snapshot struct {
	Process    string // its name; "" is that of the Text
	At         time.Time
	Window     time.Duration
	Verdict    string
	Summary    string
	Findings   []Finding
	Unmeasured []string
	Oldest     []Work
	Also       []string // further causes whose rule held
	Sites      []Site
	Peers      []Peer
	Since      time.Time // when the verdict began; zero where that is not known

	History  *History // nil while nothing observes; another one after a restart
	Captures string   // the directory of the captures, "" for none
}

// Finding is what one cause did in a window.
type Finding struct {
	Cause    string `json:"cause"`
	Load     Number `json:"load"`
	Evidence string `json:"evidence"`
	Advice   string `json:"advice"`
}

// Work is one request or rollout in flight.
type Work struct {
	Kind, Name string
	Age        time.Duration
}

// Site is a place in the code where the verdict's cause is.
type Site struct {
	Kind      string   `json:"kind"`     // "wait", "hold", "alloc", "cpu" or "heap"
	Function  string   `json:"function"` // the application's
	Location  string   `json:"location"` // "store/cache.go:42"
	In        string   `json:"in"`       // the library function that waits or works; "" for none
	Caller    string   `json:"caller"`   // as Location; "" for none
	Load      Number   `json:"load"`
	Share     Number   `json:"share"`               // 0 to 1
	Functions []string `json:"functions,omitempty"` // the stack, the innermost first, where it is told
}

// Peer is a server that outbound requests waited for.
type Peer struct {
	Host     string
	Waiting  float64 // requests, on average
	Wait     time.Duration
	InFlight int
}

// Text is what the page says whatever the process does.
type Text struct {
	Process       string            // its name, while nothing observes it
	PID           int               // its number
	Signals       map[string]Signal // by name: what pictures.js makes captions of
	Causes        []Cause           // in the order of the rules
	LagBoundaries []time.Duration   // between the LagBuckets
}

// Signal is what a caption says of one.
type Signal struct {
	Description string `json:"description"`
	Advice      string `json:"advice"`
}

// Cause is a verdict and the rule behind it.
type Cause struct {
	Name      string `json:"cause"`
	Condition string `json:"condition"`
	Share     bool   `json:"share"` // its load is the share of a limit in use
}

// The page is one document that is the same for every process; what it says of
// one comes with the first event. So it needs no template. The parts of the script
// stand in the order of who calls whom, and the last one begins.
var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed numbers.js
	numbersJS string
	//go:embed charts.js
	chartsJS string
	//go:embed pictures.js
	picturesJS string
	//go:embed cursor.js
	cursorJS string
	//go:embed document.js
	documentJS string
	//go:embed stream.js
	streamJS string
)

func script() string {
	return strings.Join([]string{"'use strict';\n", numbersJS, chartsJS, picturesJS, cursorJS, documentJS, streamJS}, "\n")
}

// contentSecurityPolicy allows the page its own style and script, and to ask
// where it came from for more. The icon is in the page. It is made for each
// handler, as the page is: what is made at the start of a program stays in the
// binaries of those who never ask for a handler.
func contentSecurityPolicy(style, script string) string {
	return fmt.Sprintf("default-src 'none'; style-src %s; script-src %s; connect-src 'self'; img-src data:; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'", hashOf(style), hashOf(script))
}

func hashOf(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Handler serves the page. Everything is one path with a query, so that it works
// wherever it is mounted, with or without a slash at the end.
type Handler struct {
	html     []byte
	policy   string // the content security policy
	text     Text
	snapshot func() Snapshot
	open     func(directory, name string) captured
	answers  underway
	streams  streams
	captures captureList
	disk     disk // of the captures
	ofBubble bool // made in a bubble of testing/synctest
}

// New returns a handler that shows what snapshot returns, which may be called
// from several goroutines at once.
func New(text Text, snapshot func() Snapshot) *Handler {
	js := script()
	html := strings.Replace(pageHTML, "<style></style>", "<style>"+pageCSS+"</style>", 1)
	html = strings.Replace(html, "<script></script>", "<script>"+js+"</script>", 1)
	h := &Handler{html: []byte(html), policy: contentSecurityPolicy(pageCSS, js), text: text, snapshot: snapshot, open: openCapture, ofBubble: monotonic.InBubble()}
	h.streams.handler = h
	return h
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.serve(w, r, nil) }

// serve answers r, whose host may have one of names, too.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, names []string) {
	header := w.Header()
	header.Set("Content-Security-Policy", h.policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	if !allowed(r, names) {
		http.Error(w, "this page is on a loopback address, and not served under this host's name: "+
			"ask for localhost or the address, or let observer.WithHosts name it", http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "the page is only to be read", http.StatusMethodNotAllowed)
		return
	}
	answer, end := h.answers.begin(w, r)
	defer end()
	query := r.URL.Query()
	if name := query.Get("capture"); name != "" {
		h.serveCapture(answer, w, r, name)
		return
	}
	switch query.Get("format") {
	case "":
		header.Set("Content-Type", "text/html; charset=utf-8")
		whole(w, answer, h.html)
	case "json":
		span, err := spanOf(query.Get("history"))
		if err != nil {
			http.Error(w, "history is a number of seconds", http.StatusBadRequest)
			return
		}
		header.Set("Content-Type", "application/json")
		whole(w, answer, append(h.encodeAll(h.snapshot(), span), '\n'))
	case "events":
		h.streamsHere().serve(answer, w, r)
	default:
		http.Error(w, "format is json or events", http.StatusBadRequest)
	}
}

// spanOf reads how much of the history is asked for, in seconds: all of it without
// a word. Who asks hundreds of processes every two seconds wants none of the past.
func spanOf(seconds string) (time.Duration, error) {
	if seconds == "" {
		return Span, nil
	}
	n, err := strconv.ParseFloat(seconds, 64)
	if err != nil || !(n >= 0) {
		return 0, errors.New("no number of seconds")
	}
	return time.Duration(min(n, Span.Seconds()) * float64(time.Second)), nil
}

// whole writes a body of a known length.
func whole(w http.ResponseWriter, answer *response, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = answer.Write(body)
}
