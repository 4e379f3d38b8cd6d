package page

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/diagnosis"
)

var text = Text{
	Process:       "a <process>",
	PID:           4711,
	Signals:       map[string]Signal{"gym.load": {"what & <b>", "why"}},
	Causes:        []Cause{{Name: "gc", Condition: "too much"}, {Name: "memory", Condition: "too full", Share: true}},
	LagBoundaries: []time.Duration{time.Millisecond, time.Second},
}

// handlerOf shows one snapshot.
func handlerOf(s Snapshot) *Handler { return New(text, func() Snapshot { return s }) }

func get(h http.Handler, target string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, target, nil))
	return answer
}

func TestPageIsSelfContained(t *testing.T) {
	answer := get(handlerOf(Snapshot{}), "/debug/observer")
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Equal(t, "text/html; charset=utf-8", answer.Header().Get("Content-Type"))
	html := answer.Body.String()
	markup := regexp.MustCompile(`(?s)<(style|script)>.*?</(style|script)>`).ReplaceAllString(html, "")
	assert.NotRegexp(t, `(src|href|action)="(?:[^?#"d]|d[^a])`, markup, "whatever it refers to is itself, or in it")
	assert.NotRegexp(t, `style="| on\w+="`, markup, "the policy forbids both")
	assert.NotContains(t, html, "{{", "a template")
	for section := range strings.SplitSeq(picturesJS, "\n\t\tsection: '") {
		if name, _, found := strings.Cut(section, "', title: '"); found {
			assert.Contains(t, markup, `id="pictures-`+name+`"`)
		}
	}
}

// What a process says of itself reaches the page as data, which the script writes
// as text: no name, route or function of somebody's can become markup.
func TestNothingOfAProcessIsInTheDocument(t *testing.T) {
	h := New(Text{Process: "<script>", Causes: []Cause{{Name: "<script>"}}}, func() Snapshot { return Snapshot{Summary: "<script>"} })
	plain := New(Text{}, func() Snapshot { return Snapshot{} })
	assert.Equal(t, get(plain, "/").Body.String(), get(h, "/").Body.String())
	assert.NotContains(t, script(), "innerHTML")
	assert.NotContains(t, script(), "insertAdjacent")
	assert.NotContains(t, script(), "document.write")
	assert.NotContains(t, get(h, "/?format=events").Body.String(), "<script>", "JSON of Go has none")
}

func TestPolicyAllowsWhatIsServed(t *testing.T) {
	answer := get(handlerOf(Snapshot{}), "/")
	policy := answer.Header().Get("Content-Security-Policy")
	assert.True(t, strings.HasPrefix(policy, "default-src 'none'; "), policy)
	assert.Contains(t, policy, "connect-src 'self'; ")
	assert.Contains(t, policy, "frame-ancestors 'none'")
	assert.NotContains(t, policy, "unsafe")
	for _, element := range []string{"style", "script"} {
		found := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(answer.Body.String(), -1)
		require.Equal(t, 1, len(found), "elements of %s", element)
		assert.Contains(t, policy, element+"-src "+hashOf(found[0][1])+";")
	}
}

func TestEveryAnswerIsKeptPrivate(t *testing.T) {
	for _, target := range []string{"/", "/?format=json", "/?format=events", "/?format=xml", "/?capture=x"} {
		header := get(handlerOf(Snapshot{}), target).Header()
		assert.Equal(t, "nosniff", header.Get("X-Content-Type-Options"), target)
		assert.Equal(t, "no-store", header.Get("Cache-Control"), target)
		assert.Equal(t, "no-referrer", header.Get("Referrer-Policy"), target)
		assert.Equal(t, "same-origin", header.Get("Cross-Origin-Resource-Policy"), target)
		assert.Equal(t, contentSecurityPolicy(pageCSS, script()), header.Get("Content-Security-Policy"), target)
	}
}

func TestPageIsOnlyRead(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		answer := httptest.NewRecorder()
		handlerOf(Snapshot{}).ServeHTTP(answer, httptest.NewRequest(method, "/", nil))
		assert.Equal(t, http.StatusMethodNotAllowed, answer.Code, method)
		assert.Equal(t, "GET, HEAD", answer.Header().Get("Allow"), method)
	}
}

func TestHeadHasNoBody(t *testing.T) {
	h, now := filled(3)
	server := httptest.NewServer(handlerOf(Snapshot{At: now, History: h}))
	defer server.Close()
	for _, query := range []string{"", "?format=json", "?format=events"} {
		answer, err := http.Head(server.URL + query)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, http.StatusOK, answer.StatusCode, query)
		assert.Empty(t, body, query)
	}
}

