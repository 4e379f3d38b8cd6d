package client

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/internal/fetch"
)

const (
	// maxDepth and maxProcesses end what no ring ends. A rollout passes through
	// four processes; a stack that needs more than these is not understood from
	// one list.
	maxDepth     = 8
	maxProcesses = 64

	// maxPeers is how many servers of one process are followed: as many as a
	// Diagnosis has.
	maxPeers = 8

	// worthFollowing is the part of the first peer's waiting from which on a peer is
	// followed. One that is hardly waited for may be slow, and does not limit.
	worthFollowing = 0.1
)

// Chain is what [Follow] found.
type Chain struct {
	Links   []Link  // breadth first: the first is what was asked
	Limits  []Limit // what limits the stack, the larger share first; empty where nothing does that these processes can see
	Summary string  // one sentence that says so
}

// Link is one process on the way, or what stands where its page should be.
type Link struct {
	Peer   observer.Peer // as the process before it sees it; zero for the first
	Parent int           // the index of the process before it; -1 for the first
	Depth  int           // 0 for the first
	Share  float64       // of the first one's waiting, along the way; 1 for the first
	Page   string        // what was asked; "" where there was nothing to ask
	Report Report        // zero where Err is not nil, or Again is not -1
	Err    error         // why there is no report, a *[Failure]
	Again  int           // the index of the link that has this process already, from where alone it is followed; else -1
	Ring   bool          // Again is on the way here: a calls b calls a
	More   int           // peers of this one that are not in Links, as they are hardly waited for or too many
}

// Limit is one answer to the question what limits the stack.
type Limit struct {
	Link  int            // its index
	Cause observer.Cause // the verdict, or the first of Also where what it waits for is not slow; "" where nobody answers
	Share float64        // of the first one's waiting
}

// Follow asks the page at a URL, and while a verdict is downstream, or a wait for
// the network, the servers that the process waits for, and theirs: breadth first,
// each process once, to a depth of 8 and 64 processes. Peers have their pages on the
// port that they serve, at [DefaultPath], unless [WithPage] or [WithPort] say
// otherwise. What does not answer ends its branch and says why.
//
// The error is that of the first page, or of the options; the Chain then has that
// link alone. A ctx that ends cuts the rest off, as failures of its links.
func Follow(ctx context.Context, page string, options ...Option) (Chain, error) {
	f := &following{asker: newAsker(options), links: []Link{{Parent: -1, Again: -1, Share: 1}}}
	for peer, where := range f.pages {
		if _, err := pageAt(where); err != nil {
			return f.failed(fmt.Errorf("the page of %s: %w", peer, err))
		}
	}
	if f.port < 0 || f.port > 65535 {
		return f.failed(fmt.Errorf("%d is no port", f.port))
	}
	first, err := pageAt(page)
	if err != nil {
		return f.failed(err)
	}
	f.first = first
	f.name(first)
	f.pagesOf = []*url.URL{first}
	for from := 0; from < len(f.links); {
		to := len(f.links)
		f.askLevel(ctx, from, to)
		for i := from; i < to; i++ {
			f.recognize(i)
			f.addPeers(i)
		}
		from = to
	}
	if err := f.links[0].Err; err != nil {
		return f.failed(err)
	}
	f.findRings()
	f.share()
	chain := Chain{Links: f.links}
	chain.Limits = chain.limits()
	chain.Summary = chain.sentence()
	return chain, nil
}

// following is a Follow under way.
type following struct {
	*asker
	first   *url.URL
	links   []Link
	pagesOf []*url.URL // of each link; nil where there is nothing to ask
	asked   int
}

func (f *following) failed(err error) (Chain, error) {
	if _, ok := err.(*Failure); !ok {
		err = &Failure{Reason: err.Error(), Err: err}
	}
	f.links[0].Err = err
	return Chain{Links: f.links[:1], Summary: "Nothing can be said: " + err.Error() + "."}, err
}

