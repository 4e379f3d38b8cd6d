package evidence

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// contents returns what a file has.
func contents(t *testing.T, file File) string {
	t.Helper()
	var written bytes.Buffer
	require.NoError(t, file.Write(&written))
	return written.String()
}

// parkLabelled parks goroutines with labels, each with its own, until the test ends.
func parkLabelled(t *testing.T, n int) {
	var parked sync.WaitGroup
	leave := make(chan struct{})
	for i := range n {
		parked.Go(func() {
			labels := pprof.Labels("user", fmt.Sprintf("alice%d@example.com", i), "two\nlines 7 @ 0x1", "#\t0x1\tfaked")
			pprof.Do(context.Background(), labels, func(context.Context) {
				<-leave
			})
		})
	}
	t.Cleanup(func() {
		close(leave)
		parked.Wait()
	})
	stacks := make([]byte, 1<<20)
	require.Eventually(t, func() bool {
		all := string(stacks[:runtime.Stack(stacks, true)])
		return strings.Count(all, "[chan receive]:\n"+waiter) == n
	}, 10*time.Second, time.Millisecond, "all of them wait")
}

// waiter is the innermost function of a goroutine of parkLabelled, as a stack has it.
const waiter = "github.com/gym-observer/observer/internal/evidence.parkLabelled.func"

func TestH73GoroutinesHaveNoLabels(t *testing.T) {
	parkLabelled(t, 50)
	var withLabels bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&withLabels, 1))
	require.Contains(t, withLabels.String(), "alice7@example.com", "the profile itself has them")

	listed := contents(t, Goroutines("goroutines.txt"))
	for _, label := range []string{"alice", "example.com", "user", "labels", "two", "lines", "faked"} {
		assert.NotContains(t, strings.ReplaceAll(listed, "parkLabelled", ""), label)
	}
	assert.Regexp(t, `(?m)^goroutine profile: total [5-9]\d$`, listed)
	assert.Regexp(t, `(?m)^50 @( 0x[0-9a-f]+)+\n(#\t0x[0-9a-f]+\t.*\n)*#\t0x[0-9a-f]+\t.*parkLabelled`, listed, "one stack, whatever the labels")
}

// No line that a later Go may add to a profile is written.
func TestH73UnknownLinesOfAProfileAreDropped(t *testing.T) {
	var written bytes.Buffer
	require.NoError(t, writeStacks(&written, []byte(`goroutine profile: total 9
# tags: alice
2 @ 0xa 0xb
# labels: {"user":"alice"}
# goroutine alice
#	0xa	main.f+0x1	f.go:1
#	0xb	main.g+0x1	g.go:2
#	label	alice

3 @ 0xa 0xc alice
3 @ 0xc
#	0xc	main.h+0x1	h.go:3

4 @ 0xa 0xb
#	0xa	main.f+0x1	f.go:1
#	0xb	main.g+0x1	g.go:2
alice @ 0xa
`)))
	assert.Equal(t, `goroutine profile: total 9
6 @ 0xa 0xb
#	0xa	main.f+0x1	f.go:1
#	0xb	main.g+0x1	g.go:2

3 @ 0xc
#	0xc	main.h+0x1	h.go:3

`, written.String())
}

func TestStacksDeeperThan32FramesAreWhole(t *testing.T) {
	leave, done, deep := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		outermostOfTest(60, func() {
			close(deep)
			<-leave
		})
	}()
	<-deep
	listed := contents(t, Goroutines("goroutines.txt"))
	close(leave)
	<-done
	assert.Contains(t, listed, "outermostOfTest")
}

func outermostOfTest(depth int, do func()) { descend(depth, do) }

//go:noinline
func descend(depth int, do func()) {
	if depth == 0 {
		do()
		return
	}
	descend(depth-1, do)
}

// What SECURITY.md says of a trace: it has what the application gives to package
// runtime/trace, and no labels.
func TestH73WhatATraceHolds(t *testing.T) {
	recorder, err := Record(1 << 20)
	require.NoError(t, err)
	defer recorder.Stop()
	ctx, task := trace.NewTask(t.Context(), "task of a user")
	trace.WithRegion(ctx, "region of a user", func() { trace.Log(ctx, "category of a user", "message of a user") })
	task.End()
	parkLabelled(t, 3)
	traced := contents(t, recorder.File("trace.out"))
	for _, own := range []string{"task of a user", "region of a user", "category of a user", "message of a user"} {
		assert.Contains(t, traced, own)
	}
	assert.Contains(t, traced, "parkLabelled", "functions, and their files")
	assert.Contains(t, traced, "contents_test.go")
	assert.NotContains(t, traced, "example.com", "labels")
}

func TestNoTraceWithTooManyGoroutines(t *testing.T) {
	recorder, err := Record(30)
	require.NoError(t, err)
	defer recorder.Stop()
	require.True(t, recorder.Recording())
	park := func(n int) (leave func()) {
		var parked sync.WaitGroup
		left := make(chan struct{})
		for range n {
			parked.Go(func() { <-left })
		}
		return func() { close(left); parked.Wait() }
	}
	leaveMost, leaveSome := park(20), park(20)
	require.NoError(t, recorder.Adjust())
	assert.False(t, recorder.Recording())
	var none bytes.Buffer
	assert.Error(t, recorder.File("trace.out").Write(&none))
	leaveMost()
	require.NoError(t, recorder.Adjust())
	assert.False(t, recorder.Recording(), "more than half of them are there")
	leaveSome()
	require.Eventually(t, func() bool { // a goroutine that has ended is counted for a moment
		require.NoError(t, recorder.Adjust())
		return recorder.Recording()
	}, time.Minute, time.Millisecond)
	recorder.Stop()
	require.NoError(t, recorder.Adjust())
	assert.False(t, recorder.Recording(), "for good")
}

func TestAnotherRecorderIsLeftAlone(t *testing.T) {
	own := trace.NewFlightRecorder(trace.FlightRecorderConfig{})
	require.NoError(t, own.Start())
	defer own.Stop()
	recorder, err := Record(1 << 20)
	assert.Error(t, err)
	assert.False(t, recorder.Recording())
	own.Stop()
	require.NoError(t, recorder.Adjust())
	assert.False(t, recorder.Recording(), "it may want to go on later")
}

func TestNilRecorderKeepsNothing(t *testing.T) {
	var r *Recorder
	assert.NoError(t, r.Adjust())
	assert.False(t, r.Recording())
	r.Stop()
}

func TestFilesOfAFolder(t *testing.T) {
	directory := t.TempDir()
	require.NoError(t, Write(directory, Name{time.Now(), "gc", 1}, Goroutines("goroutines.txt"), text("cpu.pprof", "profile")))
	listed, err := os.ReadFile(filepath.Join(directory, entries(t, directory)[0], "goroutines.txt"))
	require.NoError(t, err)
	assert.Contains(t, string(listed), "TestFilesOfAFolder")
}
