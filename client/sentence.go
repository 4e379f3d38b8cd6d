package client

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gym-observer/observer"
)

// namedLimits is how many the sentence has. Beyond, a list is easier to read than
// a sentence, and Limits is one.
const namedLimits = 4

// sentence says what limits the stack.
func (c *Chain) sentence() string {
	if len(c.Limits) == 0 {
		return c.nothing()
	}
	var parts []string
	for _, limit := range c.Limits[:min(len(c.Limits), namedLimits)] {
		part := c.describe(limit)
		if len(c.Limits) > 1 {
			part = fmt.Sprintf("%s (%.0f %%)", part, 100*limit.Share)
		}
		parts = append(parts, part)
	}
	if more := len(c.Limits) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	sentence := "The stack is limited by " + strings.Join(parts, "; and by ")
	if c.anyCut() {
		sentence += ". Not all of it was asked"
	}
	return sentence + "."
}

// nothing is the sentence where nobody is slow.
func (c *Chain) nothing() string {
	first := c.Links[0].Report.Diagnosis
	switch {
	case first.Verdict == "":
		return "Nothing can be said yet: " + strings.TrimSuffix(first.Summary, ".") + "."
	case first.Verdict != observer.CauseDownstream:
		return "Nothing limits this stack that these processes can see."
	}
	// The end that is waited for most.
	end, ring := 0, false
	for i, link := range c.Links {
		ring = ring || link.Ring
		if link.Again < 0 && link.Share > 0 && link.Depth > c.Links[end].Depth ||
			link.Again < 0 && link.Depth == c.Links[end].Depth && link.Share > c.Links[end].Share {
			end = i
		}
	}
	switch {
	case ring:
		return "These processes wait for each other in a ring, and none of them has another cause."
	case c.Links[end].Report.Diagnosis.Verdict == observer.CauseDownstream:
		return fmt.Sprintf("The stack waits for servers that %s does not name.", c.who(end))
	default:
		return fmt.Sprintf("Nothing limits this stack that these processes can see: it waits for %s, which is not slow by what it sees.", c.who(end))
	}
}

func (c *Chain) anyCut() bool {
	return slices.ContainsFunc(c.Links, func(l Link) bool {
		var f *Failure
		return errors.As(l.Err, &f) && strings.HasPrefix(f.Reason, "not asked")
	})
}

// describe is a process, a cause and a line.
func (c *Chain) describe(limit Limit) string {
	link := &c.Links[limit.Link]
	if link.Err != nil {
		var f *Failure
		if errors.As(link.Err, &f) {
			return fmt.Sprintf("%s, where no observer answers (%s)", link.Peer.Host, f.Reason)
		}
		return link.Peer.Host
	}
	text := fmt.Sprintf("%s: %s", c.who(limit.Link), limit.Cause)
	if limit.Cause == link.Report.Diagnosis.Verdict {
		if place := link.Report.Place(); place != "" {
			return text + " " + place
		}
	}
	if f, ok := link.Report.Finding(limit.Cause); ok && f.Evidence != "" {
		text += ", " + f.Evidence
	}
	return text
}

// who is how a person finds a process.
func (c *Chain) who(i int) string {
	link := &c.Links[i]
	name := link.Report.Name
	if name == "" {
		name = link.Peer.Host
	}
	if name == "" {
		name = hostOf(link.Page)
	}
	if link.Report.PID != 0 {
		return fmt.Sprintf("%s (pid %d)", name, link.Report.PID)
	}
	return name
}

func hostOf(page string) string {
	u, err := url.Parse(page)
	if err != nil {
		return page
	}
	return u.Host
}

