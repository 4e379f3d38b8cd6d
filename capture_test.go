package observer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/trace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gym-observer/observer/internal/diagnosis"
	"github.com/gym-observer/observer/internal/evidence"
	"github.com/gym-observer/observer/internal/reading"
	"github.com/gym-observer/observer/internal/survive"
	"github.com/gym-observer/observer/internal/testlog"
)

var diagnosisOfTest = Diagnosis{Verdict: CauseGC, Summary: "gc: the collector", Window: 10 * time.Second}

// capturing is a capture of which the test sees what it could not do.
type capturing struct {
	*evidence.Capture
	log testlog.Log
}

// newCapturing captures into directory until the test ends, with no cooldown.
func newCapturing(t *testing.T, directory string) *capturing {
	c := new(capturing)
	var err error
	c.Capture, err = evidence.Start(settingsOf(directory), (&survive.Failures{Logger: c.log.Logger()}).Report)
	require.NoError(t, err)
	t.Cleanup(func() { <-c.End() })
	return c
}

// settingsOf are those of options, with no cooldown.
func settingsOf(directory string, options ...CaptureOption) *evidence.Settings {
	options = append([]CaptureOption{WithCaptureCooldown(0)}, options...)
	return resolve([]Option{WithCapture(directory, options...)}).capture
}

// now captures and waits until that is done.
func (c *capturing) now(reason string) {
	c.Begin(reason, filesOf(diagnosisOfTest)...)
	c.Wait()
}

// entries lists a directory by name, without what is being written.
func entries(t testing.TB, directory string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(directory)
	require.NoError(t, err)
	for _, entry := range all {
		if !strings.HasPrefix(entry.Name(), ".partial-") {
			names = append(names, entry.Name())
		}
	}
	return names
}

// goTool runs a tool of the Go distribution.
func goTool(t *testing.T, arguments ...string) (output string, err error) {
	program, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command here")
	}
	out, err := exec.CommandContext(t.Context(), program, append([]string{"tool"}, arguments...)...).CombinedOutput()
	return string(out), err
}

func TestFailingDiskIsLoggedOnce(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "captures")
	require.NoError(t, os.WriteFile(directory, []byte("a file in its place"), 0o644))
	c := newCapturing(t, directory)
	for range 3 {
		c.now("gc")
	}
	assert.Len(t, c.log.Of("WARN"), 1)
	assert.Len(t, c.log.Of("cause=capturing evidence"), 1)

	require.NoError(t, os.Remove(directory))
	c.now("gc")
	names := entries(t, directory)
	require.Len(t, names, 1)
	requireComplete(t, filepath.Join(directory, names[0]))
	assert.Len(t, c.log.Of(), 1)
}

// smallDisk mounts a file system of that many bytes, for those who may.
func smallDisk(t *testing.T, bytes int) string {
	directory := t.TempDir()
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", bytes), "tmpfs", directory).CombinedOutput()
	if err != nil {
		t.Skipf("no small disk can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		out, err := exec.Command("umount", directory).CombinedOutput()
		assert.NoError(t, err, "%s", out)
	})
	return directory
}

func TestFullDiskLeavesNothingHalfWritten(t *testing.T) {
	disk := smallDisk(t, 64<<10)
	directory := filepath.Join(disk, "captures")
	fill, err := os.Create(filepath.Join(disk, "full"))
	require.NoError(t, err)
	_, err = io.Copy(fill, zeros{})
	require.ErrorContains(t, err, "no space")
	require.NoError(t, fill.Close())
	require.NoError(t, os.Mkdir(directory, 0o755))

	c := newCapturing(t, directory)
	for range 3 {
		c.now("gc")
		all, err := os.ReadDir(directory)
		require.NoError(t, err)
		assert.Empty(t, all)
	}
	assert.Len(t, c.log.Of("no space left"), 1)
	assert.Len(t, c.log.Of(), 1)
}

// zeros reads without an end.
type zeros struct{}

func (zeros) Read(buffer []byte) (int, error) { return len(buffer), nil }

func TestDiskWithoutRoomForTheTraceTakesTheRest(t *testing.T) {
	directory := smallDisk(t, 256<<10)
	c := newCapturing(t, directory)
	for i := range 50_000 { // events that fill a trace past that
		trace.Log(t.Context(), "category", fmt.Sprint(i))
	}
	c.now("gc")
	names := entries(t, directory)
	require.Len(t, names, 1)
	assert.Equal(t, []string{"diagnosis.json", "goroutines.txt"}, entries(t, filepath.Join(directory, names[0])))
	assert.Len(t, c.log.Of("no space left"), 1)
}

