package profile_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/sites"
	"github.com/gym-observer/observer/internal/sites/profile"
)

func newReader() *sites.Reader {
	return sites.NewReader(sites.ReadBuild(), sites.MarksOf("github.com/gym-observer/observer"))
}

// planted finds the marked line of this file.
func planted(t *testing.T, mark string) string {
	t.Helper()
	source, err := os.ReadFile("profile_test.go")
	require.NoError(t, err)
	for i, line := range strings.Split(string(source), "\n") {
		if strings.HasSuffix(line, "// planted: "+mark) {
			return fmt.Sprintf("internal/sites/profile/profile_test.go:%d", i+1)
		}
	}
	t.Fatalf("no line is marked %q", mark)
	return ""
}

var sink []byte

//go:noinline
func allocate() {
	sink = make([]byte, 1<<16) // planted: allocation
}

func TestAllocationsNameTheLine(t *testing.T) {
	// Of before: not to be counted.
	for range 2000 {
		sink = make([]byte, 1<<18)
	}
	collect()
	var allocations profile.Allocations
	require.NoError(t, allocations.Begin())
	const times = 2000
	began := time.Now()
	for range times {
		allocate()
	}
	collect()
	found, err := allocations.Sites(newReader())
	lasted := time.Since(began).Seconds()
	require.NoError(t, err)
	require.NotEmpty(t, found)
	assert.Equal(t, planted(t, "allocation"), found[0].Location)
	assert.Equal(t, sites.KindAlloc, found[0].Kind)
	assert.Greater(t, found[0].Share, 0.8)
	// 2,000 allocations of 64 kiB are sampled some 235 times: within a third.
	assert.InEpsilon(t, times*float64(1<<16)/lasted, found[0].Load, 0.33)

	t.Run("a window without a collection", func(t *testing.T) {
		var idle profile.Allocations
		_, err := idle.Sites(newReader())
		assert.ErrorContains(t, err, "no sample")
	})
}

// collect publishes the samples: those of a cycle come with the next but one.
func collect() {
	for range 3 {
		runtime.GC()
	}
}

func TestHeapNamesWhoHoldsIt(t *testing.T) {
	held := make([][]byte, 0, 512)
	for range cap(held) {
		held = append(held, make([]byte, 1<<17)) // planted: heap
	}
	collect()
	found, err := profile.InUse(newReader())
	require.NoError(t, err)
	require.NotEmpty(t, found)
	assert.Equal(t, planted(t, "heap"), found[0].Location)
	assert.Equal(t, sites.KindHeap, found[0].Kind)
	assert.InEpsilon(t, 512.0*(1<<17), found[0].Load, 0.33)
	runtime.KeepAlive(held)
}

func TestHeapThatIsNotSampled(t *testing.T) {
	rate := runtime.MemProfileRate
	t.Cleanup(func() { runtime.MemProfileRate = rate })
	runtime.MemProfileRate = 0
	var allocations profile.Allocations
	assert.ErrorIs(t, allocations.Begin(), profile.ErrHeapNotSampled)
	_, err := allocations.Sites(newReader())
	assert.ErrorIs(t, err, profile.ErrHeapNotSampled)
	_, err = profile.InUse(newReader())
	assert.ErrorIs(t, err, profile.ErrHeapNotSampled)
}

//go:noinline
func burn(end *atomic.Bool) (n uint64) {
	for i := uint64(1); !end.Load(); i++ {
		n = n*31 ^ i // near the planted loop
	}
	return n
}

func TestProcessorNamesTheFunction(t *testing.T) {
	var end atomic.Bool
	done := make(chan struct{})
	go func() {
		burn(&end)
		close(done)
	}()
	t.Cleanup(func() { end.Store(true); <-done })
	// Nobody tells how much time it had: until the end, also on a machine that is
	// shared.
	found, raw, err := profile.Processor(t.Context(), newReader(), nil)
	require.NoError(t, err)
	require.NotEmpty(t, found)
	assert.Equal(t, sites.KindCPU, found[0].Kind)
	assert.True(t, strings.HasSuffix(found[0].Function, ".burn"), found[0].Function)
	assert.True(t, strings.HasPrefix(found[0].Location, "internal/sites/profile/profile_test.go:"), found[0].Location)
	assert.Positive(t, found[0].Load)
	assert.Equal(t, []byte{0x1f, 0x8b}, raw[:2], "compressed, as go tool pprof reads it")
}

func TestProcessorThatIsProfiledAlready(t *testing.T) {
	require.NoError(t, pprof.StartCPUProfile(&bytes.Buffer{}))
	defer pprof.StopCPUProfile()
	_, _, err := profile.Processor(t.Context(), newReader(), nil)
	assert.ErrorContains(t, err, "somebody else profiles the processor")
}

func TestProcessorThatIsIdle(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := profile.Processor(ctx, newReader(), nil)
	assert.ErrorContains(t, err, "too few to tell a share")
	// It has let go of the profile.
	require.NoError(t, pprof.StartCPUProfile(&bytes.Buffer{}))
	pprof.StopCPUProfile()
}
