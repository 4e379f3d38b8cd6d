package kernel

import (
	"cmp"
	"slices"
	"time"
)

// ThreadTimes are the times of all threads of a process.
type ThreadTimes struct {
	// SchedTime is the total so far, which never falls.
	SchedTime

	// Whole says that what the total grew by since the reading before is the
	// growth of all threads. Only with more threads than one reading takes can
	// it be otherwise: then some that ran may not have been read in time.
	Whole bool
}

// MaxThreads bounds what one reading of a process costs. Reading one thread
// takes 6 µs, so this many take some 20 ms: of a window of ten seconds that is
// two thousandths of one processor, and more than that nobody would call cheap.
const MaxThreads = 3_000

// threadTable adds up what the threads of one process have run and waited, where
// the kernel forgets a thread that exits: it keeps what it had at the last
// reading. What a thread did after that, or in a life that began and ended
// between two readings, nobody can know any more.
//
// With more than MaxThreads threads it chooses which to read: those that ran not
// long ago, and a rotating part of the rest. The choice may miss one that wakes
// up. So the result is compared with the process's CPU time, which the kernel
// has of all threads: where they differ the reading is not whole. To scale what
// was read up to all threads instead would be wrong in either direction: the
// delay sits on the few threads that run Go code (of 1,006 threads a sample of
// 256 read 0.00 s where the truth was 9.3, and 16 s where it was 9.5).
//
// Its methods are called in the order list, chosen, then read for each of those,
// and close.
type threadTable struct {
	threads map[int32]threadState
	reading uint32  // counts readings; its first number is firstReading
	listed  int     // threads in the last list
	choice  []int32 // in use by the caller between chosen and close
	resting []int32 // threads that could be read beside those that ran
	from    int32   // where the rotation goes on, an id
	total   SchedTime
	grown   SchedTime // since the reading before
	cpu     time.Duration
	cpuSeen bool
}

// threadState is what is known of one thread.
type threadState struct {
	times SchedTime
	seen  uint32 // the reading in which it was last listed
	ran   uint32 // the reading in which it had last run
	known bool   // times is from a reading, or the thread began after the last list
}

// recentReadings is for how many readings a thread that ran is read again in any
// case: a thread that wakes each minute or so is then not forgotten in between,
// with windows of ten seconds.
const recentReadings = 8

// firstReading lets a thread whose ran is 0 not pass for one that ran recently.
const firstReading = recentReadings + 1

// begin opens a reading.
func (t *threadTable) begin() {
	if t.threads == nil {
		t.threads = make(map[int32]threadState)
		t.reading = firstReading - 1
	}
	t.reading++
	t.listed = 0
	t.grown = SchedTime{}
	t.choice, t.resting = t.choice[:0], t.resting[:0]
}

// list adds one thread that the process has now.
func (t *threadTable) list(tid int32) {
	state, old := t.threads[tid]
	if !old {
		// One that was not there at the reading before has begun since, and all
		// its times are new. At the first reading it is so where all are read:
		// the total is that of today's threads in their lives.
		state = threadState{known: true, ran: t.reading}
	}
	state.seen = t.reading
	t.threads[tid] = state
	t.listed++
	if t.reading-state.ran <= recentReadings {
		t.choice = append(t.choice, tid)
	} else {
		t.resting = append(t.resting, tid)
	}
}

// chosen returns the threads to read. The list is valid until the next begin.
func (t *threadTable) chosen() []int32 {
	if t.listed > MaxThreads && t.reading == firstReading {
		// Most of them will be read some other time, and what they did in their
		// lives so far would look like something that has just happened.
		for tid, state := range t.threads {
			state.known, state.ran = false, 0
			t.threads[tid] = state
		}
		t.choice, t.resting = t.resting, t.choice
	}
	if len(t.choice) > MaxThreads {
		// Too many that ran: the next reading begins behind these.
		t.rotate(t.choice)
		t.choice = t.choice[:MaxThreads]
		t.from = t.choice[MaxThreads-1] + 1
		return t.choice
	}
	rest := min(len(t.resting), MaxThreads-len(t.choice))
	if rest < len(t.resting) {
		t.rotate(t.resting)
		t.from = t.resting[max(0, rest-1)] + 1
	}
	t.choice = append(t.choice, t.resting[:rest]...)
	return t.choice
}

// rotate puts ids into ascending order, beginning with the first that is not
// below from.
func (t *threadTable) rotate(ids []int32) {
	slices.SortFunc(ids, func(a, b int32) int {
		// As unsigned distances from where it goes on, which wrap around.
		return cmp.Compare(uint32(a)-uint32(t.from), uint32(b)-uint32(t.from))
	})
}

// read notes the times of one thread.
func (t *threadTable) read(tid int32, now SchedTime) {
	state := t.threads[tid]
	grown := now.since(state.times)
	if state.known && grown != (SchedTime{}) {
		t.grown = t.grown.plus(grown)
		state.ran = t.reading
	}
	state.times, state.known = now, true
	t.threads[tid] = state
}

// close ends a reading and forgets the threads that have exited. cpu is the CPU
// time of the whole process, of all threads that it ever had, in the same unit
// as the threads' own.
func (t *threadTable) close(cpu time.Duration) ThreadTimes {
	if len(t.threads) > t.listed {
		for tid, state := range t.threads {
			if state.seen != t.reading {
				delete(t.threads, tid)
			}
		}
	}
	t.total = t.total.plus(t.grown)
	whole := t.listed <= MaxThreads || t.cpuSeen && accountsFor(t.grown.Run, cpu-t.cpu)
	t.cpu, t.cpuSeen = cpu, true
	return ThreadTimes{SchedTime: t.total, Whole: whole}
}

// accountsFor reports whether the run time that was read is that of the whole
// process. The scheduler adds to a thread's time with each tick (1 to 10 ms), so
// that both are a little behind, each in its own way.
func accountsFor(read, process time.Duration) bool {
	difference := max(read-process, process-read)
	return difference <= process/10+20*time.Millisecond
}
