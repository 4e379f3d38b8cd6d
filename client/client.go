// Package client asks the live pages of observed processes ([observer.Handler])
// what slows them down, and follows the answer from process to process: [Get] asks
// one, [GetAll] many, and [Follow] begins at one and goes on to the servers that it
// waits for, until it finds what limits the whole.
//
// A page is not trusted. It has 2 s and a megabyte, compressed or not; redirects
// are followed on the same host only; headers go to named hosts alone; at most 32
// connections are open at once, none through a proxy, and none afterwards. What a
// page says is handed on as it says it: escape it before a terminal or a browser
// shows it.
package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/gym-observer/observer/internal/fetch"
)

// Get asks the page at a URL. A host and a port are enough: http and
// [DefaultPath] are assumed. It may be called from any goroutine. Without an
// answer the Report is zero, but for its URL, and the error is a *[Failure].
func Get(ctx context.Context, url string, options ...Option) (Report, error) {
	a := newAsker(options)
	u, err := pageAt(url)
	if err != nil {
		return Report{}, &Failure{Reason: err.Error(), Err: err}
	}
	a.name(u)
	return a.ask(ctx, u)
}

// Answer is what became of one URL: a Report, or else Err, as [Get] returns them.
type Answer struct {
	Report Report
	Err    error
}

// GetAll asks the pages at all of the URLs, at most 32 at once, and returns their
// answers in the same order.
func GetAll(ctx context.Context, urls []string, options ...Option) []Answer {
	a := newAsker(options)
	answers := make([]Answer, len(urls))
	pages := make([]*url.URL, len(urls))
	for i, text := range urls {
		u, err := pageAt(text)
		if err != nil {
			answers[i].Err = &Failure{Reason: err.Error(), Err: err}
			continue
		}
		a.name(u)
		pages[i] = u
	}
	var wg sync.WaitGroup
	for i, u := range pages {
		if u != nil {
			wg.Go(func() { answers[i].Report, answers[i].Err = a.ask(ctx, u) })
		}
	}
	wg.Wait()
	return answers
}

// Failure is why a page has no answer.
type Failure struct {
	URL    string // what was asked, without user, password and query; "" where there is nothing to ask
	Reason string // in a few words: "refused", "404 Not Found", "not JSON", "timed out after 2s"
	Err    error  // what is behind it, or nil
}

func (f *Failure) Error() string {
	if f.URL == "" {
		return f.Reason
	}
	return f.URL + ": " + f.Reason
}

// Unwrap returns what is behind it.
func (f *Failure) Unwrap() error { return f.Err }

// ask asks one page. The error is a *Failure.
func (a *asker) ask(ctx context.Context, page *url.URL) (Report, error) {
	u := *page
	query := u.Query()
	query.Set("format", "json")
	query.Set("history", fmt.Sprint(recent.Seconds())) // the rest of the ten minutes would be read by nobody
	u.RawQuery = query.Encode()
	var header http.Header
	if a.named[fetch.Origin(&u)] || a.port != 0 {
		header = a.header
	}
	body, err := a.client.Get(ctx, &u, header)
	if err != nil {
		return Report{URL: shown(page)}, &Failure{URL: shown(page), Reason: err.Error(), Err: err}
	}
	report, err := decode(body)
	report.URL = shown(page)
	if err != nil {
		return Report{URL: report.URL}, &Failure{URL: report.URL, Reason: err.Error(), Err: err}
	}
	return report, nil
}
