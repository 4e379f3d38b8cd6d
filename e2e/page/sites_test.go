package page_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/catalogue"
	"github.com/gym-observer/observer/internal/page"
)

// hostile is a name that somebody has chosen to be markup.
const hostile = `<img src=x onerror="alert(1)">`

// diagnosed serves a page with one diagnosis.
func diagnosed(t *testing.T, s page.Snapshot) (url string) {
	t.Helper()
	text := page.Text{
		Process: "server" + hostile, PID: 4711, Signals: make(map[string]page.Signal),
		Causes: []page.Cause{{Name: "lock", Condition: "at least 8" + hostile}, {Name: "downstream", Condition: "at least 8"}},
	}
	for _, signal := range catalogue.Signals {
		text.Signals[signal.Name] = page.Signal{Description: signal.Description, Advice: signal.Advice}
	}
	s.At, s.Window, s.History = time.Now(), 10*time.Second, new(page.History)
	server := httptest.NewServer(page.New(text, func() page.Snapshot { return s }))
	t.Cleanup(server.Close)
	return server.URL
}

var lockDiagnosis = page.Snapshot{
	Verdict: "lock",
	Summary: "lock: 7.1 goroutines waited for a mutex; 94 % at store.(*Cache).Put (store/cache.go:42), held across net.Dial (store/cache.go:51); also: downstream 12.0. Shorten it.",
	Since:   time.Now().Add(-20 * time.Minute),
	Findings: []page.Finding{
		{Cause: "lock", Load: 7.1, Evidence: "7.1 goroutines waited for a mutex", Advice: "Shorten it."},
		{Cause: "downstream", Load: 12, Evidence: hostile, Advice: hostile},
	},
	Also: []string{"downstream", hostile},
	Sites: []page.Site{
		{Kind: "wait", Function: "store.(*Cache).Put", Location: "store/cache.go:42", In: "sync.(*Mutex).Lock", Caller: "api/handlers.go:118", Load: 6.7, Share: 0.94,
			Functions: []string{"sync.(*Mutex).Lock", "store.(*Cache).Put", hostile}},
		{Kind: "hold", Function: "store.(*Cache).Put", Location: "store/cache.go:51", In: "net.Dial", Load: 1, Share: 0.06},
		{Kind: "wait", Function: hostile, Location: hostile, In: hostile, Caller: hostile, Load: page.Unmeasured, Share: page.Unmeasured},
	},
	Peers: []page.Peer{
		{Host: "model:8000", Waiting: 14, Wait: 1300 * time.Millisecond, InFlight: 15},
		{Host: hostile, Waiting: 0.2, Wait: 30 * time.Millisecond, InFlight: 1},
		{Host: "others", Waiting: 0.1, Wait: 10 * time.Millisecond},
	},
	Oldest: []page.Work{{Kind: "request", Name: hostile, Age: time.Minute}},
}

func TestSitesAndPeersStandUnderTheVerdict(t *testing.T) {
	b := open(t, diagnosed(t, lockDiagnosis), "/", wide)
	b.await(`document.getElementById('verdict-name').textContent === 'lock'`)
	assert.Equal(t, "Also: downstream, "+hostile, value[string](b, `document.getElementById('also').textContent`))
	assert.Regexp(t, `^since .*\d\d:\d\d:\d\d$`, value[string](b, `document.getElementById('verdict-since').textContent`))
	assert.Equal(t, "waitstore.(*Cache).Putstacksync.(*Mutex).Lockstore.(*Cache).Put"+hostile+"|store/cache.go:42|94 %|sync.(*Mutex).Lock|api/handlers.go:118",
		value[string](b, `[...document.querySelector('#sites-table tbody tr').cells].map((c) => c.textContent).join('|')`))
	assert.Equal(t, "94", value[string](b, `document.querySelector('#sites-table .part').getAttribute('width')`))
	assert.Equal(t, "model:8000|14|1.3 s|15", value[string](b, `[...document.querySelector('#peers-table tbody tr').cells].map((c) => c.textContent).join('|')`))
	assert.Equal(t, "not measured", value[string](b, `document.querySelector('#sites-table tbody tr:last-child').cells[2].textContent`))

	value[any](b, `getSelection().selectAllChildren(document.querySelector('#sites-table .place'))`)
	before := value[float64](b, `state.heard`)
	for range 2 { // events
		b.await(fmt.Sprintf(`state.heard > %v`, before))
		before = value[float64](b, `state.heard`)
	}
	assert.Equal(t, "store/cache.go:42", value[string](b, `getSelection().toString()`), "a selection stays as events come")
	assert.Equal(t, 0.0, value[float64](b, `document.querySelectorAll('img').length`), "what comes from outside is text")
	assert.True(t, strings.Contains(value[string](b, `document.title`), hostile), "as text")
}

func TestWithoutSitesThereIsNoTable(t *testing.T) {
	s := lockDiagnosis
	s.Sites, s.Peers, s.Also = nil, nil, nil
	b := open(t, diagnosed(t, s), "/", wide)
	b.await(`document.getElementById('verdict-name').textContent === 'lock'`)
	for _, id := range []string{"sites", "peers", "also"} {
		assert.True(t, value[bool](b, `document.getElementById('`+id+`').hidden`), id)
	}
}

func TestSitesFitAnyWidth(t *testing.T) {
	server := diagnosed(t, lockDiagnosis)
	for name, l := range map[string]look{"sites-wide": wide, "sites-narrow": {width: 400, height: 1400, dark: true}} {
		b := open(t, server, "/", l)
		b.await(`document.getElementById('verdict-name').textContent === 'lock'`)
		assert.LessOrEqual(t, value[int64](b, `document.documentElement.scrollWidth`), l.width, "%s scrolls sideways", name)
		if *screenshots != "" {
			png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644))
		}
	}
}
