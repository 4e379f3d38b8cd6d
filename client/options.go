package client

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gym-observer/observer/internal/fetch"
)

// Option changes how pages are asked.
type Option func(*settings)

type settings struct {
	timeout time.Duration
	header  http.Header
	roots   *x509.CertPool
	pages   map[string]string // by peer
	port    int
}

func settingsOf(options []Option) *settings {
	s := &settings{header: http.Header{}, pages: make(map[string]string)}
	for _, option := range options {
		if option != nil {
			option(s)
		}
	}
	return s
}

// WithTimeout is how long one page may take, from the first byte sent to the last
// one read. The default, and what zero or less means, is 2 s.
func WithTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = max(d, 0) } }

// WithHeader sends a header, an Authorization for instance, to the pages that were
// named: those whose URLs were passed, and those of [WithPage]. A peer that was
// found on the way gets none, unless [WithPort] is given. Names that were passed
// before get one value more.
func WithHeader(name, value string) Option { return func(s *settings) { s.header.Add(name, value) } }

// WithRootCAs has the certificates that may sign those of the pages, instead of the
// system's. Nil are the system's.
func WithRootCAs(roots *x509.CertPool) Option { return func(s *settings) { s.roots = roots } }

// WithPage says where the page of a peer is, for [Follow]: peer is as
// [github.com/gym-observer/observer.Peer] has it, "model:8000", and page a URL as
// [Get] takes it. It may be given for any number of peers.
func WithPage(peer, page string) Option { return func(s *settings) { s.pages[peer] = page } }

// WithPort says that every process serves its page on one port, which is not the
// one that it serves requests on. Peers are then asked there, with the scheme, the
// path and the headers of the first page. Zero is none.
func WithPort(port int) Option { return func(s *settings) { s.port = port } }

// DefaultPath is where a page is looked for when a URL has no path.
const DefaultPath = "/debug/observer"

// pageAt reads a URL as people type it: a host and a port are enough.
func pageAt(text string) (*url.URL, error) {
	if !hasScheme(text) {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		// url.Error has the text in it, which may have a password in it.
		return nil, fmt.Errorf("what was given is no URL: %w", err.(*url.Error).Err)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is neither http nor https", u.Scheme)
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("%q has no host", text)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, fmt.Errorf("%q is no port", port)
		}
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = DefaultPath
	}
	u.Fragment = ""
	return u, nil
}

// hasScheme tells http://host from host:80.
func hasScheme(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c == ':':
			return len(text) > i+2 && text[i+1] == '/' && text[i+2] == '/'
		case c == '/', c == '.', c == '[', c == '?', c == '#', c == '@':
			return false
		}
	}
	return false
}

// shown is a page's address without what is secret in it.
func shown(u *url.URL) string {
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return bare.String()
}

// asker asks pages, and knows which of them get the headers.
type asker struct {
	*settings
	client *fetch.Client
	named  map[string]bool // by origin
}

func newAsker(options []Option) *asker {
	s := settingsOf(options)
	a := &asker{settings: s, client: fetch.New(s.timeout, s.roots), named: make(map[string]bool)}
	for _, page := range s.pages {
		if u, err := pageAt(page); err == nil {
			a.named[fetch.Origin(u)] = true
		}
	}
	return a
}

// name lets a page have the headers.
func (a *asker) name(u *url.URL) { a.named[fetch.Origin(u)] = true }