// Place says where in the code the verdict's cause is: "in database/sql.(*DB).conn,
// called at store.go:88", or "at store.(*Cache).Put (store/cache.go:42), held across
// net.Dial (store/cache.go:51)". It is empty where no site is known.
func (r Report) Place() string {
	sites, verdict := r.Diagnosis.Sites, r.Diagnosis.Verdict
	var parts []string
	if i := slices.IndexFunc(sites, func(s observer.Site) bool { return s.Kind != "hold" }); i >= 0 {
		switch s := sites[i]; {
		case s.In != "":
			parts = append(parts, fmt.Sprintf("in %s, called at %s", s.In, s.Location))
		case verdict == observer.CauseDownstream:
			parts = append(parts, "called at "+s.Location)
		default:
			parts = append(parts, fmt.Sprintf("at %s (%s)", s.Function, s.Location))
		}
	}
	// Who is further on holds a mutex. For other causes that is a guess.
	if i := slices.IndexFunc(sites, func(s observer.Site) bool { return s.Kind == "hold" }); i >= 0 && verdict == observer.CauseLock {
		if s := sites[i]; s.In != "" {
			parts = append(parts, fmt.Sprintf("held across %s (%s)", s.In, s.Location))
		} else {
			parts = append(parts, fmt.Sprintf("held in %s (%s)", s.Function, s.Location))
		}
	}
	return strings.Join(parts, ", ")
}

// Words is what a verdict rests on, in one sentence without its name and without
// advice: the numbers, the line, the servers that are waited for.
func (r Report) Words() string {
	if words := r.wordsOfDownstream(); words != "" {
		return words
	}
	d := &r.Diagnosis
	words := d.Summary
	if before, after, ok := strings.Cut(words, string(d.Verdict)+": "); ok && d.Verdict != "" && (before == "" || strings.HasSuffix(before, ": ")) {
		words = before + after
	}
	f, _ := r.Finding(d.Verdict)
	if f.Advice != "" {
		// What holds as well may follow it, in the place of its full stop.
		words = strings.Replace(words, ". "+strings.TrimSuffix(f.Advice, "."), "", 1)
	}
	words = strings.TrimRight(words, ". ")
	if len(d.Sites) > 0 && !strings.Contains(words, d.Sites[0].Location) {
		if place := r.Place(); place != "" {
			words += "; " + place
		}
	}
	if waitsForPeers(r) {
		if peers := r.peersBeside(words); peers != "" {
			words += "; " + peers
		}
	}
	return words
}

// wordsOfDownstream says first what whoever follows the servers looks for: which one,
// and where it is called. It is empty where no server has a name.
func (r Report) wordsOfDownstream() string {
	d := &r.Diagnosis
	f, ok := r.Finding(observer.CauseDownstream)
	if !ok || d.Verdict != observer.CauseDownstream || len(d.Peers) == 0 || d.Peers[0].Host == "" {
		return ""
	}
	first := d.Peers[0]
	words := fmt.Sprintf("%s of %s outbound requests wait for %s, %s each",
		count(first.Waiting), count(max(f.Load, first.Waiting)), first.Host, short(first.Wait))
	if place := r.Place(); place != "" {
		words += ", " + place
	}
	if stale, _, ok := strings.Cut(d.Summary, string(d.Verdict)+": "); ok && strings.HasSuffix(stale, ": ") {
		words = stale + words // "as of 5m ago: "
	}
	if more := r.peersBeside(words); more != "" {
		words += "; " + more
	}
	return words
}

// peersBeside names the servers that a sentence leaves out.
func (r Report) peersBeside(words string) string {
	var parts []string
	for _, p := range r.Diagnosis.Peers {
		if len(parts) < 3 && p.Waiting > 0 && p.Host != "" && !mentions(words, p.Host) {
			parts = append(parts, fmt.Sprintf("%s for %s (%s each)", count(p.Waiting), p.Host, short(p.Wait)))
		}
	}
	return strings.Join(parts, ", ")
}

// mentions tells model:80 from the beginning of model:8000.
func mentions(words, host string) bool {
	for {
		_, after, ok := strings.Cut(words, host)
		if !ok || after == "" || after[0] < '0' || after[0] > '9' {
			return ok
		}
		words = after
	}
}