// awaitFirstWindow waits until the sampler has begun, and sleeps until its first
// sample.
func awaitFirstWindow(o *Observer) {
	l := &o.handle.session.sampler.windows
	for {
		if l.IsOpen() {
			return
		}
		runtime.Gosched()
	}
}

func TestH49ApplicationsOwnRecorderIsLeftAlone(t *testing.T) {
	own := trace.NewFlightRecorder(trace.FlightRecorderConfig{})
	require.NoError(t, own.Start())
	defer own.Stop()
	directory := t.TempDir()
	var log testlog.Log
	o := start(t, "test", WithLogger(log.Logger()), WithCapture(directory))
	assert.Len(t, log.Of("WARN observer: captures will have no trace"), 1)
	c := o.handle.session.sampler.capture
	c.Begin("gc", filesOf(diagnosisOfTest)...)
	c.Wait()
	o.Stop()

	names := entries(t, directory)
	require.Len(t, names, 1)
	assert.Equal(t, []string{"diagnosis.json", "goroutines.txt"}, entries(t, filepath.Join(directory, names[0])))
	assert.Len(t, log.Of(), 1)
	assert.True(t, own.Enabled())
	var recorded bytes.Buffer
	_, err := own.WriteTo(&recorded)
	assert.NoError(t, err)
	assert.NotZero(t, recorded.Len())
}

func TestApplicationsOwnTraceGoesOn(t *testing.T) {
	var own bytes.Buffer
	require.NoError(t, trace.Start(&own))
	directory := t.TempDir()
	var log testlog.Log
	o := start(t, "test", WithLogger(log.Logger()), WithCapture(directory))
	o.handle.session.sampler.capture.Begin("gc", filesOf(diagnosisOfTest)...)
	o.Stop()
	assert.True(t, trace.IsEnabled())
	trace.Stop()
	assert.NotZero(t, own.Len())
	names := entries(t, directory)
	require.Len(t, names, 1)
	requireComplete(t, filepath.Join(directory, names[0]))
	assert.Empty(t, log.Of("WARN"))
}

// A handler of the application's may call the package: nothing is logged with a
// lock held.
func TestLoggerThatStartsAnObserverWhileOneRecordsAlready(t *testing.T) {
	own := trace.NewFlightRecorder(trace.FlightRecorderConfig{})
	require.NoError(t, own.Start())
	defer own.Stop()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	log := new(testlog.Log)
	called := 0
	log.On = func() {
		called++
		Start(context.Background(), "logger", WithMeterProvider(provider)).Stop()
	}
	o := Start(context.Background(), "test", WithMeterProvider(provider), WithLogger(log.Logger()), WithCapture(t.TempDir()))
	assert.NoError(t, o.Err())
	assert.Positive(t, called)
	o.Stop()
}

func TestCaptureIsOffByDefault(t *testing.T) {
	o := start(t, "test", WithCapture(""))
	awaitFirstWindow(o)
	p := &o.handle.session.sampler
	assert.Nil(t, p.capture)
	for range 2 {
		p.publish(windowWith(map[diagnosis.Cause]float64{diagnosis.Lock: 50}))
	}
	p.take(time.Now(), time.Hour, reading.Queues{}, time.Hour)
	p.capture.Begin("nil")
}

