package observer

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultCaptureLag      = time.Second
	defaultCaptureCooldown = 10 * time.Minute
	defaultCaptureBudget   = 256 << 20

	// The recorder keeps this much of the past, or what fits in so many bytes: a
	// busy process writes a few mebibytes of trace a second.
	traceAge   = 10 * time.Second
	traceBytes = 16 << 20

	// Grouping goroutines by stack stops the world for each: 100,000 took 324 ms.
	maxGoroutinesListed = 20_000

	// partialPrefix marks a folder that is being written.
	partialPrefix = ".partial-"

	// abandonedAfter is the age from which on nobody writes in it any more.
	abandonedAfter = time.Hour

	captureTime = "20060102T150405.000000Z" // in containers every process may be number 1
)

// captureSettings are what WithCapture was given.
type captureSettings struct {
	directory string
	lag       time.Duration
	cooldown  time.Duration
	budget    int64
}

// CaptureOption changes what [WithCapture] does. A nil one counts as not given.
type CaptureOption func(*captureSettings)

// WithCapture writes evidence into directory when the verdict becomes a cause
// other than downstream, or when a sample's lag passes a threshold: a folder
// with the execution trace of the last seconds (trace.out, for go tool trace),
// the goroutines grouped by stack (goroutines.txt) and the diagnosis
// (diagnosis.json). Folders are named by time and cause, and are complete or
// absent.
//
// It keeps a [runtime/trace.FlightRecorder] running, which costs a server that
// does nothing else about a tenth of its throughput, and far less one that
// works. An application that records already is left alone: the folders then
// have no trace. Go runs one recorder at a time, so that an application that
// wants its own has to start that first.
//
// Nothing is captured twice within the cooldown, the oldest folders are removed
// past the budget, and a disk that fails is logged once.
//
// It is off by default. An empty directory counts as not given; the first
// handle's holds for the process.
func WithCapture(directory string, opts ...CaptureOption) Option {
	return func(c *config) {
		if directory == "" {
			return
		}
		c.startCapture = startCapture
		c.capture = &captureSettings{
			directory: directory,
			lag:       defaultCaptureLag,
			cooldown:  defaultCaptureCooldown,
			budget:    defaultCaptureBudget,
		}
		for _, option := range opts {
			if option != nil {
				option(c.capture)
			}
		}
	}
}

// WithCaptureLag sets the lag of one sample past which evidence is captured, 1 s
// by default. One that is not positive counts as not given.
func WithCaptureLag(d time.Duration) CaptureOption {
	return func(s *captureSettings) {
		if d > 0 {
			s.lag = d
		}
	}
}

// WithCaptureCooldown sets the least time between two captures, 10 minutes by
// default. A negative one counts as not given.
func WithCaptureCooldown(d time.Duration) CaptureOption {
	return func(s *captureSettings) {
		if d >= 0 {
			s.cooldown = d
		}
	}
}

// WithCaptureBudget sets how many bytes of captures are kept, 256 MiB by
// default: the oldest folder goes first, the newest stays in any case. One that
// is not positive counts as not given.
func WithCaptureBudget(bytes int64) CaptureOption {
	return func(s *captureSettings) {
		if bytes > 0 {
			s.budget = bytes
		}
	}
}

// capture writes evidence. A nil one captures nothing.
type capture struct {
	captureSettings
	failed   func(cause string, err error)
	recorder *trace.FlightRecorder // nil where the application records already
	write    func(c *capture, now time.Time, reason string, diagnosis Diagnosis) error

	busy    atomic.Bool
	last    atomic.Int64 // when the last capture began, on the clock of sinceBase; 0 before the first
	writing sync.WaitGroup
}

// startCapture starts to record. An error says why there is no trace; the rest
// will be captured.
//
// WithCapture alone leads here, and here alone to the writing of a folder: what
// that takes, runtime/pprof above all, is in no binary without WithCapture.
func startCapture(settings *captureSettings, failed func(cause string, err error)) (*capture, error) {
	c := &capture{captureSettings: *settings, failed: failed, write: (*capture).writeFolder}
	recorder := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: traceAge, MaxBytes: traceBytes})
	if err := recorder.Start(); err != nil {
		return c, err
	}
	c.recorder = recorder
	return c, nil
}

