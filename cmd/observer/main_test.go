package main

import (
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/client"
)

func TestExitStatusSaysTheWorst(t *testing.T) {
	well, busy := serve(t, "well", 1, none()), serve(t, "busy", 2, waiting())
	driver := serve(t, "driver", 3, downstream(well.host()))
	starting := serve(t, "starting", 4, observer.Diagnosis{Summary: "the first window is not complete"})
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{well.URL, driver.URL}, 0},
		{[]string{well.URL, busy.URL}, 1},
		{[]string{gone.URL, busy.URL, well.URL}, 2},
		{[]string{starting.URL}, 2},
		{[]string{"-json", busy.URL}, 1},
		{[]string{"why", well.URL}, 0},
		{[]string{"why", driver.URL}, 0},
		{[]string{"why", busy.URL}, 1},
		{[]string{"why", "-json", busy.URL}, 1},
		{[]string{"why", gone.URL}, 2},
		{[]string{"why", starting.URL}, 2},
	} {
		code, stdout, stderr := call(t, c.args...)
		assert.Equal(t, c.want, code, "%v: %s%s", c.args, stdout, stderr)
	}
}

func TestCommandLinesThatAreWrong(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for want, args := range map[string][]string{
		"which process?":                     {},
		"which process? ":                    {"top"},
		"which process?  ":                   {"why"},
		"one URL is enough here, not 2":      {"why", "a:1", "b:1"},
		"a URL is empty":                     {""},
		"-insecure is refused: ":             {"-insecure", "a:1"},
		"-header: a header is 'Name: value'": {"-header", "Bearer secret", "a:1"},
		"-header: a header is":               {"a:1", "-header", "A: sec\nret"},
		"-header: it has no header":          {"-header", "@" + empty, "a:1"},
		"-header: open ":                     {"-header", "@" + empty + "secret", "a:1"},
		"-timeout: a page needs some time":   {"-timeout", "0s", "a:1"},
		"it has no certificate in PEM":       {"-cacert", empty, "a:1"},
		"it is PEER=URL":                     {"why", "-page", "model", "a:1"},
		"0 is no port":                       {"why", "-port", "-10", "a:1"},
		"the page of x: ":                    {"why", "-page", "x=ftp://y", "a:1"},
		"-query needs -prometheus":           {"top", "-query", "x", "a:1"},
		"-every: ":                           {"top", "-every", "1ms", "a:1"},
		"-prometheus is the URL":             {"top", "-prometheus", "ftp://x"},
		"-prometheus-header needs":           {"top", "-prometheus-header", "A: b", "a:1"},
		"flag provided but not defined: -x":  {"a:1", "-x"},
	} {
		code, stdout, stderr := call(t, args...)
		assert.Equal(t, 2, code, "%v", args)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, strings.TrimSpace(want), "%v", args)
		assert.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %s", stderr)
		assert.NotContains(t, strings.ReplaceAll(stderr, empty+"secret", ""), "secret")
	}
	for _, args := range [][]string{{"-h"}, {"top", "-help"}, {"why", "x:1", "-h"}} {
		code, stdout, stderr := call(t, args...)
		assert.Equal(t, 0, code)
		assert.Contains(t, stdout, "usage:")
		assert.Contains(t, stdout, "-cacert")
		assert.Empty(t, stderr)
	}
}

func TestFlagsAndURLsInAnyOrder(t *testing.T) {
	p := serve(t, "p", 1, none())
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("Authorization: Bearer of-a-file\n\nX-Two: 2\r\n"), 0o600))
	code, _, stderr := call(t, p.URL, "-header", "X-One: 1: 1", "-header", "@"+file, "-timeout=5s")
	assert.Equal(t, 0, code, stderr)
	assert.Equal(t, "1: 1", p.header.Get("X-One"))
	assert.Equal(t, "2", p.header.Get("X-Two"))
	assert.Equal(t, "Bearer of-a-file", p.header.Get("Authorization"))
}