// askLevel asks the links of one depth, at once as far as the bounds let it.
func (f *following) askLevel(ctx context.Context, from, to int) {
	var wg sync.WaitGroup
	for i := from; i < to; i++ {
		link, page := &f.links[i], f.pagesOf[i]
		if page == nil || link.Again >= 0 {
			continue
		}
		link.Page = shown(page)
		if f.asked == maxProcesses {
			link.Err = &Failure{URL: link.Page, Reason: fmt.Sprintf("not asked, as %d processes were", maxProcesses)}
			continue
		}
		f.asked++
		wg.Go(func() { link.Report, link.Err = f.ask(ctx, page) })
	}
	wg.Wait()
	for i := max(from, 1); i < to; i++ {
		// The first one is for the sentence of the whole.
		if link := &f.links[i]; link.Err == nil && link.Again < 0 && link.Report.Diagnosis.Verdict == "" {
			link.Err = &Failure{URL: link.Page, Reason: "no verdict: " + link.Report.Diagnosis.Summary}
			link.Report = Report{}
		}
	}
}

// recognize finds a process that was met under another name: a host has several,
// and a ring that goes through two of them would be followed to the last depth.
// A window's end in nanoseconds is as good as a name of its own.
func (f *following) recognize(i int) {
	link := &f.links[i]
	d := &link.Report.Diagnosis
	if link.Err != nil || link.Again >= 0 || d.At.IsZero() {
		return
	}
	for j := range i {
		other := &f.links[j].Report
		if f.links[j].Again < 0 && other.Diagnosis.At.Equal(d.At) && other.Diagnosis.Window == d.Window &&
			other.PID == link.Report.PID && other.Name == link.Report.Name {
			f.again(i, j)
			return
		}
	}
}

func (f *following) again(i, j int) {
	f.links[i].Again, f.links[i].Report = j, Report{}
}

// findRings marks the links that lead back to where they come from. Being above
// in the list is not enough: two servers that a driver calls may call each other.
func (f *following) findRings() {
	for i := range f.links {
		if link := &f.links[i]; link.Again >= 0 {
			link.Ring = f.reaches(link.Again, link.Parent, make([]bool, len(f.links)))
		}
	}
}

func (f *following) reaches(from, to int, seen []bool) bool {
	if from == to {
		return true
	}
	if seen[from] {
		return false
	}
	seen[from] = true
	for j := range f.links {
		if link := &f.links[j]; link.Parent == from {
			next := j
			if link.Again >= 0 {
				next = link.Again
			}
			if f.reaches(next, to, seen) {
				return true
			}
		}
	}
	return false
}

// addPeers adds the servers that a link waits for.
func (f *following) addPeers(i int) {
	link := f.links[i]
	if link.Err != nil || link.Again >= 0 || !waitsForPeers(link.Report) {
		return
	}
	peers := link.Report.Diagnosis.Peers // sorted by decode
	added := 0
	for _, peer := range peers {
		switch {
		case peer.Host == "" || peer.Host == others || !(peer.Waiting > 0):
			continue
		case added == maxPeers || peer.Waiting < worthFollowing*peers[0].Waiting:
			f.links[i].More++
			continue
		}
		added++
		child := Link{Peer: peer, Parent: i, Depth: link.Depth + 1, Again: -1}
		page, err := f.pageOf(peer.Host)
		switch {
		case err != nil:
			child.Err = &Failure{Reason: err.Error(), Err: err}
		case child.Depth > maxDepth:
			child.Page = shown(page)
			child.Err = &Failure{URL: child.Page, Reason: fmt.Sprintf("not asked, as it is %d processes away", child.Depth)}
			page = nil
		}
		f.links = append(f.links, child)
		f.pagesOf = append(f.pagesOf, page)
		if page == nil {
			continue
		}
		for j, known := range f.pagesOf[:len(f.links)-1] {
			if known != nil && f.links[j].Again < 0 && fetch.Origin(known) == fetch.Origin(page) && known.Path == page.Path {
				f.again(len(f.links)-1, j)
				break
			}
		}
	}
}

// others is what a Diagnosis calls the peers that it does not name.
const others = "others"

// waitsForPeers tells whether to go on from here.
func waitsForPeers(r Report) bool {
	switch r.Diagnosis.Verdict {
	case observer.CauseDownstream:
		return true
	case observer.CauseWait:
		return len(r.Diagnosis.Sites) > 0 && readsNetwork(r.Diagnosis.Sites[0].In)
	}
	return false
}

// readsNetwork tells a wait for another server from one for a connection of the
// own pool (http.(*Transport).getConn, sql.(*DB).conn), a channel or a sleep.
func readsNetwork(in string) bool {
	for _, reader := range []string{"net.(*", "crypto/tls.(*", "net/http.(*persistConn).", "net/http.(*http2", "bufio.(*Reader).", "io.Read"} {
		if strings.HasPrefix(in, reader) {
			return true
		}
	}
	return false
}