func TestWhichVerdictsAreCaptured(t *testing.T) {
	for _, test := range []struct {
		name   string
		w      *diagnosis.Window
		reason string
	}{
		{"a cause", windowWith(map[diagnosis.Cause]float64{diagnosis.Lock: 50}), "lock"},
		{"a share", windowWith(map[diagnosis.Cause]float64{diagnosis.Descriptors: 1}), "descriptors"},
		{"unknown", &diagnosis.Window{At: time.Now(), Length: time.Second, Processors: 1, CPUs: 1, LagShare: 1}, "unknown"},
		{"downstream", windowWith(map[diagnosis.Cause]float64{diagnosis.Downstream: 8}), ""},
		{"none", windowWith(nil), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			directory := t.TempDir()
			o := start(t, "test", WithCapture(directory, WithCaptureCooldown(0)))
			p := &o.handle.session.sampler
			p.publish(test.w)
			p.capture.Wait()
			assert.Empty(t, entries(t, directory), "it is not the verdict yet")
			for range 3 {
				p.publish(test.w)
				p.capture.Wait()
			}
			for range 3 {
				p.publish(windowWith(nil))
				p.capture.Wait()
			}
			names := entries(t, directory)
			if test.reason == "" {
				assert.Empty(t, names)
				return
			}
			require.Len(t, names, 1, "when it becomes the verdict, and not as long as it is")
			assert.Contains(t, names[0], "-"+test.reason+"-")
			var written struct{ Verdict, Summary string }
			text, err := os.ReadFile(filepath.Join(directory, names[0], "diagnosis.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &written))
			assert.Equal(t, test.reason, written.Verdict)
			assert.Contains(t, written.Summary, test.reason+": ")
		})
	}
}

func TestLagPastTheThresholdIsCaptured(t *testing.T) {
	for _, test := range []struct {
		options  []CaptureOption
		lag      time.Duration
		captured bool
	}{
		{nil, time.Second, false},
		{nil, time.Second + 1, true},
		{[]CaptureOption{WithCaptureLag(5 * time.Second)}, 5 * time.Second, false},
		{[]CaptureOption{WithCaptureLag(5 * time.Second)}, 6 * time.Second, true},
		{[]CaptureOption{WithCaptureLag(time.Nanosecond)}, 0, false},
	} {
		directory := t.TempDir()
		o := start(t, "test", WithCapture(directory, test.options...))
		p := &o.handle.session.sampler
		p.take(time.Now(), test.lag, reading.Queues{}, time.Hour)
		o.Stop()
		names := entries(t, directory)
		if !test.captured {
			assert.Empty(t, names, "%v", test.lag)
			continue
		}
		require.Len(t, names, 1, "%v", test.lag)
		assert.Contains(t, names[0], "-lag-")
	}
}

func TestCaptureOptionsOutOfRangeCountAsNotGiven(t *testing.T) {
	directory, err := filepath.Abs("d")
	require.NoError(t, err)
	defaults := evidence.Settings{Directory: directory, Lag: time.Second, Cooldown: 10 * time.Minute, Budget: 256 << 20, Goroutines: 20_000}
	for name, test := range map[string]struct {
		options []CaptureOption
		want    evidence.Settings
	}{
		"none":         {nil, defaults},
		"nil":          {[]CaptureOption{nil, nil}, defaults},
		"zero":         {[]CaptureOption{WithCaptureLag(0), WithCaptureBudget(0), WithCaptureGoroutines(0)}, defaults},
		"negative":     {[]CaptureOption{WithCaptureLag(-1), WithCaptureCooldown(-1), WithCaptureBudget(-1), WithCaptureGoroutines(-1)}, defaults},
		"in range":     {[]CaptureOption{WithCaptureLag(1), WithCaptureCooldown(2), nil, WithCaptureBudget(3), WithCaptureGoroutines(4)}, evidence.Settings{Directory: directory, Lag: 1, Cooldown: 2, Budget: 3, Goroutines: 4}},
		"no cooldown":  {[]CaptureOption{WithCaptureCooldown(0)}, evidence.Settings{Directory: directory, Lag: time.Second, Cooldown: 0, Budget: 256 << 20, Goroutines: 20_000}},
		"last of them": {[]CaptureOption{WithCaptureLag(5), WithCaptureLag(6), WithCaptureLag(0)}, evidence.Settings{Directory: directory, Lag: 6, Cooldown: 10 * time.Minute, Budget: 256 << 20, Goroutines: 20_000}},
	} {
		c := resolve([]Option{WithCapture("d", test.options...), WithCapture("")})
		require.NotNil(t, c.capture, name)
		assert.Equal(t, test.want, *c.capture, name)
	}
	assert.Nil(t, resolve([]Option{WithCapture("", WithCaptureLag(1))}).capture)
}

func TestCaptureOfALaterHandleIsIgnored(t *testing.T) {
	first, other := t.TempDir(), t.TempDir()
	o := start(t, "test", WithCapture(first))
	var log testlog.Log
	later := start(t, "test", WithLogger(log.Logger()), WithCapture(other))
	assert.Len(t, log.Of("capture"), 1)
	assert.Equal(t, first, later.handle.session.sampler.capture.Directory())
	later.Stop()
	o.Stop()
}

func TestStopWaitsForACaptureUnderWay(t *testing.T) {
	directory := t.TempDir()
	o := start(t, "test", WithCapture(directory))
	p := &o.handle.session.sampler
	p.capture.Begin("gc", filesOf(diagnosisOfTest)...)
	o.Stop()
	names := entries(t, directory)
	require.Len(t, names, 1)
	requireComplete(t, filepath.Join(directory, names[0]))
	awaitGoroutinesGone(t)
	requireNothingRecords(t)
}

func TestStopReturnsInTimeWhateverACaptureDoes(t *testing.T) {
	stuck, released := make(chan struct{}), make(chan struct{})
	o := start(t, "test", WithCapture(t.TempDir()))
	o.handle.session.sampler.capture.Begin("gc", evidence.File{Name: "stuck", Write: func(io.Writer) error {
		close(stuck) // as on a disk that does not answer
		<-released
		return nil
	}})
	<-stuck
	began := time.Now()
	o.Stop()
	assert.Less(t, time.Since(began), 3*time.Second)
	select {
	case <-o.handle.session.closed:
	default:
		assert.Fail(t, "the provider has not been let go of")
	}
	close(released)
	awaitGoroutinesGone(t)
	requireNothingRecords(t)
}

// requireNothingRecords checks that another may record.
func requireNothingRecords(t *testing.T) {
	t.Helper()
	own := trace.NewFlightRecorder(trace.FlightRecorderConfig{})
	require.NoError(t, own.Start())
	own.Stop()
}

// awaitGoroutinesGone waits until no goroutine runs code of this module, the
// test's own excepted. One that stays fails the test at its deadline.
func awaitGoroutinesGone(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	for {
		running := 0
		for stack := range bytes.SplitSeq(stacks[:runtime.Stack(stacks, true)], []byte("\n\n")) {
			ours := bytes.Contains(stack, []byte("observer.(*")) || bytes.Contains(stack, []byte("evidence.(*"))
			if ours && !bytes.Contains(stack, []byte("testing.tRunner")) {
				running++
			}
		}
		if running == 0 {
			return
		}
		runtime.Gosched()
	}
}

// A Start does not wait for the flush of the Stop before, and records too.
func TestTraceIsRecordedByAStartWhileTheStopBeforeStillFlushes(t *testing.T) {
	flushing, flushed := make(chan struct{}), make(chan struct{})
	directory := t.TempDir()
	provider := &flushingProvider{sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())), func() {
		close(flushing)
		<-flushed
	}}
	var log testlog.Log
	options := []Option{WithLogger(log.Logger()), WithSampleInterval(time.Hour), WithCapture(directory)}
	first := Start(context.Background(), "first", append(options, WithMeterProvider(provider))...)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		first.Stop()
	}()
	<-flushing
	for own := trace.NewFlightRecorder(trace.FlightRecorderConfig{}); ; runtime.Gosched() {
		if own.Start() == nil { // the first's has ended
			own.Stop()
			break
		}
	}
	other := start(t, "test", WithLogger(log.Logger()), WithCapture(directory))
	assert.Empty(t, log.Of("no trace"))
	c := other.handle.session.sampler.capture
	c.Begin("gc", filesOf(diagnosisOfTest)...)
	c.Wait()
	names := entries(t, directory)
	require.Len(t, names, 1)
	requireComplete(t, filepath.Join(directory, names[0]))
	close(flushed)
	<-stopped
	other.Stop()
}

