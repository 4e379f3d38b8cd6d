package sites

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"
)

// Taker takes snapshots of all goroutines, within a budget of processor time for
// each window. It is for one goroutine at a time.
//
// A snapshot stops the world twice for a moment that does not grow with the
// goroutines (0.04 to 4 ms). runtime.Stack would stop it for as long as it takes,
// 638 ms with 10,000 goroutines, and hide the runtime's frames that tell what
// they wait for. pprof.Lookup costs six times as much and links the heap's
// profile.
type Taker struct {
	records  []runtime.StackRecord
	distinct map[[depth]uintptr]int // index into stacks
	stacks   []Stack
	pcs      [][]uintptr // of each stack, until it is named
	arena    []Frame
	names    map[uintptr]Frame // bounded by maxNames

	taken       int
	spent, last time.Duration
}

// depth is how many calls a record has. The stacks of deeper ones are cut.
const depth = len(runtime.StackRecord{}.Stack0)

// maxGoroutines is how many a process may have for a snapshot. It costs some 2 µs
// each, so that one snapshot of as many uses the budget of a window; and 264
// bytes each while it is read.
const maxGoroutines = 50_000

// maxDistinct is how many different stacks a snapshot tells: more would cost more
// to read than to take. Which ones is left to chance.
const maxDistinct = 4096

// budget is the processor time that snapshots of one window may use: with what other
// threads do for them, the collector most of all, a window with 10,000 requests that
// wait takes 100 ms more than a healthy one (101 ms with a budget of 100). That is
// 1 % of one processor with windows of 10 s.
const budget = 90 * time.Millisecond

// ErrSpent says that this window's processor time for snapshots is used.
var ErrSpent = errors.New("the snapshots of this window have used their processor time")

// Begin begins a window, with a whole budget, and lets go of what the last one
// needed.
func (t *Taker) Begin() {
	*t = Taker{names: t.names}
}

// Taken is how many snapshots were taken in this window, and the processor time
// that they used.
func (t *Taker) Taken() (int, time.Duration) { return t.taken, t.spent }

// Look takes a snapshot and hands it to read, whose time counts as well. The
// stacks are good until read returns. Every window gets one, however long that
// takes, but none with more than 50,000 goroutines; an error says why there is
// none.
func (t *Taker) Look(read func([]Stack)) error {
	if n := runtime.NumGoroutine(); n > maxGoroutines {
		return fmt.Errorf("%d goroutines, more than the %d up to which a snapshot is taken", n, maxGoroutines)
	}
	if t.taken > 0 && t.spent+t.last > budget {
		return ErrSpent
	}
	runtime.LockOSThread() // the clock is the thread's
	defer runtime.UnlockOSThread()
	began := threadTime()
	defer func() {
		t.last = threadTime() - began
		t.spent += t.last
	}()
	n, err := t.record()
	if err != nil {
		return err
	}
	t.taken++
	t.sort(n)
	read(t.stacks)
	return nil
}

// record fills the records. Goroutines that start between the count and the
// profile make another attempt necessary.
func (t *Taker) record() (int, error) {
	want := runtime.NumGoroutine()
	for range 3 {
		if want += want/8 + 16; want > len(t.records) {
			t.records = make([]runtime.StackRecord, want)
		}
		n, ok := runtime.GoroutineProfile(t.records)
		if ok {
			return n, nil
		}
		if want = n; n > maxGoroutines {
			break
		}
	}
	return 0, fmt.Errorf("goroutines start faster than a snapshot counts them: %d", want)
}

// sort puts the same stacks together and names them.
func (t *Taker) sort(n int) {
	if t.distinct == nil {
		t.distinct = map[[depth]uintptr]int{}
	}
	if t.names == nil {
		t.names = map[uintptr]Frame{}
	}
	clear(t.distinct)
	t.stacks, t.pcs, t.arena = t.stacks[:0], t.pcs[:0], t.arena[:0]
	// The first is the one that takes the snapshot.
	others := t.records[min(1, n):n]
	if len(others) == 0 {
		return
	}
	first := rand.IntN(len(others))
	for i := range others {
		record := &others[(first+i)%len(others)]
		if at, ok := t.distinct[record.Stack0]; ok {
			t.stacks[at].Count++
			continue
		}
		if len(t.stacks) == maxDistinct {
			continue
		}
		t.distinct[record.Stack0] = len(t.stacks)
		t.stacks = append(t.stacks, Stack{Count: 1})
		t.pcs = append(t.pcs, record.Stack())
	}
	for i, pcs := range t.pcs {
		t.stacks[i].Frames = t.frames(pcs)
		t.stacks[i].Cut = len(pcs) == depth && t.stacks[i].Frames[depth-1].Function != "runtime.goexit"
	}
}

// frames names the calls of a stack. Each entry of a profile's record stands for
// one call, also where calls were inlined, so they can be remembered one by one.
func (t *Taker) frames(pcs []uintptr) []Frame {
	from := len(t.arena)
	for _, pc := range pcs {
		frame, ok := t.names[pc]
		if !ok {
			f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
			frame = Frame{Function: f.Function, File: f.File, Line: f.Line}
			if len(t.names) >= maxNames {
				clear(t.names)
			}
			t.names[pc] = frame
		}
		t.arena = append(t.arena, frame)
	}
	return t.arena[from:len(t.arena):len(t.arena)]
}
