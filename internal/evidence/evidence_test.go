package evidence

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errOfTest = errors.New("of the test")

// text is a file with some text.
func text(name, content string) File {
	return File{name, func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	}}
}

func failing(name string) File {
	return File{name, func(io.Writer) error { return errOfTest }}
}

// entries lists a directory by name.
func entries(t *testing.T, directory string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(directory)
	require.NoError(t, err)
	for _, entry := range all {
		names = append(names, entry.Name())
	}
	return names
}

// folderOf makes a folder with one file of some size.
func folderOf(t *testing.T, directory, name string, size int) string {
	t.Helper()
	folder := filepath.Join(directory, name)
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "trace.out"), make([]byte, size), 0o644))
	return folder
}

func TestWriteMakesOneCompleteFolder(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "made", "on", "the", "way")
	at := time.Date(2026, 11, 29, 14, 0, 0, 123_456_789, time.FixedZone("", -5*3600))
	require.NoError(t, Write(directory, Name{at, "cpu_saturated", 7},
		text("goroutines.txt", "stacks"), JSON("diagnosis.json", map[string]int{"load": 3})))
	const name = "20261129T190000.123456Z-cpu_saturated-7"
	assert.Equal(t, []string{name}, entries(t, directory))
	assert.Equal(t, []string{"diagnosis.json", "goroutines.txt"}, entries(t, filepath.Join(directory, name)))
	content, err := os.ReadFile(filepath.Join(directory, name, "diagnosis.json"))
	require.NoError(t, err)
	assert.Equal(t, "{\n  \"load\": 3\n}\n", string(content))
}

func TestAFileThatFailsIsLeftOut(t *testing.T) {
	directory := t.TempDir()
	half := File{"half.txt", func(w io.Writer) error {
		_, err := w.Write(make([]byte, 100_000))
		return errors.Join(err, errOfTest)
	}}
	err := Write(directory, Name{time.Now(), "gc", 1}, half, text("goroutines.txt", "stacks"), failing("sites.json"))
	assert.ErrorIs(t, err, errOfTest)
	assert.ErrorContains(t, err, "half.txt: ")
	assert.ErrorContains(t, err, "sites.json: ")
	names := entries(t, directory)
	require.Len(t, names, 1)
	assert.Equal(t, []string{"goroutines.txt"}, entries(t, filepath.Join(directory, names[0])))
}

func TestWhereAllFailsThereIsNoFolder(t *testing.T) {
	directory := t.TempDir()
	assert.ErrorIs(t, Write(directory, Name{time.Now(), "gc", 1}, failing("a.txt"), failing("b.txt")), errOfTest)
	assert.Empty(t, entries(t, directory))
}

func TestAFileThatPanicsLeavesNothing(t *testing.T) {
	directory := t.TempDir()
	assert.Panics(t, func() {
		_ = Write(directory, Name{time.Now(), "gc", 1}, text("a.txt", "a"), File{"b.txt", func(io.Writer) error { panic("in the middle") }})
	})
	assert.Empty(t, entries(t, directory))
}

func TestADirectoryThatCannotBeMade(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(directory, nil, 0o600))
	assert.Error(t, Write(directory, Name{time.Now(), "gc", 1}, text("a.txt", "a")))
	assert.Error(t, Prune(directory, 1))
}

// Containers may share a directory, and in each the process is number 1.
func TestProcessesOfOneNumberCaptureInTheSameMicrosecond(t *testing.T) {
	directory := t.TempDir()
	name := Name{time.Now(), "gc", 1}
	var writers sync.WaitGroup
	for i := range 20 {
		writers.Go(func() { assert.NoError(t, Write(directory, name, text("a.txt", fmt.Sprint(i)))) })
	}
	writers.Wait()
	names := entries(t, directory)
	assert.Len(t, names, 20)
	for _, name := range names {
		_, ok := ParseName(name)
		assert.True(t, ok, name)
	}
}

func TestOldestGoFirstPastTheBudget(t *testing.T) {
	directory := t.TempDir()
	const (
		a = "20240101T000000.000000Z-gc-7"
		b = "20250101T000000.000000Z-lag-1"
		d = "20260101T000000.000000Z-admission-3"
	)
	for _, name := range []string{d, a, b} {
		folderOf(t, directory, name, 1000)
	}
	file := "20230101T000000.000000Z-gc-1" // one that is no folder
	require.NoError(t, os.WriteFile(filepath.Join(directory, file), make([]byte, 100_000), 0o644))
	outside := folderOf(t, t.TempDir(), "precious", 100_000)
	link := "20230202T000000.000000Z-gc-1"
	require.NoError(t, os.Symlink(outside, filepath.Join(directory, link)))

	for _, test := range []struct {
		budget int64
		left   []string
	}{
		{3000, []string{a, b, d}},
		{2999, []string{b, d}},
		{1000, []string{d}},
		{1, []string{d}}, // the newest stays in any case
	} {
		require.NoError(t, Prune(directory, test.budget))
		assert.ElementsMatch(t, append([]string{file, link}, test.left...), entries(t, directory), "with a budget of %d", test.budget)
	}
	assert.FileExists(t, filepath.Join(outside, "trace.out"))
}

