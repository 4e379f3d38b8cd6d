// Package page_test looks at the live page with a real browser.
package page_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/e2e/internal/backend"
)

// program is the built process.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		directory, err := os.MkdirTemp("", "page")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(directory)
		program = filepath.Join(directory, "server")
		build := exec.Command("go", "build", "-o", program, "./process")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building the process:", err)
			return 1
		}
		defer startBrowser()()
		return backend.Main(m)
	}())
}

// startProcess starts a process that ends with the test, and returns its address.
func startProcess(t *testing.T, arguments ...string) (url string) {
	t.Helper()
	if browser == nil {
		t.Skip("there is no Chromium; on Debian: apt-get install chromium")
	}
	command := exec.Command(program, arguments...)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		require.NoError(t, command.Process.Signal(os.Interrupt))
		assert.NoError(t, command.Wait(), "the process drains within its patience, whoever looks")
	})
	url, err = bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(url)
}

// post tells the process to begin or end something.
func post(t *testing.T, url string) {
	t.Helper()
	response, err := http.Post(url, "", nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode, url)
}

// drawn is true once a picture has a line, an area or a cell.
func drawn(picture string) string {
	return fmt.Sprintf(`document.querySelector('#%s svg :is(path, .cell)') !== null`, picture)
}

func TestEveryPictureAppears(t *testing.T) {
	server := startProcess(t)
	b := open(t, server, "/debug/observer", wide)
	b.await(`state.windows.length > 0`)
	assert.False(t, value[bool](b, `document.getElementById('no-driver').hidden`), "it has driven nothing yet")
	post(t, server+"/serve")
	post(t, server+"/drive")
	b.await(`state.seconds.some((s) => s.driver && s.driver.admissions > 0 && s.responses['2xx'] > 0)`)
	b.await(`document.getElementById('no-driver').hidden`)
	for _, picture := range value[[]string](b, `[...document.querySelectorAll('figure')].map((f) => f.id)`) {
		b.show(picture)
		b.await(drawn(picture))
		label := value[string](b, fmt.Sprintf(`document.querySelector('#%s svg').getAttribute('aria-label')`, picture))
		assert.Regexp(t, `^.+: .+`, label, "the words beside %s", picture)
		assert.NotEmpty(t, value[string](b, fmt.Sprintf(`document.querySelector('#%s figcaption').textContent`, picture)), picture)
	}
}

func TestValuesMoveUnderLoad(t *testing.T) {
	server := startProcess(t)
	b := open(t, server, "/debug/observer", wide)
	b.await(`state.seconds.length > 0`)
	assert.Zero(t, value[float64](b, `state.seconds.at(-1).in_flight`))
	post(t, server+"/serve")
	b.await(`state.seconds.at(-1).in_flight > 1 && state.seconds.at(-1).outbound > 1`)
	b.await(`state.seconds.at(-1).responses['2xx'] > 10 && state.seconds.at(-1).responses['4xx'] > 0`)
	b.show("requests")
	b.await(`Number(document.querySelector('#requests .legend b')?.textContent) > 1`)
	post(t, server+"/recover")
	b.await(`state.seconds.at(-1).in_flight === 0`)
	b.await(`document.querySelector('#requests .legend b')?.textContent === '0'`)
}

func TestVerdictFollowsTheCause(t *testing.T) {
	server := startProcess(t, "-captures", t.TempDir())
	b := open(t, server, "/debug/observer", wide)
	const verdict = `document.getElementById('verdict-name').textContent`
	b.await(verdict + ` !== '…' && ` + verdict + ` !== 'gc'`)
	post(t, server+"/gc")
	b.await(verdict + ` === 'gc'`)
	assert.Regexp(t, `^The collector used \d`, value[string](b, `document.getElementById('evidence').textContent`))
	assert.Regexp(t, `^Allocate less`, value[string](b, `document.getElementById('advice').textContent`))
	assert.Regexp(t, `^Verdict: gc\.`, value[string](b, `document.getElementById('announcement').textContent`))
	assert.NotEmpty(t, value[string](b, `document.querySelector('#load .area.c-gc').getAttribute('d')`))

	b.await(`document.querySelectorAll('#captures a').length >= 3`) // and a fourth where the line is known
	link := value[string](b, `document.querySelector('#captures a[href*="diagnosis.json"]').href`)
	response, err := http.Get(link)
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, http.StatusOK, response.StatusCode, link)

	post(t, server+"/recover")
	b.await(verdict + ` !== 'gc'`)
}