// flushingProvider does something when it is told to flush.
type flushingProvider struct {
	*sdkmetric.MeterProvider
	flush func()
}

func (p *flushingProvider) ForceFlush(context.Context) error { p.flush(); return nil }

func TestH76CapturesStayInStartsDirectory(t *testing.T) {
	began, elsewhere := t.TempDir(), t.TempDir()
	t.Chdir(began)
	option := WithCapture("evidence", WithCaptureCooldown(0))
	o := start(t, "test", option)
	p := &o.handle.session.sampler
	p.capture.Begin("gc", filesOf(diagnosisOfTest)...)
	p.capture.Wait()
	t.Chdir(elsewhere)
	p.capture.Begin("lock", filesOf(diagnosisOfTest)...)
	p.capture.Wait()
	document := shown(t)
	o.Stop()
	assert.Len(t, entries(t, filepath.Join(began, "evidence")), 2)
	assert.Empty(t, entries(t, elsewhere))
	assert.Len(t, document["captures"], 2, "the page looks where they are")
}

func TestTraceEndsAndBeginsWithTheNumberOfGoroutines(t *testing.T) {
	directory := t.TempDir()
	o := start(t, "test", WithCapture(directory, WithCaptureCooldown(0), WithCaptureGoroutines(100)))
	p := &o.handle.session.sampler
	capture := func() (files []string) {
		p.capture.Watch() // as each window does
		p.capture.Wait()
		p.capture.Begin("gc", filesOf(diagnosisOfTest)...)
		p.capture.Wait()
		names := entries(t, directory)
		return entries(t, filepath.Join(directory, names[len(names)-1]))
	}
	assert.Contains(t, capture(), "trace.out")
	var parked sync.WaitGroup
	leave := make(chan struct{})
	for range 101 {
		parked.Go(func() { <-leave })
	}
	assert.Equal(t, []string{"diagnosis.json", "goroutines.txt"}, capture())
	close(leave)
	parked.Wait()
	for runtime.NumGoroutine() > 50 { // those that have ended are counted for a moment
		runtime.Gosched()
	}
	assert.Contains(t, capture(), "trace.out")
}