// pageOf says where the page of a peer is. The peer's name comes from a stranger:
// what is no plain host and port is not asked.
func (f *following) pageOf(peer string) (*url.URL, error) {
	if page, ok := f.pages[peer]; ok {
		return pageAt(page)
	}
	host, port := peer, ""
	if h, p, err := net.SplitHostPort(peer); err == nil {
		host, port = h, p
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if n, err := strconv.Atoi(port); !isHost(host) || port != "" && (err != nil || n < 1 || n > 65535) {
		return nil, fmt.Errorf("not a host and port; -page says where its page is")
	}
	page := &url.URL{Scheme: "http", Path: DefaultPath}
	if f.port != 0 {
		page.Scheme, page.Path, port = f.first.Scheme, f.first.Path, strconv.Itoa(f.port)
	}
	if port == "" {
		port = "80"
	}
	page.Host = net.JoinHostPort(host, port)
	return page, nil
}

func isHost(host string) bool {
	if host == "" || len(host) > 255 {
		return false
	}
	for _, c := range []byte(host) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
		case c == ':' && net.ParseIP(host) != nil:
		default:
			return false
		}
	}
	return true
}

// share hands the waiting of each process on to those that it waits for. It goes
// once from the first link to the last: a way that leads back adds nothing.
func (f *following) share() {
	for i := range f.links {
		link := &f.links[i]
		if link.Again >= 0 {
			continue
		}
		waiting := 0.0
		for _, peer := range link.Report.Diagnosis.Peers {
			waiting += max(0, peer.Waiting)
		}
		for j := i + 1; j < len(f.links); j++ {
			child := &f.links[j]
			if child.Parent != i || !(waiting > 0) {
				continue
			}
			child.Share = link.Share * (child.Peer.Waiting / waiting)
			if child.Again > j {
				f.links[child.Again].Share += child.Share
			}
		}
	}
}

// limits finds what limits the stack.
func (c *Chain) limits() []Limit {
	l := limiting{Chain: c, known: make(map[int][]Limit)}
	all := slices.Clone(l.of(0))
	slices.SortStableFunc(all, func(a, b Limit) int {
		return cmp.Or(descending(a.Share, b.Share), cmp.Compare(c.Links[a.Link].Depth, c.Links[b.Link].Depth), cmp.Compare(a.Link, b.Link))
	})
	return all
}

// limiting remembers what it found: a stranger's links may lead to one process by
// many ways.
type limiting struct {
	*Chain
	known map[int][]Limit
}

// of finds what limits a link: what limits those that it waits for, and where
// nothing does, a cause of its own.
func (l *limiting) of(i int) []Limit {
	found, ok := l.known[i]
	if !ok {
		found = l.find(i)
		l.known[i] = found
	}
	return found
}

func (l *limiting) find(i int) (found []Limit) {
	link := &l.Links[i]
	if link.Err != nil {
		return []Limit{{Link: i, Share: link.Share}}
	}
	silent, elsewhere := 0, false
	for j := i + 1; j < len(l.Links); j++ {
		switch child := &l.Links[j]; {
		case child.Parent != i:
		case child.Again >= 0:
			// It is counted where it was met first.
			elsewhere = elsewhere || !child.Ring && len(l.of(child.Again)) > 0
		case child.Err != nil:
			silent++
			fallthrough
		default:
			found = append(found, l.of(j)...)
		}
	}
	own := l.own(i)
	switch {
	case own.Cause == observer.CauseWait && len(found) == silent && !elsewhere:
		// It waits for what has no page. Its own line is more than that name.
		return []Limit{own}
	case len(found) > 0 || elsewhere || own.Cause == "":
		return found
	}
	return []Limit{own}
}

// own is the cause that a process has of its own. Where that is its servers and
// none of them is slow, a cause that held as well is the better answer: a driver
// whose limit is too low waits for nothing else either.
func (c *Chain) own(i int) Limit {
	d := &c.Links[i].Report.Diagnosis
	limit := Limit{Link: i, Share: c.Links[i].Share}
	switch d.Verdict {
	case observer.CauseNone:
	case observer.CauseDownstream:
		for _, also := range d.Also {
			if also != observer.CauseDownstream && also != observer.CauseNone {
				limit.Cause = also
				break
			}
		}
	default:
		limit.Cause = d.Verdict
	}
	return limit
}