func TestVerdictFollowsTheExampleThatSuffers(t *testing.T) {
	if browser == nil {
		t.Skip("there is no Chromium; on Debian: apt-get install chromium")
	}
	slowdown := backend.StartExample(t, "slowdown", nil, "-cause", "lock", "-suffer", "20s", "-window", "1s", "-duration", "0")
	address := slowdown.WaitForOutput(t, `live page is at (http://[^/]+)(/\S+)\. `)
	b := open(t, address[1], address[2], wide)
	const verdict = `document.getElementById('verdict-name').textContent`
	b.await(verdict + ` === 'lock'`)
	assert.Regexp(t, `goroutines waited for a mutex; \d+ % at main\.holdMutex\S* \(examples/slowdown/lock\.go:\d+\), held across`, value[string](b, `document.getElementById('evidence').textContent`))
	b.await(verdict + ` === 'none'`)
}

func TestPageWorksWhereverItIsMounted(t *testing.T) {
	server := startProcess(t)
	for _, path := range []string{"/debug/observer", "/debug/observer/", "/debug/observer/any/path", "/stripped/"} {
		t.Run(path, func(t *testing.T) {
			b := open(t, server, path, wide)
			b.await(`state.seconds.length > 0`)
		})
	}
}

// The server gives up on responses after 2 s.
func TestStreamOutlivesTheWriteTimeout(t *testing.T) {
	server := startProcess(t)
	b := open(t, server, "/debug/observer", wide)
	b.await(`state.seconds.length > 0`)
	value[any](b, `let wholes = 0; const counting = new EventSource('?format=events'); counting.addEventListener('whole', () => wholes++)`)
	b.await(`wholes === 1`)
	before := value[float64](b, `state.seconds.at(-1).number`)
	b.await(fmt.Sprintf(`state.seconds.at(-1).number >= %v`, before+5))
	assert.Equal(t, 1.0, value[float64](b, `wholes`), "streams that it took")
}

func TestPageComesBackWithTheObserver(t *testing.T) {
	server := startProcess(t)
	b := open(t, server, "/debug/observer", wide)
	b.await(`state.seconds.length > 2`)
	post(t, server+"/stop")
	b.await(`/Nothing observes this process/.test(document.getElementById('evidence').textContent)`)
	post(t, server+"/start")
	b.await(`state.seconds.length > 0 && state.seconds.every((s) => Object.values(s.responses).every((n) => n >= 0))`)
	b.await(drawn("lag"))
}

func TestKeyboardReadsThePast(t *testing.T) {
	server := startProcess(t)
	b := open(t, server, "/debug/observer", wide)
	b.await(`state.seconds.length > 3`)
	value[any](b, `document.getElementById('lag').focus()`)
	b.await(drawn("lag"))
	b.do(chromedp.KeyEvent(kb.ArrowLeft))
	b.await(`/^\d\d:\d\d:\d\d, of \d+ samples, p50 /.test(document.getElementById('reading').textContent)`)
	b.await(`document.querySelector('#lag .legend .when') !== null`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.await(`document.querySelector('#lag .legend .when') === null`)
}

func TestNothingOverlapsAtAnyWidth(t *testing.T) {
	server := startProcess(t)
	post(t, server+"/serve")
	post(t, server+"/drive")
	for _, l := range []look{wide, {width: 800, height: 900}, {width: 400, height: 800, dark: true}} {
		t.Run(fmt.Sprint(l.width), func(t *testing.T) {
			b := open(t, server, "/debug/observer", l)
			b.await(`state.windows.length > 3 && document.getElementById('no-driver').hidden`)
			b.do(chromedp.EmulateViewport(l.width, 6000)) // all pictures are drawn that can be seen
			b.await(`[...document.querySelectorAll('figure')].every((f) => f.querySelector('svg :is(path, .cell)'))`)
			assert.LessOrEqual(t, value[int64](b, `document.documentElement.scrollWidth`), l.width, "the page scrolls sideways")
			assert.Empty(t, value[[]string](b, overlaps), "labels that overlap or are cut off")
		})
	}
}

// overlaps lists the labels of a picture that overlap another one, or its edge.
const overlaps = `[...document.querySelectorAll('figure svg')].flatMap((picture) => {
	const edge = picture.getBoundingClientRect();
	const labels = [...picture.querySelectorAll('text')].map((label) => ({text: label.textContent, box: label.getBoundingClientRect()}));
	return labels.filter(({box}, i) =>
		box.left < edge.left - 1 || box.right > edge.right + 1 || box.top < edge.top - 1 || box.bottom > edge.bottom + 1 ||
		labels.some((other, j) => i !== j && box.left < other.box.right - 1 && other.box.left < box.right - 1 &&
			box.top < other.box.bottom - 3 && other.box.top < box.bottom - 3),
	).map(({text}) => picture.closest('figure').id + ': ' + text);
})`
