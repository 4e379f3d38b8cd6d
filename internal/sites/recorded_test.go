package sites_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/sites"
)

// recording is what a program in testdata/programs printed: see record.sh there.
type recording struct {
	Build  string
	Extern string
	Stacks []sites.Stack
}

func read(t *testing.T, name string) (recording, *sites.Reader) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "recorded", name+".json"))
	require.NoError(t, err)
	var r recording
	require.NoError(t, json.Unmarshal(text, &r))
	info, err := debug.ParseBuildInfo(r.Build)
	require.NoError(t, err)
	return r, sites.NewReader(sites.BuildOf(info, r.Extern), sites.MarksOf("example.com/gym/observer"))
}

// plantedIn finds the marked line of a program, as the module has it.
func plantedIn(t *testing.T, module, file, mark string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", "programs", module, filepath.FromSlash(file)))
	require.NoError(t, err)
	for i, line := range strings.Split(string(source), "\n") {
		if strings.HasSuffix(line, "// planted: "+mark) {
			return fmt.Sprintf("%s:%d", file, i+1)
		}
	}
	t.Fatalf("no line of %s is marked %q", file, mark)
	return ""
}

// lines are the locations of the sites of a subject that a reading has.
func lines(reader *sites.Reader, stacks []sites.Stack, inFlight int, subject sites.Subject) map[string]sites.Site {
	found := map[string]sites.Site{}
	// One stack at a time, since a survey tells of five sites only, and with it the
	// goroutine that a request started.
	started := slices.IndexFunc(stacks, func(s sites.Stack) bool {
		return slices.ContainsFunc(s.Frames, func(f sites.Frame) bool { return strings.HasSuffix(f.Function, ".Child.func1") })
	})
	for i := range stacks {
		some := []sites.Stack{stacks[i]}
		if started >= 0 {
			some = append(some, stacks[started])
		}
		var survey sites.Survey
		survey.Add(reader.Read(some, sites.Now{InFlight: inFlight}))
		for _, site := range survey.Sites(subject) {
			found[site.Location] = site
		}
	}
	return found
}

func TestRecordedBuilds(t *testing.T) {
	for _, name := range []string{"plain", "trimpath", "stripped", "vendor", "workspace", "workspace-trimpath", "plugin", "files", "files-trimpath"} {
		t.Run(name, func(t *testing.T) {
			r, reader := read(t, name)
			found := lines(reader, r.Stacks, 20, sites.Waiting)
			store := func(mark string) string { return plantedIn(t, "shop", "store/store.go", mark) }
			main := plantedIn(t, "shop", "cmd/server/main.go", "main")
			if strings.HasPrefix(name, "files") { // whose folder nobody noted
				main = strings.TrimPrefix(main, "cmd/server/")
			}
			want := map[string]string{ // the function of each line
				main: "main.wait",
				plantedIn(t, "billing", "ledger/ledger.go", "module without a dot"): "billing/ledger.Serve",
				plantedIn(t, "shop", "shop.go", "root"):                             "example.com/shop.Serve",
				store("generic function"):                                           "example.com/shop/store.receive[...]",
				store("inlined"):                                                    "example.com/shop/store.small",
				store("deep"):                                                       "example.com/shop/store.deep",
				store("promoted"):                                                   "example.com/shop/store.Limiter.ServeHTTP",
				store("child"):                                                      "example.com/shop/store.Child.func1",
				plantedIn(t, "shop", "store/call.go", "assembly"):                   "example.com/shop/store.back",
				"store/parser.y:7":                                                  "example.com/shop/store.Generated",
				"views/page.templ:9":                                                "example.com/shop/store.Elsewhere",
			}
			if name == "plugin" {
				want[plantedIn(t, "shop", "extra/extra.go", "plugin")] = "example.com/shop/extra.Serve"
			}
			got := map[string]string{}
			for location, site := range found {
				got[location] = site.Function
			}
			assert.Equal(t, want, got)
			assert.Equal(t, "golang.org/x/sync/semaphore.(*Weighted).Acquire", found[store("inlined")].In)

			locks := lines(reader, r.Stacks, 20, sites.Locks)
			require.Contains(t, locks, store("generic method"))
			assert.Equal(t, "example.com/shop/store.(*Cache[...]).Put", locks[store("generic method")].Function)
			assert.Equal(t, "store/store.go", strings.Split(locks[store("generic method")].Caller, ":")[0])
		})
	}
}

func TestRecordedTests(t *testing.T) {
	for _, name := range []string{"test", "test-trimpath"} {
		t.Run(name, func(t *testing.T) {
			r, reader := read(t, name)
			waiting := lines(reader, r.Stacks, 0, sites.Waiting)
			require.Contains(t, waiting, plantedIn(t, "shop", "store/store_test.go", "test"))
			locks := lines(reader, r.Stacks, 0, sites.Locks)
			require.Contains(t, locks, plantedIn(t, "shop", "store/store.go", "generic method"))
		})
	}
}

// A stack that is cut counts as a request as far as the counter says that some
// are missing.
func TestCutStackIsARequestWhereOneIsMissing(t *testing.T) {
	r, reader := read(t, "plain")
	deep := plantedIn(t, "shop", "store/store.go", "deep")
	served := 0
	for _, s := range r.Stacks {
		for _, f := range s.Frames {
			if f.Function == "example.com/gym/observer.(*middleware).ServeHTTP" {
				served++
			}
		}
	}
	for missing, want := range map[int]float64{0: 0, 1: 1, 2: 1} {
		var survey sites.Survey
		survey.Add(reader.Read(r.Stacks, sites.Now{InFlight: served + missing}))
		// One of the requests waits for a lock, and its child's line is counted once.
		assert.InDelta(t, float64(served-1)+want, survey.Load(sites.Waiting), 1e-9)
		_, told := lines(reader, r.Stacks, missing, sites.Waiting)[deep]
		assert.Equal(t, want > 0, told)
	}
}