// begin captures in the background, unless a capture is under way or the last
// was too short a time ago.
func (c *capture) begin(reason string, diagnosis Diagnosis) {
	if c == nil {
		return
	}
	now := sinceBase()
	last := time.Duration(c.last.Load())
	if last != 0 && now-last < c.cooldown || !c.busy.CompareAndSwap(false, true) {
		return
	}
	c.last.Store(int64(now))
	c.writing.Go(func() {
		defer c.busy.Store(false)
		var err error
		defer func() { c.failed("capturing evidence", err) }()
		defer catch(&err)
		err = errors.Join(c.write(c, time.Now(), reason, diagnosis), c.prune())
	})
}

// end stops to record when a capture under way is done, and closes the channel
// that it returns.
func (c *capture) end() (ended <-chan struct{}) {
	done := make(chan struct{})
	if c == nil {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		c.writing.Wait()
		if c.recorder != nil {
			c.recorder.Stop()
		}
	}()
	return done
}

// writeFolder makes one folder of the files that can be written. It is made under
// another name and renamed, so that whoever finds it finds it complete.
func (c *capture) writeFolder(now time.Time, reason string, diagnosis Diagnosis) error {
	if err := os.MkdirAll(c.directory, 0o755); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(c.directory, partialPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial) // what is complete has another name by then
	// Sorted by name is sorted by time.
	name := fmt.Sprintf("%s-%s-%d", now.UTC().Format(captureTime), reason, os.Getpid())
	traceErr := c.writeTrace(filepath.Join(partial, "trace.out"))
	goroutinesErr := writeGoroutines(filepath.Join(partial, "goroutines.txt"))
	diagnosisErr := writeFile(filepath.Join(partial, "diagnosis.json"), func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(diagnosis)
	})
	err = errors.Join(traceErr, goroutinesErr, diagnosisErr)
	if goroutinesErr != nil && diagnosisErr != nil {
		return err // a full disk, most likely: a folder would say nothing
	}
	return errors.Join(err, os.Chmod(partial, 0o755), os.Rename(partial, filepath.Join(c.directory, name)))
}

func (c *capture) writeTrace(name string) error {
	if c.recorder == nil {
		return nil
	}
	return writeFile(name, func(w io.Writer) error {
		_, err := c.recorder.WriteTo(w)
		return err
	})
}

func writeGoroutines(name string) error {
	return writeFile(name, func(w io.Writer) error {
		if n := runtime.NumGoroutine(); n > maxGoroutinesListed {
			_, err := fmt.Fprintf(w, "%d goroutines are too many to list: each would stop the world for a while\n", n)
			return err
		}
		const groupedByStack = 1
		return pprof.Lookup("goroutine").WriteTo(w, groupedByStack)
	})
}

// writeFile makes one file with what write gives, or none if that fails.
func writeFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(file)
	err = errors.Join(write(buffered), buffered.Flush(), file.Close())
	if err != nil {
		os.Remove(name)
	}
	return err
}

// prune removes what a crash left half written, and the oldest folders until
// the rest is within the budget. Several processes may share the directory.
func (c *capture) prune() error {
	entries, err := os.ReadDir(c.directory) // sorted by name, so by time
	if err != nil {
		return err
	}
	type folder struct {
		name string
		size int64
	}
	var folders []folder
	var total int64
	var failed []error
	for _, entry := range entries {
		name := filepath.Join(c.directory, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), partialPrefix):
			if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > abandonedAfter {
				failed = append(failed, os.RemoveAll(name))
			}
		case entry.IsDir() && isCaptureName(entry.Name()):
			size, err := folderSize(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue // another process has just removed it
			}
			failed = append(failed, err)
			folders = append(folders, folder{name, size})
			total += size
		}
	}
	slices.SortStableFunc(folders, func(a, b folder) int { return cmp.Compare(a.name, b.name) })
	for len(folders) > 1 && total > c.budget {
		failed = append(failed, c.remove(filepath.Base(folders[0].name)))
		total -= folders[0].size
		folders = folders[1:]
	}
	return errors.Join(failed...)
}

// remove removes a folder. It gets the name of one that is being written first, so
// that a process which is killed in the middle leaves none that looks complete.
func (c *capture) remove(name string) error {
	partial := filepath.Join(c.directory, partialPrefix+name)
	err := os.Rename(filepath.Join(c.directory, name), partial)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process has just removed it
	}
	return errors.Join(err, os.RemoveAll(partial))
}

// isCaptureName tells a folder of ours from one that somebody keeps beside them.
func isCaptureName(name string) bool {
	stamp, _, found := strings.Cut(name, "-")
	_, err := time.Parse(captureTime, stamp)
	return found && err == nil
}

func folderSize(name string) (size int64, err error) {
	err = filepath.WalkDir(name, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}
