// Package fetch asks one address for one small document, from a server that need
// not mean well: it is bounded in time, in bytes before and after decompression,
// in redirects and in connections, and says in a few words why there is no answer.
package fetch

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

const (
	// Timeout is how long an answer may take, redirects and body included. A page
	// takes milliseconds; a person who waits for the next line waits two seconds.
	Timeout = 2 * time.Second

	// Bytes is how long an answer may be. A page with ten minutes of history has
	// about 400 kB.
	Bytes = 1 << 20

	// Connections is how many there are at once.
	Connections = 32

	// redirects followed one after the other. A slash more, a prefix, TLS: nobody
	// needs a fourth.
	redirects = 3

	// headerBytes is for the head of an answer, which net/http would let have 10 MB.
	headerBytes = 64 << 10
)

// Client asks. It may be used from several goroutines at once.
type Client struct {
	timeout time.Duration
	http    *http.Client
	slots   chan struct{}
}

// New returns a Client. A timeout of zero is [Timeout]; nil roots are those of the
// system.
func New(timeout time.Duration, roots *x509.CertPool) *Client {
	timeout = cmp.Or(timeout, Timeout)
	return &Client{
		timeout: timeout,
		slots:   make(chan struct{}, Connections),
		http: &http.Client{
			Transport: &http.Transport{
				// No proxy from the environment: a header would go through a host
				// that nobody named.
				Proxy:                  nil,
				DialContext:            (&net.Dialer{Timeout: timeout}).DialContext,
				TLSClientConfig:        &tls.Config{RootCAs: roots},
				DisableKeepAlives:      true, // nothing is left behind
				DisableCompression:     true, // it is bounded here, on both sides
				MaxResponseHeaderBytes: headerBytes,
			},
			// The loop of get follows them itself: net/http would pass headers on to
			// other ports and subdomains.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Error is why there is no answer.
type Error struct {
	Reason string // in a few words: "refused", "404 Not Found", "timed out after 2s"
	Err    error  // what is behind it, or nil
}

func (e *Error) Error() string { return e.Reason }
func (e *Error) Unwrap() error { return e.Err }

// Get returns the body of the answer to a GET of u. The header goes to u's own
// scheme, host and port alone, wherever a redirect leads. It waits for its turn
// where [Connections] are open; the timeout begins after that. An error is an
// *[Error].
func (c *Client) Get(ctx context.Context, u *url.URL, header http.Header) ([]byte, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, &Error{"interrupted", context.Cause(ctx)}
	}
	within, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	body, err := c.get(within, u, header)
	if err == nil {
		return body, nil
	}
	var known *Error
	switch {
	case ctx.Err() != nil:
		return nil, &Error{"interrupted", context.Cause(ctx)}
	case errors.As(err, &known):
		return nil, known
	case within.Err() != nil || isTimeout(err):
		return nil, &Error{fmt.Sprintf("timed out after %v", c.timeout), err}
	}
	return nil, &Error{reasonOf(err), err}
}

func (c *Client) get(ctx context.Context, u *url.URL, header http.Header) ([]byte, error) {
	for at, hops := u, 0; ; hops++ {
		request := (&http.Request{Method: http.MethodGet, URL: at, Host: at.Host, Header: http.Header{}}).WithContext(ctx)
		if Origin(at) == Origin(u) {
			for name, values := range header {
				request.Header[name] = values
			}
			if host := header.Get("Host"); host != "" {
				request.Host = host // net/http takes it from here alone
			}
		}
		request.Header.Set("Accept", "application/json")
		request.Header.Set("Accept-Encoding", "gzip")
		request.Header.Set("User-Agent", "gym-observer")
		response, err := c.http.Do(request)
		if err != nil {
			return nil, err
		}
		location := response.Header.Get("Location")
		if response.StatusCode/100 != 3 || location == "" {
			defer response.Body.Close()
			return read(response, at)
		}
		response.Body.Close()
		next, err := at.Parse(location)
		switch {
		case err != nil:
			return nil, &Error{"redirects to what is no address", err}
		case !sameHost(at, next):
			return nil, &Error{"redirects to another host", nil}
		case hops == redirects:
			return nil, &Error{"redirects without an end", nil}
		}
		at = next
	}
}

// read returns the body, at most [Bytes] of it both as it comes and as it unpacks:
// a kilobyte can unpack to a gigabyte, and a gigabyte to nothing.
func read(response *http.Response, from *url.URL) ([]byte, error) {
	if response.StatusCode != http.StatusOK {
		if response.StatusCode == http.StatusBadRequest && from.Scheme == "http" {
			said, _ := io.ReadAll(io.LimitReader(response.Body, 512))
			if strings.Contains(string(said), "HTTP request to an HTTPS server") { // net/http's own words
				return nil, &Error{"it speaks TLS: ask for https://" + from.Host, nil}
			}
		}
		return nil, &Error{strings.TrimSpace(fmt.Sprintf("%d %s", response.StatusCode, http.StatusText(response.StatusCode))), nil}
	}
	arriving := &io.LimitedReader{R: response.Body, N: Bytes}
	var unpacked io.Reader = arriving
	if response.Header.Get("Content-Encoding") == "gzip" {
		packed, err := gzip.NewReader(arriving)
		if err != nil {
			return nil, orTooLong(arriving, fmt.Errorf("reading gzip: %w", err))
		}
		unpacked = packed
	}
	body, err := io.ReadAll(io.LimitReader(unpacked, Bytes))
	if len(body) == Bytes {
		return nil, tooLong
	}
	if err != nil || arriving.N == 0 {
		return nil, orTooLong(arriving, err)
	}
	return body, nil
}

var tooLong = &Error{"answers with a megabyte or more", nil}

// orTooLong blames the bound where that is what ended the body.
func orTooLong(arriving *io.LimitedReader, err error) error {
	if arriving.N == 0 {
		return tooLong
	}
	return err
}

// Origin is what a header is meant for: scheme, host and port.
func Origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(net.JoinHostPort(u.Hostname(), port))
}

// sameHost lets a redirect change the path, or http into https: the same host on
// another port may be another's process.
func sameHost(from, to *url.URL) bool {
	if Origin(from) == Origin(to) {
		return true
	}
	return strings.EqualFold(from.Hostname(), to.Hostname()) && from.Scheme == "http" && to.Scheme == "https"
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func reasonOf(err error) string {
	var (
		name        *net.DNSError
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.As(err, &name) && name.IsNotFound:
		return "no such host"
	case errors.As(err, &certificate):
		return "its certificate is not trusted: " + certificate.Err.Error()
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "it does not speak TLS"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "closes the connection"
	}
	// The address stands beside it already.
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return "no answer: " + err.Error()
}