// strangers are names of folders that others keep beside ours.
var strangers = []string{
	"20240101T000000.000000Z-gc-7 KEEP for the post mortem",
	"20240101T000000.000000Z-gc-7.keep",
	"20240101T000000.000000Z-gc-7-keep",
	"20240101T000000.000000Z-gc-07",
	"20240101T000000.000000Z-gc-+7",
	"20240101T000000.000000Z-gc--7",
	"20240101T000000.000000Z-gc-",
	"20240101T000000.000000Z-gc",
	"20240101T000000.000000Z--7",
	"20240101T000000.000000Z-GC-7",
	"20240101T000000.000000Z-g c-7",
	"20240101T000000.000000Z-gc-99999999999999999999",
	"20240101T000000,000000Z-gc-7",
	"20240101T000000.000Z-gc-7",
	"20240101T000000Z-gc-7",
	"20240101T000000.000000-gc-7",
	"20241301T000000.000000Z-gc-7",
	"KEEP 20240101T000000.000000Z-gc-7",
	" 20240101T000000.000000Z-gc-7",
	"20240101T000000.000000Z-gc-7 ",
	"z-20240101T000000.000000Z-gc-7",
	"20240101",
	"notes",
}

func TestH74AFolderThatSomebodyKeepsIsNeverRemoved(t *testing.T) {
	directory := t.TempDir()
	var stay []string
	before := time.Now().Add(-2 * abandonedAfter)
	for _, name := range strangers {
		// Beside the names of complete folders those of incomplete ones, which go by
		// their age.
		for _, name := range []string{name, partialPrefix + name} {
			folder := folderOf(t, directory, name, 100_000)
			require.NoError(t, os.Chtimes(folder, before, before))
			stay = append(stay, name)
		}
	}
	file := partialPrefix + "20240101T000000.000000Z-gc-1" // one that is no folder
	require.NoError(t, os.WriteFile(filepath.Join(directory, file), nil, 0o600))
	require.NoError(t, os.Chtimes(filepath.Join(directory, file), before, before))
	require.NoError(t, Write(directory, Name{time.Now(), "gc", 1}, text("a.txt", "a")))
	require.NoError(t, Prune(directory, 1))
	names := entries(t, directory)
	for _, name := range append(stay, file) {
		assert.Contains(t, names, name)
	}
	assert.Len(t, names, len(stay)+2)
}

func TestH74OneDefinitionOfAName(t *testing.T) {
	for _, name := range []Name{
		{time.Date(2026, 9, 30, 23, 59, 59, 999_999e3, time.UTC), "blocked_thread", 4_194_304},
		{time.Unix(0, 0).UTC(), "a", 0},
		{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "lag", 1},
	} {
		parsed, ok := ParseName(name.String())
		assert.True(t, ok, name)
		assert.Equal(t, name, parsed)
		_, ok = ParseName(name.partial())
		assert.False(t, ok, "not complete")
		parsed, ok = parsePartial(name.partial())
		assert.True(t, ok, name)
		assert.Equal(t, name, parsed)
	}
	for _, name := range strangers {
		_, ok := ParseName(name)
		assert.False(t, ok, name)
	}
	assert.Error(t, Write(t.TempDir(), Name{time.Now(), "not a word", 1}, text("a.txt", "a")), "the writer makes no name that the others refuse")
}

func FuzzParseName(f *testing.F) {
	f.Add("20260102T030405.000000Z-lag-1")
	for _, name := range strangers {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if name, ok := ParseName(s); ok {
			assert.Equal(t, s, name.String())
			assert.NotContains(t, s, "/")
		}
	})
}

func TestNamesSortByTime(t *testing.T) {
	var inOrder []string
	at := time.Date(2026, 9, 30, 23, 59, 59, 999_998e3, time.FixedZone("", -5*3600))
	for i, step := range []time.Duration{0, time.Microsecond, time.Second, time.Hour, 30 * 24 * time.Hour, 400 * 24 * time.Hour} {
		at = at.Add(step)
		inOrder = append(inOrder, Name{at, []string{"unknown", "admission", "lag", "gc"}[i%4], 1}.String())
	}
	assert.True(t, slices.IsSorted(inOrder), "%v", inOrder)
}

func TestWhatACrashLeftIsRemovedWhenNobodyWritesItAnyMore(t *testing.T) {
	directory := t.TempDir()
	old := folderOf(t, directory, Name{time.Now(), "gc", 1}.partial(), 10)
	recent := folderOf(t, directory, Name{time.Now(), "gc", 2}.partial(), 10)
	before := time.Now().Add(-2 * abandonedAfter)
	require.NoError(t, os.Chtimes(old, before, before))
	require.NoError(t, Prune(directory, 1))
	assert.NoDirExists(t, old)
	assert.DirExists(t, recent, "another process may be writing it")
}