func TestCACertIsBelieved(t *testing.T) {
	server := httptest.NewTLSServer(serve(t, "p", 1, none()))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	code, stdout, stderr := call(t, "-cacert", file, server.URL)
	assert.Equal(t, 0, code, stdout+stderr)
}

func TestReportReads(t *testing.T) {
	answers := []client.Answer{
		{Report: client.Report{URL: "http://agent:6060/debug/observer", Name: "agent", PID: 4720, Since: now.Add(-200 * time.Second), Diagnosis: waiting()}},
		{Report: client.Report{URL: "http://driver:6060/debug/observer", Name: "driver", PID: 4711, Diagnosis: downstream("agent:8001", "model:8000")}},
		{Report: client.Report{URL: "http://well:6060/debug/observer", Diagnosis: none()}},
		{Report: client.Report{URL: "http://new:6060/debug/observer", Diagnosis: observer.Diagnosis{Summary: "the first window is not complete"}}},
		{Err: &client.Failure{URL: "http://gone:6060/debug/observer", Reason: "refused"}},
	}
	var b strings.Builder
	for _, a := range answers {
		b.WriteString(paragraph("", a, now) + "\n")
	}
	golden(t, "report.txt", b.String())
}

// withoutPorts makes an output the same each time. The names are as long as
// 127.0.0.1:12345, so that columns stay.
func withoutPorts(text string, pages map[string]*page) string {
	for name, p := range pages {
		text = strings.ReplaceAll(text, p.host(), name)
	}
	return text
}

func TestWhyReads(t *testing.T) {
	gone := &page{Server: httptest.NewServer(nil)}
	gone.Close()
	agent := serve(t, "agent", 4720, waiting())
	model := serve(t, "model", 4731, none())
	driver := serve(t, "driver", 4711, downstream(agent.host(), model.host(), gone.host(), "the tool"))
	code, stdout, _ := call(t, "why", driver.URL)
	assert.Equal(t, 1, code)
	golden(t, "why.txt", withoutPorts(stdout, map[string]*page{"agent.prod:8001": agent, "model.prod:8000": model, "store.prod:5432": gone}))
}

func TestWhySaysARing(t *testing.T) {
	a := serve(t, "agent", 1, none())
	d := downstream(a.host())
	d.At = now.Add(7)
	b := serve(t, "model", 2, d)
	text, err := json.Marshal(downstream(b.host()))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &a.document))
	code, stdout, _ := call(t, "why", a.URL)
	assert.Equal(t, 0, code)
	golden(t, "ring.txt", withoutPorts(stdout, map[string]*page{"agent.prod:8001": a, "model.prod:8000": b}))
}

