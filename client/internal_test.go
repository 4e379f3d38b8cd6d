package client

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gym-observer/observer"
)

// Whatever a stranger sends is an error or a report that can be shown.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"verdict": "none", "summary": "none: nothing"}`,
		`{"verdict": "downstream", "summary": "downstream: x. Do.", "peers": [{"host": "a:1", "waiting": 1e308, "wait_seconds": -1e9}], "also": ["lock"]}`,
		`{"verdict": "wait", "summary": "", "sites": [{"kind": "hold"}, {"kind": "wait", "in": "net.(*netFD).Read", "location": "x.go:1"}]}`,
		`{"now": "2026-03-04T14:03:05Z", "verdict": "gc", "summary": "", "process": "a, process 9999999999999999999", "history": {"lag_boundaries_seconds": [1],
			"seconds": [{"at": "2026-03-04T14:03:05Z", "length_seconds": 1e-300, "lag": [1e308, 1e308], "longest_lag_seconds": 1e300, "in_flight": -1}],
			"windows": [{"verdict": "none"}, {"verdict": "gc", "cpu": 1, "processors": 0}]}}`,
		`{"verdict": "lock", "summary": "lock: ", "oldest": [null, {"age_seconds": 9e9}], "findings": null, "history": null}`,
	} {
		f.Add([]byte(seed))
	}
	if page, err := os.ReadFile("testdata/page.json"); err == nil {
		f.Add(page)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := decode(body)
		if err != nil {
			assert.NotEmpty(t, err.Error())
			return
		}
		assert.LessOrEqual(t, len(r.Diagnosis.Peers), entries)
		assert.False(t, r.Recent.Over < 0)
		_, _, _ = r.Words(), r.Place(), r.Slow()
		if r.Diagnosis.At.Year() >= 0 && r.Diagnosis.At.Year() <= 9999 && r.Since.Year() >= 0 && r.Since.Year() <= 9999 {
			_, err = json.Marshal(r)
			assert.NoError(t, err)
		}
	})
}

func TestQuantileIsABoundThatHolds(t *testing.T) {
	boundaries := []float64{1, 10, 100}
	for _, c := range []struct {
		counts  []float64
		longest float64
		want    float64
	}{
		{nil, 0, 0},
		{[]float64{99, 1, 0, 0}, 5, 1},
		{[]float64{98, 2, 0, 0}, 5, 5},
		{[]float64{98, 2, 0, 0}, 50, 10},
		{[]float64{0, 0, 0, 3}, 2000, 2000},
		{[]float64{1, 0}, 0.5, 0.5},
	} {
		assert.Equal(t, c.want, quantile(0.99, c.counts, boundaries, c.longest), "%v", c)
	}
}

func TestDurationHoldsWhateverComes(t *testing.T) {
	assert.Equal(t, 1500*time.Millisecond, duration(1.5))
	assert.Equal(t, time.Duration(math.MaxInt64), duration(1e300))
	assert.Equal(t, time.Duration(math.MinInt64), duration(math.Inf(-1)))
	assert.Zero(t, duration(math.NaN()))
}

func TestOfAPeersNameOnlyAPlainHostIsAsked(t *testing.T) {
	f := &following{asker: newAsker(nil)}
	for peer, want := range map[string]string{
		"model:8000":       "http://model:8000/debug/observer",
		"model":            "http://model:80/debug/observer",
		"[::1]:8000":       "http://[::1]:8000/debug/observer",
		"10.0.0.1:80":      "http://10.0.0.1:80/debug/observer",
		"":                 "",
		"the model":        "",
		"user@model:80":    "",
		"model:80/x":       "",
		"model?x:80":       "",
		"model:0":          "",
		"model:99999":      "",
		"model:http":       "",
		"a:b:c":            "",
		"\x1b[2J:80":       "",
		"mod\u00ebl:80":    "",
		"http://model:800": "",
	} {
		page, err := f.pageOf(peer)
		if want == "" {
			assert.Error(t, err, "%q", peer)
			continue
		}
		if assert.NoError(t, err, peer) {
			assert.Equal(t, want, page.String())
		}
	}
}

func TestWordsLeaveOutTheAdviceWhateverFollowsIt(t *testing.T) {
	finding := []observer.Finding{{Cause: observer.CauseLock, Evidence: "much", Advice: "Take a profile. Hold it for less."}}
	for summary, want := range map[string]string{
		"lock: much. Take a profile. Hold it for less.":                      "much",
		"lock: much; 94 % at f (c.go:4). Take a profile. Hold it for less.":  "much; 94 % at f (c.go:4)",
		"lock: much. Take a profile. Hold it for less; also: admission 32.0": "much; also: admission 32.0",
		"as of 5m ago: lock: much. Take a profile. Hold it for less.":        "as of 5m ago: much",
	} {
		r := Report{Diagnosis: observer.Diagnosis{Verdict: observer.CauseLock, Summary: summary, Findings: finding}}
		assert.Equal(t, want, r.Words())
	}
}

func TestWordsOfDownstreamNameTheServerFirst(t *testing.T) {
	d := observer.Diagnosis{
		Verdict: observer.CauseDownstream, Summary: "as of 5m ago: downstream: much",
		Findings: []observer.Finding{{Cause: observer.CauseDownstream, Load: 15, Evidence: "much"}},
		Sites:    []observer.Site{{Kind: "wait", Function: "main.post", Location: "agent.go:77"}},
		Peers: []observer.Peer{
			{Host: "model:8000", Waiting: 12, Wait: 3100 * time.Millisecond},
			{Host: "model:80", Waiting: 2, Wait: time.Second},
			{Host: "others", Waiting: 1, Wait: time.Second},
		},
	}
	assert.Equal(t, "as of 5m ago: 12.0 of 15.0 outbound requests wait for model:8000, 3.1 s each, called at agent.go:77; "+
		"2.0 for model:80 (1.0 s each), 1.0 for others (1.0 s each)", Report{Diagnosis: d}.Words())
	d.Peers[0].Host = "" // hidden
	assert.Contains(t, Report{Diagnosis: d}.Words(), "as of 5m ago: much; called at agent.go:77; 2.0 for model:80")
}