func TestUnknownFormatIsRefused(t *testing.T) {
	assert.Equal(t, http.StatusBadRequest, get(handlerOf(Snapshot{}), "/?format=xml").Code)
}

func TestJSONOfNothing(t *testing.T) {
	answer := get(handlerOf(Snapshot{Summary: "nothing observes this process"}), "/?format=json")
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	var document map[string]any
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &document))
	delete(document, "now")
	assert.Equal(t, map[string]any{
		"process": "a <process>", "pid": 4711.0, "also": []any{}, "sites": []any{}, "peers": []any{},
		"at": "0001-01-01T00:00:00Z", "window_seconds": 0.0, "verdict": "", "summary": "nothing observes this process",
		"findings": []any{}, "unmeasured": []any{}, "oldest": []any{}, "captures": []any{},
		"history": map[string]any{"lag_boundaries_seconds": []any{0.001, 1.0}, "seconds": []any{}, "windows": []any{}},
		"causes": []any{
			map[string]any{"cause": "gc", "condition": "too much", "share": false},
			map[string]any{"cause": "memory", "condition": "too full", "share": true},
		},
	}, document)
}

func TestJSONOfEverything(t *testing.T) {
	h, now := new(History), time.Now().UTC()
	second := Second{
		At: InstantOf(now), Length: 1250 * time.Millisecond, Gap: true, Samples: 3, LongestLag: 2 * time.Second,
		InFlight: 1.5, Outbound: 0.5, Responses: [diagnosis.ResponseClasses]int64{1, 2, 3, 4, 5, 6},
		Pauses: 2, Paused: 3 * time.Millisecond, LongestPause: 2 * time.Millisecond,
	}
	second.Lag[0], second.Lag[2] = 2, 1
	h.AddSecond(&second)
	second.At, second.Driving = InstantOf(now.Add(time.Millisecond)), true
	second.Offered, second.Resident, second.Active, second.Waiting, second.Admissions, second.Waited = 7, 6, 5, 4, 3, 2*time.Second
	h.AddSecond(&second)
	loads, shownLoads := [diagnosis.NumCauses]Number{}, make(map[string]any)
	for cause := range diagnosis.All() {
		loads[cause], shownLoads[cause.Name()] = Unmeasured, nil
	}
	loads[diagnosis.GC], shownLoads["gc"] = 0.7, 0.7
	h.AddWindow(&Window{
		At: InstantOf(now), Length: 10 * time.Second, Verdict: diagnosis.GC, Processors: 2, CPUs: 1.5,
		Load: loads, CPU: 1.25, Memory: 1 << 20, Threads: 9, Descriptors: Unmeasured,
	})
	answer := get(handlerOf(Snapshot{
		At: now, Window: 10 * time.Second, Verdict: "gc", Summary: "gc: it is",
		Findings:   []Finding{{Cause: "gc", Load: 0.7, Evidence: "seen", Advice: "act"}},
		Unmeasured: []string{"memory"},
		Oldest:     []Work{{Kind: "request", Name: "/slow", Age: 1500 * time.Millisecond}},
		Also:       []string{"memory"},
		Sites: []Site{
			{Kind: "alloc", Function: "main.decode", Location: "main.go:7", In: "encoding/json.Unmarshal", Caller: "main.go:3", Load: 0.5, Share: 0.71},
			{Kind: "alloc", Function: "main.f", Load: Unmeasured, Functions: []string{"main.f", "main.main"}},
		},
		Peers:   []Peer{{Host: "model:8000", Waiting: 14.2, Wait: 1300 * time.Millisecond, InFlight: 15}},
		Since:   now.Add(-time.Minute),
		History: h,
	}), "/?format=json")
	at := func(t time.Time) string { return t.Format(time.RFC3339Nano) }
	lag := make([]any, LagBuckets)
	for i := range lag {
		lag[i] = 0.0
	}
	lag[0], lag[2] = 2.0, 1.0
	seconds := func(number float64, ended time.Time, driver any) map[string]any {
		return map[string]any{
			"number": number, "at": at(ended), "length_seconds": 1.25, "gap": true, "samples": 3.0, "lag": lag, "longest_lag_seconds": 2.0,
			"in_flight": 1.5, "outbound": 0.5,
			"responses": map[string]any{"1xx": 1.0, "2xx": 2.0, "3xx": 3.0, "4xx": 4.0, "5xx": 5.0, "other": 6.0},
			"pauses":    2.0, "paused_seconds": 0.003, "longest_pause_seconds": 0.002, "driver": driver,
		}
	}
	var document map[string]any
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &document))
	shown, err := time.Parse(time.RFC3339Nano, document["now"].(string))
	require.NoError(t, err)
	assert.WithinDuration(t, now, shown, time.Minute)
	delete(document, "now")
	delete(document, "causes")
	assert.Equal(t, map[string]any{
		"process": "a <process>", "pid": 4711.0,
		"at": at(now), "window_seconds": 10.0, "verdict": "gc", "summary": "gc: it is", "verdict_since": at(now.Add(-time.Minute)),
		"also": []any{"memory"},
		"sites": []any{
			map[string]any{"kind": "alloc", "function": "main.decode", "location": "main.go:7", "in": "encoding/json.Unmarshal", "caller": "main.go:3", "load": 0.5, "share": 0.71},
			map[string]any{"kind": "alloc", "function": "main.f", "location": "", "in": "", "caller": "", "load": nil, "share": 0.0, "functions": []any{"main.f", "main.main"}},
		},
		"peers":      []any{map[string]any{"host": "model:8000", "waiting": 14.2, "wait_seconds": 1.3, "in_flight": 15.0}},
		"findings":   []any{map[string]any{"cause": "gc", "load": 0.7, "evidence": "seen", "advice": "act"}},
		"unmeasured": []any{"memory"},
		"oldest":     []any{map[string]any{"kind": "request", "name": "/slow", "age_seconds": 1.5}},
		"captures":   []any{},
		"history": map[string]any{
			"lag_boundaries_seconds": []any{0.001, 1.0},
			"seconds": []any{
				seconds(1, now, nil),
				seconds(2, now.Add(time.Millisecond), map[string]any{
					"offered": 7.0, "resident": 6.0, "active": 5.0, "waiting": 4.0, "admissions": 3.0, "waited_seconds": 2.0,
				}),
			},
			"windows": []any{map[string]any{
				"number": 1.0, "at": at(now), "length_seconds": 10.0, "verdict": "gc", "processors": 2.0, "cpus": 1.5,
				"load": shownLoads, "cpu": 1.25, "memory_bytes": 1048576.0, "threads": 9.0, "descriptors": nil,
			}},
		},
	}, document)
}