func TestJSONHasTheDiagnoses(t *testing.T) {
	busy := serve(t, "busy", 2, waiting())
	gone := httptest.NewServer(nil)
	gone.Close()
	_, stdout, _ := call(t, "-json", busy.URL, gone.URL)
	var diagnoses []observer.Diagnosis
	require.NoError(t, json.Unmarshal([]byte(stdout), &diagnoses))
	assert.Equal(t, []observer.Diagnosis{waiting(), {}}, diagnoses)
	var rest []struct{ URL, Process, Error string }
	require.NoError(t, json.Unmarshal([]byte(stdout), &rest))
	assert.Equal(t, "busy", rest[0].Process)
	assert.Equal(t, "refused", rest[1].Error)
	assert.Equal(t, gone.URL+"/debug/observer", rest[1].URL)

	_, stdout, _ = call(t, "why", "-json", serve(t, "driver", 1, downstream(busy.host())).URL)
	var chain struct {
		Summary string
		Limits  []struct {
			Link  int
			Cause string
		}
		Links []struct {
			Parent int
			Report struct{ Process, Verdict string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &chain))
	assert.Contains(t, chain.Summary, "busy (pid 2): wait in database/sql.(*DB).conn")
	assert.Equal(t, 1, chain.Limits[0].Link)
	assert.Equal(t, "busy", chain.Links[1].Report.Process)
}

// hostile has in every text what moves a cursor, rings, or turns the writing round.
const hostile = "\x1b[2J\x1b]0;owned\x07\r\n\b\x9b31m\u202e\u2028\xff\U000e0041"

func hostileDiagnosis(hosts ...string) observer.Diagnosis {
	d := downstream(hosts...)
	d.Summary = "downstream: " + hostile
	d.Findings[0].Evidence, d.Findings[0].Advice = hostile+"e", hostile+"a"
	d.Also = []observer.Cause{hostile}
	d.Sites = []observer.Site{{Kind: hostile, Function: hostile, Location: hostile + ":1", In: hostile, Caller: hostile}}
	d.Oldest = []observer.Work{{Kind: hostile, Name: hostile, Age: 1}}
	return d
}

func TestNothingThatAPageSaysMovesTheCursor(t *testing.T) {
	busy := waiting()
	busy.Sites[0].In, busy.Sites[0].Location = hostile, hostile
	busy.Verdict = observer.Cause(hostile)
	end := serve(t, hostile, 4, busy)
	first := serve(t, hostile, 3, hostileDiagnosis(end.host(), hostile))
	unsafe := regexp.MustCompile(`[^\n\P{C}]|[\x{2028}\x{2029}]`)
	for _, args := range [][]string{{first.URL, end.URL}, {"why", first.URL}, {"-json", first.URL}, {"why", "-json", first.URL}, {"\x1b[2J"}, {"why", "\x1b[2J\n:1"}} {
		_, stdout, stderr := call(t, args...)
		assert.Empty(t, unsafe.FindAllString(stdout+strings.TrimSuffix(stderr, "\n"), -1), "%q: %q", args, stdout+stderr)
		assert.NotEmpty(t, stdout+stderr)
	}
	report, err := client.Get(t.Context(), end.URL)
	require.NoError(t, err)
	for _, line := range table([]row{{address: hostile, report: report, answered: true}, {address: hostile, silent: hostile, silentSince: now},
		{measured: &measured{job: hostile}}, {address: hostile}}, now, 300, 0, false) {
		assert.Empty(t, unsafe.FindAllString(line, -1), "%q", line)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add(hostile, 10)
	f.Add("a\u0301é漢", 3)
	f.Fuzz(func(t *testing.T, s string, width int) {
		width = min(max(width, 0), 300)
		unsafe := regexp.MustCompile(`\p{C}|[\x{2028}\x{2029}]`)
		assert.NotRegexp(t, unsafe, plain(s, width))
		c := cell(s, width)
		assert.NotRegexp(t, unsafe, c)
		assert.LessOrEqual(t, len([]rune(c)), max(width, 1))
	})
}

func TestNumbersFitTheirColumns(t *testing.T) {
	for _, n := range []float64{-5, 0, 0.05, 9.96, 99.94, 99.96, 12345.6, 99999.4, 99999.6, 1e7, 9e8, 1e300} {
		assert.LessOrEqual(t, len(number(n)), 5, "%v is %s", n, number(n))
	}
	for d := time.Duration(1); d > 0 && d < 1<<62; d = d*3 + 1 {
		assert.LessOrEqual(t, len(age(d)), 4, "%v is %s", d, age(d))
		assert.LessOrEqual(t, len(lag(d)), 6, "%v is %s", d, lag(d))
		assert.NotContains(t, ago(d), "e+", "%v", d)
	}
	assert.Equal(t, []string{"9.9ms", "10ms", "999ms", "1.0s", "99.9s"},
		[]string{lag(9949 * time.Microsecond), lag(9951 * time.Microsecond), lag(999 * time.Millisecond), lag(999600 * time.Microsecond), lag(99900 * time.Millisecond)})
}
