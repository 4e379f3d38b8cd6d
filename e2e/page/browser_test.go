package page_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is for what a browser does on a machine that does much else.
const patience = 60 * time.Second

// browser is a headless Chromium that the tests share; nil where there is none.
var browser context.Context

// startBrowser starts it, if there is one.
func startBrowser() (stop func()) {
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		return func() {}
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has none for root
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	tab, stopBrowser := chromedp.NewContext(allocator)
	if err := chromedp.Do(tab, chromedp.Navigate("about:blank")); err != nil {
		fmt.Fprintln(os.Stderr, "starting", program, "failed:", err)
		stopBrowser()
		stopAllocator()
		return func() {}
	}
	browser = tab
	return func() {
		stopBrowser()
		stopAllocator()
	}
}

// tab is one tab of the browser, and what went wrong in it.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string
	errors   []string
}

// look is how a tab shows a page.
type look struct {
	width, height int64
	dark          bool
}

var wide = look{width: 1400, height: 900}

// open opens a page in a tab of its own. The test fails if the page logs an
// error, breaks its policy, or asks anybody but its own server.
func open(t *testing.T, server, path string, l look) *tab {
	t.Helper()
	if browser == nil {
		t.Skip("there is no Chromium; on Debian: apt-get install chromium")
	}
	ctx, closeTab := chromedp.NewContext(browser)
	b := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, b.note))
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	b.do(
		chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, network.Enable, network.EnableParams{})
			return err
		}),
		chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return err
		}),
		chromedp.EmulateViewport(l.width, l.height),
		chromedp.Navigate(server+path),
	)
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		require.Empty(t, b.errors, "what the browser complains of")
		for _, url := range b.requests {
			if !strings.HasPrefix(url, server+"/") && !strings.HasPrefix(url, "data:") {
				t.Errorf("the page asked for %s", url)
			}
		}
	})
	t.Cleanup(closeTab)
	return b
}

// note takes what the browser reports. It may not block.
func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, event.Request.URL)
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, fmt.Sprint(event.ExceptionDetails.Text, event.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		for _, argument := range event.Args {
			b.errors = append(b.errors, string(argument.Value))
		}
	case *log.EventEntryAdded: // a broken policy is one
		b.errors = append(b.errors, string(event.Entry.Source)+": "+event.Entry.Text)
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, actions...))
}

// value evaluates JavaScript in the page.
func value[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(b.t, err, expression)
	return result
}

// await waits until an expression is true in the page. The browser's own way to
// wait would need a policy that allows eval.
func (b *tab) await(expression string) {
	b.t.Helper()
	b.awaitWithin(patience, expression)
}

func (b *tab) awaitWithin(patience time.Duration, expression string) {
	b.t.Helper()
	timeout := time.After(patience)
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for !value[bool](b, expression) {
		select {
		case <-ticker.C:
		case <-timeout:
			require.FailNow(b.t, "the page does not come to it", "%s\nin\n%s", expression, value[string](b, "document.body.innerText"))
		}
	}
}

// show scrolls to a picture: only what can be seen is drawn.
func (b *tab) show(picture string) {
	b.t.Helper()
	value[any](b, fmt.Sprintf(`document.getElementById('%s').scrollIntoView()`, picture))
}
