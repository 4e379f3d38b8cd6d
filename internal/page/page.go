// Package page is the live page of an observed process: HTML, JSON and
// server-sent events over a snapshot function, and the history that they show.
// It knows nothing of how the numbers come about.
package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Snapshot is the process at one moment.
type Snapshot struct {
	At         time.Time
	Window     time.Duration
	Verdict    string
	Summary    string
	Findings   []Finding
	Unmeasured []string
	Oldest     []Work

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

// Text is what the page says whatever the process does.
type Text struct {
	Process       string            // its name
	Captions      map[string]string // by the names of Pictures: what it means, what to do
	Causes        []Cause           // in the order of the rules
	LagBoundaries []time.Duration   // between the LagBuckets
}

// Cause is a verdict and the rule behind it.
type Cause struct {
	Name      string `json:"cause"`
	Condition string `json:"condition"`
	Share     bool   `json:"share"` // its load is the share of a limit in use
}

// picture is one of the page's. What it shows of the history is in page.js.
type picture struct {
	Name, Title string
	Wide        bool
	Driver      bool // only a process that drives rollouts has it
	Caption     string
}

// section is a part of the page under one heading.
type section struct {
	Name, Title string
	Pictures    []picture
}

var loadPicture = picture{Name: "load", Title: "What work waits for: load by cause", Wide: true}

var sections = []section{
	{"scheduler", "Scheduler", []picture{
		{Name: "lag", Title: "Lag: how late goroutines run", Wide: true},
	}},
	{"requests", "Requests", []picture{
		{Name: "requests", Title: "Requests in flight"},
		{Name: "responses", Title: "Responses"},
	}},
	{"process", "Process", []picture{
		{Name: "cpu", Title: "CPU"},
		{Name: "memory", Title: "Resident memory"},
		{Name: "pauses", Title: "Collector's pauses"},
		{Name: "collector", Title: "Collector's share of the processors"},
		{Name: "threads", Title: "Threads"},
		{Name: "descriptors", Title: "Open descriptors"},
	}},
	{"driver", "Rollouts", []picture{
		{Name: "rollouts", Title: "Rollouts", Driver: true},
		{Name: "offered", Title: "Demand", Driver: true},
		{Name: "admission", Title: "Wait for admission", Driver: true},
	}},
}

// Pictures are the names of the pictures, each of which needs a caption.
func Pictures() []string {
	names := []string{loadPicture.Name}
	for _, section := range sections {
		for _, picture := range section.Pictures {
			names = append(names, picture.Name)
		}
	}
	return names
}

// captioned returns the sections with their captions.
func captioned(captions map[string]string) (all []section) {
	for _, s := range sections {
		s.Pictures = slices.Clone(s.Pictures)
		for i := range s.Pictures {
			s.Pictures[i].Caption = captions[s.Pictures[i].Name]
		}
		all = append(all, s)
	}
	return all
}

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

// contentSecurityPolicy allows the page its own style and script, and to ask
// where it came from for more. The icon is in the page. It is made for each
// handler, as the page is: what is made at the start of a program stays in the
// binaries of those who never ask for a handler.
func contentSecurityPolicy() string {
	return fmt.Sprintf("default-src 'none'; style-src %s; script-src %s; connect-src 'self'; img-src data:; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'", hashOf(pageCSS), hashOf(pageJS))
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
}

// New returns a handler that shows what snapshot returns, which may be called
// from several goroutines at once.
func New(text Text, snapshot func() Snapshot) *Handler {
	load := loadPicture
	load.Caption = text.Captions[load.Name]
	var html bytes.Buffer
	err := template.Must(template.New("page").Parse(pageHTML)).Execute(&html, map[string]any{
		"Style":    template.HTML("<style>" + pageCSS + "</style>"),
		"Script":   template.HTML("<script>" + pageJS + "</script>"),
		"Text":     text,
		"Load":     load,
		"Sections": captioned(text.Captions),
	})
	if err != nil {
		panic(err) // the template and what it shows are this module's own
	}
	h := &Handler{html: html.Bytes(), policy: contentSecurityPolicy(), text: text, snapshot: snapshot, open: openCapture}
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
		header.Set("Content-Type", "application/json")
		whole(w, answer, append(h.encodeAll(h.snapshot()), '\n'))
	case "events":
		h.streams.serve(answer, w, r)
	default:
		http.Error(w, "format is json or events", http.StatusBadRequest)
	}
}

// whole writes a body of a known length.
func whole(w http.ResponseWriter, answer *response, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = answer.Write(body)
}
