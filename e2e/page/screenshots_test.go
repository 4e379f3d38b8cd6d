package page_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var screenshots = flag.String("screenshots", "", "a `directory` for pictures of the page under a slowdown")

// TestScreenshots makes the pictures of the documentation. It takes some minutes:
// a healthy time comes before the suffering.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("-screenshots says where to put them")
	}
	server := startProcess(t, "-window", "2s")
	post(t, server+"/serve")
	watching := open(t, server, "/debug/observer", wide)
	watching.awaitWithin(4*time.Minute, `state.windows.length >= 30`)
	post(t, server+"/gc")
	watching.awaitWithin(4*time.Minute, `state.windows.filter((w) => w.verdict === 'gc').length >= 15`)
	for name, look := range map[string]look{
		"page-light":        {width: 1400, height: 1010},
		"page-dark":         {width: 1400, height: 1010, dark: true},
		"page-narrow-light": {width: 400, height: 1600},
		"page-narrow-dark":  {width: 400, height: 1600, dark: true},
	} {
		b := open(t, server, "/debug/observer", look)
		b.await(`[...document.querySelectorAll('figure:not([hidden])')].filter((f) => f.getBoundingClientRect().top < innerHeight).every((f) => f.querySelector('svg :is(path, .cell)'))`)
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		cancel()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644))
		fmt.Println(name, len(png)/1024, "KiB")
	}
}