func TestAsMuchOfTheHistoryAsIsAskedFor(t *testing.T) {
	h, now := new(History), time.Now()
	for age := 120; age > 0; age-- {
		ended := InstantOf(now.Add(-time.Duration(age) * time.Second))
		h.AddSecond(&Second{At: ended})
		if age%60 == 0 {
			h.AddWindow(&Window{At: ended})
		}
	}
	for query, want := range map[string][2]int{
		"": {120, 2}, "&history=600": {120, 2}, "&history=1e300": {120, 2}, "&history=30.5": {30, 1}, "&history=0": {1, 1},
	} {
		answer := get(handlerOf(Snapshot{History: h}), "/?format=json"+query)
		var d document
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &d), query)
		assert.InDelta(t, want[0], len(d.History.Seconds), 1, query) // the clock has gone on
		assert.Equal(t, want[1], len(d.History.Windows), query)
	}
	for _, query := range []string{"&history=NaN", "&history=-1", "&history=ten"} {
		assert.Equal(t, http.StatusBadRequest, get(handlerOf(Snapshot{History: h}), "/?format=json"+query).Code, query)
	}
	assert.Equal(t, http.StatusOK, get(handlerOf(Snapshot{}), "/?format=json&history=10").Code, "without a history")
}

func TestWhatCannotBeEncodedIsSaid(t *testing.T) {
	h := new(History)
	h.AddSecond(&Second{At: InstantOf(time.Now())})
	s := Snapshot{At: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), History: h, Findings: []Finding{{Cause: "gc", Load: Unmeasured}}}
	answer := get(handlerOf(s), "/?format=json")
	var document map[string]any
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &document))
	assert.Contains(t, document["summary"], "cannot be encoded")
	s.At = time.Now()
	assert.Contains(t, get(handlerOf(s), "/?format=json").Body.String(), `"findings":[{"cause":"gc","load":null,`)
}

func TestPageWorksUnderAnyPath(t *testing.T) {
	h := handlerOf(Snapshot{})
	mux := http.NewServeMux()
	mux.Handle("/debug/observer", h)
	mux.Handle("/debug/observer/", h)
	mux.Handle("/stripped/", http.StripPrefix("/stripped", h))
	for _, path := range []string{"/debug/observer", "/debug/observer/", "/debug/observer/deeper", "/stripped/"} {
		assert.Contains(t, get(mux, path).Body.String(), `id="pictures-load"`, path)
		assert.Contains(t, get(mux, path+"?format=json").Body.String(), `"history"`, path)
	}
}

