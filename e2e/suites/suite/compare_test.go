package suite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseFindsResultsAmongOutput(t *testing.T) {
	const output = "\x16=== RUN   TestA\nhello\n\x16=== RUN   TestA/sub_one\nno line feed\x16--- PASS: TestA/sub_one (0.00s)\n" +
		"--- FAIL: TestA (printed by the test itself)\n\x16=== NAME  TestA\n\x16--- PASS: TestA (0.01s)\n" +
		"\x16=== RUN   TestB\n\x16--- FAIL: TestB (0.00s)\n\x16=== RUN   TestC\n\x16--- SKIP: TestC (0.00s)\n\x16=== RUN   TestD\n"
	tests, ended := parse(output + "panic: deadlock\n")
	assert.Equal(t, map[string]outcome{"TestA": passed, "TestA/sub_one": passed, "TestB": failed, "TestC": skipped, "TestD": unfinished}, tests)
	assert.False(t, ended)
	for _, last := range []string{"\x16FAIL\n", "\x16PASS\n"} {
		_, ended = parse(output + last)
		assert.True(t, ended)
	}
}

func TestDifferingTests(t *testing.T) {
	without := map[string]outcome{
		"TestSame": passed, "TestFailsBoth": failed, "TestFails": passed, "TestSkips": passed, "TestGone": passed,
		"TestSub": passed, "TestSub/a": passed, "TestPort": passed, "TestPort/127.0.0.1:1": passed,
		"TestHalf": passed, "TestHalf/a": passed, "TestMended": failed,
	}
	with := map[string]outcome{
		"TestSame": passed, "TestFailsBoth": failed, "TestFails": failed, "TestSkips": skipped,
		"TestSub": failed, "TestSub/a": failed, "TestPort": passed, "TestPort/127.0.0.1:2": passed,
		"TestHalf": unfinished, "TestMended": passed,
	}
	assert.Equal(t, []string{"TestFails", "TestGone", "TestHalf", "TestSkips", "TestSub"}, differing(without, with))
}

func TestCountsThatAreWrong(t *testing.T) {
	assert.Empty(t, sane([]counts{{}, {Entered: 5, Left: 4, InFlight: 1, Sent: 3, Got: 3, Responses: 4}}))
	for name, c := range map[string]counts{
		"left over":            {Entered: 5, Left: 5, InFlight: 1},
		"too few":              {Entered: 5, Left: 4},
		"outbound left over":   {Sent: 1, Got: 1, Outbound: 1},
		"below zero":           {Lowest: -1},
		"goroutines left over": {Goroutines: 1},
	} {
		assert.Len(t, sane([]counts{{}, c}), 1, name)
	}
}

func TestListedDifferencesHaveTheirReason(t *testing.T) {
	all, err := parseListings(differencesText)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	packages := make(map[string]bool)
	for _, s := range All() {
		for _, p := range s.Packages {
			if s.Module == "" {
				packages[p] = true
			} else {
				packages[label(s, p)] = true
			}
		}
	}
	for _, l := range all {
		assert.True(t, packages[l.pkg], "no suite has the package %s of %s", l.pkg, l.test)
	}
	first := all[0]
	assert.Equal(t, first.reason, reasonFor(Difference{Package: first.pkg, Test: first.test, Mode: first.modes[0]}))
	assert.Empty(t, reasonFor(Difference{Package: first.pkg, Test: first.test + "x", Mode: first.modes[0]}))
	assert.Empty(t, reasonFor(Difference{Package: first.pkg + "x", Test: first.test, Mode: first.modes[0]}))
	assert.Empty(t, reasonFor(Difference{Package: first.pkg, Test: first.test, Mode: Without}))

	for _, line := range []string{"net/http server TestX", "net/http somewhere TestX reason", "net/http server,without TestX reason"} {
		_, err := parseListings(line)
		assert.ErrorContains(t, err, line)
	}
}

func TestNamesAndModes(t *testing.T) {
	all, unknown := Named(nil)
	assert.Len(t, all, len(All()))
	assert.Empty(t, unknown)
	some, unknown := Named([]string{"chi", "nobody's", "cors"})
	assert.Equal(t, []string{"nobody's"}, unknown)
	require.Len(t, some, 2)
	assert.Equal(t, "chi", some[0].Name)

	modes, err := ParseModes("inner,server")
	require.NoError(t, err)
	assert.Equal(t, []Mode{Inner, Server}, modes)
	modes, err = ParseModes("")
	require.NoError(t, err)
	assert.Equal(t, Modes, modes)
	_, err = ParseModes("server,without")
	assert.ErrorContains(t, err, "without")
}

// The originals are other people's, and the Go that everything is built with.
func TestPatchLeavesTheOriginalOfALink(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	original := filepath.Join(from, "folder", "file.go")
	require.NoError(t, os.MkdirAll(filepath.Dir(original), 0o755))
	require.NoError(t, os.WriteFile(original, []byte("old"), 0o444))
	for name, link := range map[string]func(from, to string) error{"link": os.Link, "copy": nil} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, copyTree(from, filepath.Join(to, name), link))
			require.NoError(t, replace("folder/file.go", "old", "new")(filepath.Join(to, name)))
			text, err := os.ReadFile(filepath.Join(to, name, "folder", "file.go"))
			require.NoError(t, err)
			assert.Equal(t, "new", string(text))
			text, err = os.ReadFile(original)
			require.NoError(t, err)
			assert.Equal(t, "old", string(text))
		})
	}
}

func TestPatchOfSomethingElseFails(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"none.go": "package x", "twice.go": "old old"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
		assert.ErrorContains(t, replace(name, "old", "new")(folder), name)
	}
	assert.ErrorContains(t, router("none.go", "*Mux")(folder), "*Mux")
}

func TestRouterIsWrapped(t *testing.T) {
	folder := t.TempDir()
	const source = "package x\n\nfunc (mx *Mux) ServeHTTP(w http.ResponseWriter, req *http.Request) {\n\tmx.handle(w, req)\n}\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "mux.go"), []byte(source), 0o644))
	require.NoError(t, router("mux.go", "*Mux")(folder))
	text, err := os.ReadFile(filepath.Join(folder, "mux.go"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "func (mx *Mux) foreignServeHTTP(w http.ResponseWriter, req *http.Request) {\n\tmx.handle(w, req)\n}")
	assert.Contains(t, string(text), "http.ForeignInner(foreignMux{x}).ServeHTTP(w, r)")
}
