// Package profile finds the lines of the application's code that allocate, that
// hold memory and that use the processor, from the profiles of the runtime.
//
// It is a package of its own so that only a binary that asks for it links it. To
// reach runtime.MemProfile turns the sampling of the heap on and adds its table
// of 1.4 MB, most of which is never touched; runtime/pprof brings the processor's
// profile, and what compresses it.
package profile

import (
	"cmp"
	"errors"
	"hash/maphash"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/gym-observer/observer/internal/sites"
)

// ErrHeapNotSampled says that the application has turned the heap's profile off.
var ErrHeapNotSampled = errors.New("the heap is not sampled: runtime.MemProfileRate is 0")

// errNothingNew says that no collection has published samples since Begin.
var errNothingNew = errors.New("the heap's profile has no sample of this window")

// errGrows says that no attempt had room for all records.
var errGrows = errors.New("the heap's profile grows faster than it is read")

// maxNamed is how many stacks are named: those with the most bytes. To name one
// takes some 16 µs, and the 513th changes no share that anybody reads.
const maxNamed = 512

// Allocations tells where bytes were allocated between two moments. The zero
// value is ready to begin. It is for one goroutine at a time.
type Allocations struct {
	begun  time.Time
	before map[uint64]int64
	seed   maphash.Seed
}

// Begin notes what was allocated until now.
func (a *Allocations) Begin() error {
	if runtime.MemProfileRate <= 0 {
		a.before = nil
		return ErrHeapNotSampled
	}
	a.begun, a.seed = time.Now(), maphash.MakeSeed()
	a.before = nil // without it all that was ever allocated would be of this window
	records, err := memProfile(true)
	if err != nil {
		return err
	}
	a.before = make(map[uint64]int64, len(records))
	for i := range records {
		a.before[a.key(&records[i])] += records[i].AllocBytes
	}
	return nil
}

// Sites are where most bytes were allocated since Begin, in bytes a second. The
// runtime publishes samples with the collection after the next, so that a window
// needs two collections; where the collector is the cause there are many.
func (a *Allocations) Sites(reader *sites.Reader) ([]sites.Site, error) {
	if runtime.MemProfileRate <= 0 {
		return nil, ErrHeapNotSampled
	}
	if a.before == nil {
		return nil, errNothingNew
	}
	records, err := memProfile(true)
	if err != nil {
		return nil, err
	}
	var changed []sampled
	for i := range records {
		r := &records[i]
		// Stacks that are cut can be the same with the same size: the first takes
		// what was there before, and the difference of all is right.
		key := a.key(r)
		known := min(a.before[key], r.AllocBytes)
		a.before[key] -= known
		if bytes := r.AllocBytes - known; bytes > 0 {
			changed = append(changed, sampled{r, scale(bytes, r.AllocBytes, r.AllocObjects)})
		}
	}
	if len(changed) == 0 {
		return nil, errNothingNew
	}
	return largest(reader, sites.KindAlloc, changed, time.Since(a.begun).Seconds()), nil
}

// key tells one record from another: a bucket of the profile is a stack and a
// size. A hash, since the stacks of a large program would take megabytes.
func (a *Allocations) key(r *runtime.MemProfileRecord) uint64 {
	type bucket struct {
		stack [32]uintptr
		size  int64
	}
	return maphash.Comparable(a.seed, bucket{r.Stack0, r.AllocBytes / max(1, r.AllocObjects)})
}

// InUse are the sites whose allocations hold most of the heap, in bytes, as of
// the last collection.
func InUse(reader *sites.Reader) ([]sites.Site, error) {
	if runtime.MemProfileRate <= 0 {
		return nil, ErrHeapNotSampled
	}
	records, err := memProfile(false)
	if err != nil {
		return nil, err
	}
	var held []sampled
	for i := range records {
		r := &records[i]
		if bytes := r.InUseBytes(); bytes > 0 {
			held = append(held, sampled{r, scale(bytes, bytes, r.InUseObjects())})
		}
	}
	if len(held) == 0 {
		return nil, errNothingNew
	}
	return largest(reader, sites.KindHeap, held, 1), nil
}

type sampled struct {
	record *runtime.MemProfileRecord
	bytes  float64
}

// largest names those with the most bytes. The others count, without a name.
func largest(reader *sites.Reader, kind string, all []sampled, over float64) []sites.Site {
	slices.SortFunc(all, func(a, b sampled) int { return cmp.Compare(b.bytes, a.bytes) })
	var tally sites.Tally
	for i, s := range all {
		if i >= maxNamed {
			tally.Add(sites.Site{Load: s.bytes})
			continue
		}
		tally.Add(reader.Named(kind, named(s.record.Stack()), s.bytes))
	}
	return tally.Sites(kind, over)
}

func named(pcs []uintptr) []sites.Frame {
	var stack []sites.Frame
	for frames := runtime.CallersFrames(pcs); ; {
		frame, more := frames.Next()
		stack = append(stack, sites.Frame{Function: frame.Function, File: frame.File, Line: frame.Line})
		if !more {
			return stack
		}
	}
}

// scale turns sampled bytes into allocated ones. The chance of an allocation to
// be sampled depends on its size, which is that of the record's bucket.
func scale(bytes, ofBytes, objects int64) float64 {
	if objects <= 0 || ofBytes <= 0 {
		return 0
	}
	size := float64(ofBytes) / float64(objects)
	return float64(bytes) / (1 - math.Exp(-size/float64(runtime.MemProfileRate)))
}

// memProfile reads the profile, with records of what is all freed or without.
func memProfile(freed bool) ([]runtime.MemProfileRecord, error) {
	n, _ := runtime.MemProfile(nil, freed)
	for range 3 {
		records := make([]runtime.MemProfileRecord, n+n/8+64) // stacks that come meanwhile
		var ok bool
		if n, ok = runtime.MemProfile(records, freed); ok {
			return records[:n], nil
		}
	}
	return nil, errGrows
}
