package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/client"
)

// why follows the servers that a process waits for.
func why(ctx context.Context, args []string, stdout io.Writer) (int, error) {
	f := newFlags("observer why")
	asJSON := f.Bool("json", false, "print what was found as JSON")
	port := f.Int("port", 0, "the `port` of every process's page, where that is not the one that it serves on")
	pages := make(map[string]string)
	f.Func("page", "where the page of one peer is: `PEER=URL`, as in model:8000=model:6060; repeatable", pairs(pages, "PEER=URL, as in model:8000=model:6060"))
	python := newPrometheusFlags(f)
	selectors := make(map[string]string)
	f.Func("query", "which series in Prometheus are a peer's, where its name does not tell: `PEER=SELECTOR`; repeatable",
		pairs(selectors, `PEER=SELECTOR, as in model:8000=job="model"`))
	urls, err := f.parse(args)
	if err != nil {
		return failed, err
	}
	if err := needURLs(urls, 1); err != nil {
		return failed, err
	}
	options := append(f.options(), client.WithPort(*port))
	for peer, page := range pages {
		options = append(options, client.WithPage(peer, page))
	}
	source, err := python.source(f)
	if err != nil {
		return failed, err
	}
	chain, err := client.Follow(ctx, urls[0], options...)
	if err != nil {
		return failed, err
	}
	notes := source.notes(ctx, chain, selectors)
	code := fine
	switch {
	case len(chain.Limits) > 0:
		code = slow
	case chain.Links[0].Report.Diagnosis.Verdict == "":
		code = failed
	}
	if *asJSON {
		return code, writeJSON(stdout, chainJSON(chain, notes))
	}
	_, err = io.WriteString(stdout, chainText(chain, notes))
	return code, err
}

// chainText is a line a process, and the sentence.
func chainText(c client.Chain, notes map[int]string) string {
	type line struct{ name, pid, verdict, words string }
	var lines []line
	order, rails := tree(c)
	for n, i := range order {
		link := &c.Links[i]
		l := line{name: rails[n] + name(nameOf(c, i))}
		switch d := &link.Report.Diagnosis; {
		case link.Again >= 0 && link.Ring:
			l.words = fmt.Sprintf("a ring: this is %s again, which waits for it; not followed", name(nameOf(c, link.Again)))
		case link.Again >= 0:
			l.words = fmt.Sprintf("is %s, which stands in another place here", name(nameOf(c, link.Again)))
		case link.Err != nil && link.Page == "":
			l.words = text(reasonOf(link.Err))
		case link.Err != nil:
			l.words = fmt.Sprintf("no observer there (asked %s: %s)", name(link.Page), text(reasonOf(link.Err)))
		default:
			if link.Report.PID != 0 {
				l.pid = fmt.Sprintf("pid %d", link.Report.PID)
			}
			l.verdict, l.words = name(string(d.Verdict)), text(link.Report.Words())
			if d.Verdict == "" {
				l.verdict = "-"
			}
		}
		if link.More > 0 {
			l.words += fmt.Sprintf("; %d more servers are not followed", link.More)
		}
		if notes[i] != "" {
			l.words += "; " + text(notes[i])
		}
		lines = append(lines, l)
	}
	var names, pids, verdicts int
	for _, l := range lines {
		names = max(names, utf8.RuneCountInString(l.name))
		pids = max(pids, utf8.RuneCountInString(l.pid))
		verdicts = max(verdicts, utf8.RuneCountInString(l.verdict))
	}
	// A name as long as a line would leave no room for what is said of it.
	names, verdicts = min(names, 32), min(verdicts, 14)
	var b strings.Builder
	for _, l := range lines {
		shown := cell(l.name, names) + "  " + cell(l.pid, pids) + "  " + cell(l.verdict, verdicts) + "  " + l.words
		b.WriteString(strings.TrimRight(shown, " ") + "\n")
	}
	b.WriteString(plain(c.Summary, 4*textLength) + "\n")
	return b.String()
}

// tree orders the links as they are drawn, each below the one that waits for it, and
// draws what stands before their names.
func tree(c client.Chain) (order []int, rails []string) {
	var draw func(i int, rail, below string)
	draw = func(i int, rail, below string) {
		order, rails = append(order, i), append(rails, rail)
		var children []int
		for j := range c.Links {
			if c.Links[j].Parent == i {
				children = append(children, j)
			}
		}
		for n, j := range children {
			if n == len(children)-1 {
				draw(j, below+"└ ", below+"  ")
			} else {
				draw(j, below+"├ ", below+"│ ")
			}
		}
	}
	draw(0, "", "")
	return order, rails
}

// nameOf is what a person calls a process.
func nameOf(c client.Chain, i int) string {
	link := &c.Links[i]
	host, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(link.Page, "http://"), "https://"), "/")
	return cmp.Or(link.Report.Name, link.Peer.Host, host)
}

func chainJSON(c client.Chain, notes map[int]string) any {
	type limit struct {
		Link  int            `json:"link"`
		Cause observer.Cause `json:"cause,omitempty"`
		Share float64        `json:"share"`
	}
	type link struct {
		Peer       *observer.Peer `json:"peer,omitempty"`
		Parent     int            `json:"parent"`
		Depth      int            `json:"depth"`
		Share      float64        `json:"share"`
		Page       string         `json:"page,omitempty"`
		Report     *client.Report `json:"report,omitempty"`
		Error      string         `json:"error,omitempty"`
		Again      *int           `json:"again,omitempty"`
		Ring       bool           `json:"ring,omitempty"`
		More       int            `json:"more,omitempty"`
		Prometheus string         `json:"prometheus,omitempty"`
	}
	all := struct {
		Summary string  `json:"summary"`
		Limits  []limit `json:"limits"`
		Links   []link  `json:"links"`
	}{Summary: c.Summary, Limits: []limit{}}
	for _, l := range c.Limits {
		all.Limits = append(all.Limits, limit(l))
	}
	for i := range c.Links {
		l := &c.Links[i]
		encoded := link{Parent: l.Parent, Depth: l.Depth, Share: l.Share, Page: l.Page, Ring: l.Ring, More: l.More, Prometheus: notes[i]}
		if l.Parent >= 0 {
			encoded.Peer = &l.Peer
		}
		switch {
		case l.Again >= 0:
			encoded.Again = &l.Again
		case l.Err != nil:
			encoded.Error = reasonOf(l.Err)
		default:
			encoded.Report = &l.Report
		}
		all.Links = append(all.Links, encoded)
	}
	return all
}
