package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gym-observer/observer/client"
	"github.com/gym-observer/observer/internal/fetch"
)

// prometheus is asked for the processes that have no page, as those in Python have
// none. They export under the same names. A nil one knows nothing.
type prometheus struct {
	base   *url.URL
	header http.Header
	client *fetch.Client
	slots  chan struct{} // for its connections
}

// prometheusConnections are of the 32 that there may be at once.
const prometheusConnections = 2

// over is how far back rates and quantiles look: OpenTelemetry exports once a
// minute by default, and a rate needs two points, better three.
const over = "5m"

// prometheusFlags are those of top and why.
type prometheusFlags struct {
	address string
	headers []string
}

func newPrometheusFlags(f *flags) *prometheusFlags {
	p := new(prometheusFlags)
	f.StringVar(&p.address, "prometheus", "", "the `URL` of a Prometheus that has the metrics of processes without a page, as those in Python are")
	f.Func("prometheus-header", "a `header` for it, as -header, which it does not get; repeatable", func(text string) error {
		p.headers = append(p.headers, text)
		return nil
	})
	return p
}

func (p *prometheusFlags) source(f *flags) (*prometheus, error) {
	if p.address == "" {
		if len(p.headers) > 0 {
			return nil, errors.New("-prometheus-header needs -prometheus")
		}
		return nil, nil
	}
	address := p.address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	base, err := url.Parse(address)
	if err != nil || base.Hostname() == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("-prometheus is the URL of a Prometheus, as in http://localhost:9090")
	}
	base.Path = "/" + strings.TrimPrefix(base.Path, "/") // JoinPath keeps a path that has none as it is
	source := &prometheus{base: base, header: http.Header{}, client: fetch.New(f.timeout, f.roots), slots: make(chan struct{}, prometheusConnections)}
	for _, text := range p.headers {
		if err := addHeaders(source.header, text); err != nil {
			return nil, fmt.Errorf("-prometheus-header: %w", err)
		}
	}
	return source, nil
}

// measured is what Prometheus has of one process. What it does not have is NaN.
type measured struct {
	job, instance             string
	lag                       float64 // 99th percentile, milliseconds
	inFlight, responses       float64 // requests served, and responses a second
	outbound                  float64 // outbound requests in flight
	resident, active, offered float64 // rollouts, and those offered a second
}

// The names are as OpenTelemetry's exporters translate them, with the unit at the
// end and without, and as they are where nothing translates.
var queries = []struct {
	expression string // %s is the selector
	into       func(*measured) *float64
}{
	{`histogram_quantile(0.99, sum by (le, job, instance) (rate({__name__=~"gym[._]event_loop[._]lag_ms(_milliseconds)?_bucket"%s}[` + over + `])))`,
		func(m *measured) *float64 { return &m.lag }},
	{`sum by (job, instance) ({__name__=~"gym[._]server[._]requests[._]in_flight"%s})`,
		func(m *measured) *float64 { return &m.inFlight }},
	{`sum by (job, instance) (rate({__name__=~"gym[._]server[._]responses_total"%s}[` + over + `]))`,
		func(m *measured) *float64 { return &m.responses }},
	{`sum by (job, instance) ({__name__=~"gym[._]http[._]client[._]requests[._]in_flight"%s})`,
		func(m *measured) *float64 { return &m.outbound }},
	{`sum by (job, instance) ({__name__=~"gym[._]driver[._]rollouts[._]resident"%s})`,
		func(m *measured) *float64 { return &m.resident }},
	{`sum by (job, instance) ({__name__=~"gym[._]driver[._]rollouts[._]active"%s})`,
		func(m *measured) *float64 { return &m.active }},
	{`sum by (job, instance) (rate({__name__=~"gym[._]driver[._]rollouts[._]offered_total"%s}[` + over + `]))`,
		func(m *measured) *float64 { return &m.offered }},
}

// withoutPage leaves out the processes that have a page: they export a load as well.
const withoutPage = ` unless on (job, instance) count by (job, instance) ({__name__=~"gym[._]load"})`

// processes returns those that a selector selects, by job and instance. Without a
// selector they are all that export no load, which are those without a page.
func (p *prometheus) processes(ctx context.Context, selector string) ([]measured, error) {
	selector = strings.TrimSpace(selector)
	selector = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(selector, "{"), "}"))
	suffix := withoutPage
	if selector != "" {
		selector, suffix = ","+selector, ""
	}
	results := make([][]point, len(queries))
	errs := make([]error, len(queries))
	var wg sync.WaitGroup
	for i, q := range queries {
		wg.Go(func() { results[i], errs[i] = p.query(ctx, fmt.Sprintf(q.expression, selector)+suffix) })
	}
	wg.Wait()
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	byName := make(map[[2]string]*measured)
	for i, result := range results {
		for _, point := range result {
			key := [2]string{point.Metric.Job, point.Metric.Instance}
			if byName[key] == nil {
				nan := math.NaN()
				byName[key] = &measured{job: key[0], instance: key[1], lag: nan, inFlight: nan, responses: nan, outbound: nan, resident: nan, active: nan, offered: nan}
			}
			*queries[i].into(byName[key]) = point.value
		}
	}
	var all []measured
	for _, m := range byName {
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b measured) int {
		return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.instance, b.instance))
	})
	return all, nil
}

