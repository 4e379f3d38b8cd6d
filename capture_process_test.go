package observer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/evidence"
	"github.com/gym-observer/observer/internal/number"
)

func init() {
	// Captures into a directory until it is killed.
	ChildModes["capture"] = func() error {
		var failed error
		c, err := evidence.Start(settingsOf(os.Getenv("CAPTURE_DIRECTORY"), WithCaptureBudget(4<<20)), func(_ string, err error) { failed = errors.Join(failed, err) })
		if err != nil {
			return err
		}
		for {
			c.Begin("gc", filesOf(diagnosisOfTest)...)
			c.Wait()
			if failed != nil {
				return failed
			}
			fmt.Println("captured")
		}
	}
	// Captures thirty times.
	ChildModes["capture thirty"] = func() error {
		settings := settingsOf(os.Getenv("CAPTURE_DIRECTORY"), WithCaptureBudget(100<<10))
		settings.Goroutines = 0 // without a trace, which is quicker
		var failed error
		c, err := evidence.Start(settings, func(_ string, err error) { failed = errors.Join(failed, err) })
		if err != nil {
			return err
		}
		for range 30 {
			c.Begin("gc", filesOf(diagnosisOfTest)...)
			c.Wait()
		}
		return failed
	}
}

// requireComplete checks that a folder has all that a capture writes.
func requireComplete(t *testing.T, folder string) {
	require.Equal(t, []string{"diagnosis.json", "goroutines.txt", "trace.out"}, entries(t, folder))
	text, err := os.ReadFile(filepath.Join(folder, "diagnosis.json"))
	require.NoError(t, err)
	require.True(t, json.Valid(text), "%s: %q", folder, text)
	recorded, err := os.ReadFile(filepath.Join(folder, "trace.out"))
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(recorded, []byte("go 1.")), "%s: %.40q", folder, recorded)
	goroutines, err := os.ReadFile(filepath.Join(folder, "goroutines.txt"))
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(goroutines, []byte("goroutine profile: total ")))
}

func TestCapturesAreCompleteOrAbsentWhenTheProcessIsKilled(t *testing.T) {
	directory := t.TempDir()
	for range 8 {
		child := Child(t, "capture", "CAPTURE_DIRECTORY="+directory)
		output, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		_, err = output.Read(make([]byte, 1)) // it has captured once
		require.NoError(t, err)
		<-time.After(rand.N(20 * time.Millisecond)) // and is killed somewhere in the next
		require.NoError(t, child.Process.Kill())
		_, _ = io.Copy(io.Discard, output)
		require.Error(t, child.Wait())
	}
	names := entries(t, directory)
	require.NotEmpty(t, names)
	for _, name := range names {
		requireComplete(t, filepath.Join(directory, name))
	}
}

func TestSeveralProcessesShareADirectory(t *testing.T) {
	directory := t.TempDir()
	var children sync.WaitGroup
	for range 3 {
		children.Go(func() {
			assert.NoError(t, Child(t, "capture thirty", "CAPTURE_DIRECTORY="+directory).Run(), "one removes what another looks at")
		})
	}
	children.Wait()
	names := entries(t, directory)
	assert.NotEmpty(t, names)
	var total int64
	for _, name := range names {
		for _, file := range entries(t, filepath.Join(directory, name)) {
			info, err := os.Stat(filepath.Join(directory, name, file))
			require.NoError(t, err)
			total += info.Size()
		}
	}
	assert.LessOrEqual(t, total, int64(100<<10))
}

// What a capture takes is in no binary without WithCapture: runtime/pprof alone is
// a quarter of a megabyte, and turns the heap's profile on.
func TestBinariesWithoutWithCaptureHaveNothingOfIt(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds two programs")
	}
	program, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command here")
	}
	symbols := func(name string) string {
		binary := filepath.Join(t.TempDir(), "program")
		out, err := exec.CommandContext(t.Context(), program, "build", "-o", binary, "./testdata/"+name).CombinedOutput()
		require.NoError(t, err, "%s", out)
		found, err := goTool(t, "nm", binary)
		require.NoError(t, err)
		return found
	}
	with, without := symbols("capturing"), symbols("observing")
	for _, name := range []string{"runtime/pprof.", "runtime/trace.(*FlightRecorder)", "/internal/evidence.Write", "/internal/evidence.Prune"} {
		assert.True(t, strings.Contains(with, name), name) // not assert.Contains, which prints all symbols
		assert.False(t, strings.Contains(without, name), name)
	}
	for _, name := range []string{"/internal/page.New", "html/template", "text/template"} {
		assert.False(t, strings.Contains(without, name), "%s, of a page that nobody asks for", name)
	}
}

func TestCaptureHasTheProfileThatNamesTheLine(t *testing.T) {
	m := manually(t, WithProfiles())
	var over atomic.Bool
	var burning sync.WaitGroup
	defer burning.Wait()
	defer over.Store(true)
	burning.Go(func() {
		for !over.Load() {
		}
	})
	saturated := func() *diagnosis.Window {
		w := windowWith(map[diagnosis.Cause]float64{diagnosis.CPUSaturated: 1000})
		w.CPU, w.MedianRunnable = number.Known(w.CPUs), 1000
		return w
	}
	names := func() (names []string) {
		for _, file := range m.sampler.files(time.Now()) {
			names = append(names, file.Name)
		}
		return names
	}
	m.sampler.publish(saturated())
	m.sampler.publish(saturated())
	require.Equal(t, CauseCPUSaturated, m.sampler.current().Verdict, m.sampler.current().Summary)
	assert.NotContains(t, names(), "cpu.pprof", "it takes seconds")
	require.Eventually(t, func() bool {
		m.sampler.publish(saturated())
		return slices.Contains(names(), "cpu.pprof")
	}, 20*time.Second, 50*time.Millisecond)
	assert.Equal(t, []string{"diagnosis.json", "sites.json", "cpu.pprof"}, names())
}
