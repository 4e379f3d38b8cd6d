package profile

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/sites"
)

func TestWhatIsWrittenReadsAsBefore(t *testing.T) {
	f := func(name string, line int) sites.Frame {
		return sites.Frame{Function: "main." + name, File: "/src/main.go", Line: line}
	}
	stacks := []sites.Stack{
		{Count: 120, Frames: []sites.Frame{f("inner", 300), f("outer", 20), f("main", 10)}},
		{Count: 1, Frames: []sites.Frame{f("inner", 301), f("outer", 20), f("main", 10)}},
		{Count: 3, Frames: []sites.Frame{{Function: "", File: "", Line: 0}}},
	}
	packed, err := encode(stacks, 2*time.Second)
	require.NoError(t, err)
	again, err := parse(packed)
	require.NoError(t, err)
	assert.Equal(t, stacks, again)

	program, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command here")
	}
	file := filepath.Join(t.TempDir(), "cpu.pprof")
	require.NoError(t, os.WriteFile(file, packed, 0o600))
	text, err := exec.CommandContext(t.Context(), program, "tool", "pprof", "-top", "-cum", file).CombinedOutput()
	require.NoError(t, err, "%s", text)
	assert.Regexp(t, `Duration: 2s, Total samples = 1240ms`, string(text))
	assert.Regexp(t, `1210ms\s+97\.58%\s+main\.outer\n`, string(text))
}

// A label may say who asked: it is in the profile of the runtime, and in none that is
// kept.
func TestH73KeptProfileHasNoLabels(t *testing.T) {
	var over atomic.Bool
	var burning sync.WaitGroup
	defer burning.Wait()
	defer over.Store(true)
	burning.Go(func() {
		pprof.Do(context.Background(), pprof.Labels("user", "alice@example.com"), func(context.Context) {
			for !over.Load() {
			}
		})
	})
	has := func(packed []byte) bool {
		unpacker, err := gzip.NewReader(bytes.NewReader(packed))
		require.NoError(t, err)
		text, err := io.ReadAll(unpacker)
		require.NoError(t, err)
		return bytes.Contains(text, []byte("alice"))
	}
	recorded, _, err := record(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, has(recorded), "the runtime's own")
	stacks, err := parse(recorded)
	require.NoError(t, err)
	kept, err := encode(stacks, time.Second)
	require.NoError(t, err)
	assert.False(t, has(kept))
}