// point is one entry of an instant vector.
type point struct {
	Metric struct {
		Job      string `json:"job"`
		Instance string `json:"instance"`
	} `json:"metric"`
	Value [2]any `json:"value"` // seconds since 1970, and the value as text
	value float64
}

func (p *prometheus) query(ctx context.Context, expression string) ([]point, error) {
	p.slots <- struct{}{}
	defer func() { <-p.slots }()
	u := p.base.JoinPath("api/v1/query")
	u.RawQuery = url.Values{"query": {expression}}.Encode()
	body, err := p.client.Get(ctx, u, p.header)
	if err != nil {
		return nil, fmt.Errorf("asking Prometheus at %s: %w", p.base.Host, err)
	}
	var answer struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			ResultType string  `json:"resultType"`
			Result     []point `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status != "success" || answer.Data.ResultType != "vector" {
		return nil, fmt.Errorf("asking Prometheus at %s: it does not answer as one does", p.base.Host)
	}
	points := answer.Data.Result
	for i := range points {
		text, _ := points[i].Value[1].(string)
		if points[i].value, err = strconv.ParseFloat(text, 64); err != nil {
			points[i].value = math.NaN()
		}
	}
	return points, nil
}

// notes say what Prometheus has of the links that no observer answers for, by their
// index.
func (p *prometheus) notes(ctx context.Context, c client.Chain, selectors map[string]string) map[int]string {
	notes := make(map[int]string)
	if p == nil {
		return notes
	}
	all, err := p.processes(ctx, "")
	for i, link := range c.Links {
		if link.Err == nil || link.Parent < 0 {
			continue
		}
		found, err := ofPeer(all, link.Peer.Host), err
		if selector := selectors[link.Peer.Host]; selector != "" {
			found, err = p.processes(ctx, selector)
		}
		switch {
		case err != nil:
			notes[i] = err.Error()
		case len(found) == 0:
			notes[i] = "Prometheus has no series of it"
		default:
			notes[i] = "by Prometheus, without a verdict: " + sentenceOf(found)
		}
	}
	return notes
}

// ofPeer are those whose labels have the name of a peer: what Prometheus scrapes has
// its host in instance, and what a collector hands on has its service in job.
func ofPeer(all []measured, peer string) []measured {
	host := peer
	if h, _, err := net.SplitHostPort(peer); err == nil {
		host = h
	}
	for _, matches := range []func(measured) bool{
		func(m measured) bool { return m.instance == peer },
		func(m measured) bool {
			h, _, err := net.SplitHostPort(m.instance)
			return m.instance == host || err == nil && h == host && net.ParseIP(h) == nil
		},
		func(m measured) bool { return m.job == host || strings.HasSuffix(m.job, "/"+host) },
	} {
		if found := slices.DeleteFunc(slices.Clone(all), func(m measured) bool { return !matches(m) }); len(found) > 0 {
			return found
		}
	}
	return nil
}

// sentenceOf is what is known of one process, or of several together.
func sentenceOf(all []measured) string {
	lagMS, inFlight, outbound, active := math.NaN(), math.NaN(), math.NaN(), math.NaN()
	add := func(sum *float64, n float64) {
		switch {
		case math.IsNaN(n):
		case math.IsNaN(*sum):
			*sum = n
		default:
			*sum += n
		}
	}
	for _, m := range all {
		if !(lagMS >= m.lag) && !math.IsNaN(m.lag) {
			lagMS = m.lag
		}
		add(&inFlight, m.inFlight)
		add(&outbound, m.outbound)
		add(&active, m.active)
	}
	var parts []string
	if len(all) > 1 {
		parts = append(parts, fmt.Sprintf("%d processes", len(all)))
	}
	if !math.IsNaN(lagMS) {
		parts = append(parts, "event loop lag "+lag(milliseconds(lagMS))+" (p99)")
	}
	for _, n := range []struct {
		value float64
		text  string
	}{{inFlight, "requests in flight"}, {outbound, "outbound requests in flight"}, {active, "active rollouts"}} {
		if !math.IsNaN(n.value) {
			parts = append(parts, strings.TrimSuffix(number(n.value), ".0")+" "+n.text)
		}
	}
	return strings.Join(parts, ", ")
}

func milliseconds(ms float64) time.Duration {
	if !(ms < 1e12) { // 30 years; infinity is the last bucket of some histograms
		return 1e12 * time.Millisecond
	}
	return time.Duration(ms * float64(time.Millisecond))
}