// evidenceOf makes a directory with captures, and with what is none.
func evidenceOf(t *testing.T) string {
	t.Helper()
	outside := filepath.Join(t.TempDir(), "secret.txt")
	require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o600))
	directory := filepath.Join(t.TempDir(), "evidence")
	for name, content := range map[string]string{
		"20261129T140000.000000Z-gc-1/goroutines.txt":              "goroutines",
		"20261129T140000.000000Z-gc-1/diagnosis.json":              "{}",
		"20261129T150000.000000Z-cpu_saturated-12345/trace.out":    "trace",
		"20261129T150000.000000Z-cpu_saturated-12345/notes.secret": "secret",
		".partial-20261129T160000.000000Z-gc-1/goroutines.txt":     "secret",
		"private/notes.txt": "secret",
		"beside.txt":        "secret",
		"20261129T140000.000000Z-gc-1/deeper/goroutines.txt": "secret",
	} {
		name = filepath.Join(directory, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(content), 0o644))
	}
	link(t, outside, filepath.Join(directory, "20261129T140000.000000Z-gc-1", "link.txt"))
	link(t, filepath.Dir(outside), filepath.Join(directory, "20261129T170000.000000Z-gc-1"))
	return directory
}

func link(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Symlink(from, to); err != nil {
		t.Skipf("no links here: %v", err)
	}
}

func TestCapturesAreListed(t *testing.T) {
	assert.Equal(t, []capture{
		{"20261129T150000.000000Z-cpu_saturated-12345", time.Date(2026, 11, 29, 15, 0, 0, 0, time.UTC), "cpu_saturated", []captureFile{{"trace.out", 5}}},
		{"20261129T140000.000000Z-gc-1", time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC), "gc", []captureFile{{"diagnosis.json", 2}, {"goroutines.txt", 10}}},
	}, listCaptures(evidenceOf(t)))
	assert.Empty(t, listCaptures(""))
	assert.Empty(t, listCaptures(filepath.Join(t.TempDir(), "not made yet")))
}

func TestListOfCapturesIsLookedUpSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		directory := evidenceOf(t)
		var list captureList
		var d disk
		assert.Len(t, list.of(&d, directory), 2)
		require.NoError(t, os.RemoveAll(directory))
		assert.Len(t, list.of(&d, directory), 2)
		time.Sleep(listCooldown)
		assert.Empty(t, list.of(&d, directory))
	})
}

func TestCaptureIsDownloaded(t *testing.T) {
	h := handlerOf(Snapshot{Captures: evidenceOf(t)})
	answer := get(h, "/?capture=20261129T140000.000000Z-gc-1/goroutines.txt")
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Equal(t, "goroutines", answer.Body.String())
	assert.Equal(t, "text/plain; charset=utf-8", answer.Header().Get("Content-Type"))
	assert.Equal(t, `attachment; filename="20261129T140000.000000Z-gc-1-goroutines.txt"`, answer.Header().Get("Content-Disposition"))
}

func TestNothingButCapturesIsServed(t *testing.T) {
	directory := evidenceOf(t)
	inside := "20261129T140000.000000Z-gc-1"
	for _, name := range []string{
		"private/notes.txt",
		"beside.txt",
		".",
		"..",
		"/etc/passwd",
		"../evidence/beside.txt",
		"../../../../etc/passwd",
		inside,
		inside + "/",
		inside + "/..",
		inside + "/../beside.txt",
		inside + "/../private/notes.txt",
		inside + `\..\beside.txt`,
		inside + "/deeper/goroutines.txt",
		inside + "/deeper",
		inside + "/link.txt",
		inside + "/missing.txt",
		inside + "/goroutines.txt\x00",
		inside + "/goroutines.txt/",
		"./" + inside + "/goroutines.txt",
		".partial-20261129T160000.000000Z-gc-1/goroutines.txt",
		"20261129T150000.000000Z-cpu_saturated-12345/notes.secret",
		"20261129T170000.000000Z-gc-1/secret.txt",
		directory + "/" + inside + "/goroutines.txt",
	} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.URL.RawQuery = "capture=" + url.QueryEscape(name)
		answer := httptest.NewRecorder()
		handlerOf(Snapshot{Captures: directory}).ServeHTTP(answer, request)
		assert.Equal(t, http.StatusNotFound, answer.Code, "%q", name)
		assert.NotContains(t, answer.Body.String(), "secret", "%q", name)
	}
	assert.Equal(t, http.StatusNotFound, get(handlerOf(Snapshot{}), "/?capture="+inside+"/goroutines.txt").Code, "without captures")
}
