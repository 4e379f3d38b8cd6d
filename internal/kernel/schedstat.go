package kernel

import (
	"bytes"
	"fmt"
	"math"
	"time"
)

// SchedTime is what the scheduler has counted for one thread, or for several.
type SchedTime struct {
	Run   time.Duration // on a processor
	Delay time.Duration // ready, but waiting for a processor
}

// ParseSchedstat reads the text of /proc/self/task/TID/schedstat: nanoseconds on
// a processor, nanoseconds waiting for one, and the number of time slices
// (proc_pid_schedstat in the kernel's fs/proc/base.c). /proc/self/schedstat is
// the main thread's alone, not the process's.
//
// A wait is added when it ends, so that a thread which waits now does not show
// it yet. A thread that the cgroup's quota has stopped may count as waiting, in
// a way that depends on the kernel.
func ParseSchedstat(text []byte) (SchedTime, error) {
	line, _, complete := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if !complete || len(fields) < 3 {
		return SchedTime{}, fmt.Errorf("fewer than 3 numbers in %.64q", text)
	}
	run, err := parseCount(fields[0])
	if err != nil {
		return SchedTime{}, fmt.Errorf("run time: %w", err)
	}
	delay, err := parseCount(fields[1])
	if err != nil {
		return SchedTime{}, fmt.Errorf("run delay: %w", err)
	}
	return SchedTime{Run: time.Duration(run), Delay: time.Duration(delay)}, nil
}

// TaskTimes is one reading of a process's threads.
type TaskTimes struct {
	Tasks   map[int]SchedTime // by thread id
	LeftOut int               // threads that were not read because there are too many
}

// TaskTotal adds up what the threads of one process have run and waited, where
// the kernel forgets a thread that exits: it keeps what it had at the last
// reading. The zero value is ready. It is not safe for concurrent use.
type TaskTotal struct {
	last    TaskTimes
	started bool
	total   SchedTime
}

// Add takes one reading and returns the total so far, which never falls. The
// first reading counts whole: it is what today's threads did in their lives. A
// window is the difference of two totals.
//
// Threads that were left out are taken to have done, since the last reading,
// what the others did on average.
func (t *TaskTotal) Add(reading TaskTimes) SchedTime {
	var grown SchedTime
	measured := 0
	for tid, now := range reading.Tasks {
		before, known := t.last.Tasks[tid]
		if !known && t.started && t.last.LeftOut > 0 {
			// Perhaps an old thread that was left out before. To count its whole
			// life in this window would be a spike that never was.
			continue
		}
		if now.Run < before.Run || now.Delay < before.Delay {
			before = SchedTime{} // the id was given to a new thread
		}
		grown.Run = add(grown.Run, now.Run-before.Run)
		grown.Delay = add(grown.Delay, now.Delay-before.Delay)
		measured++
	}
	if measured > 0 {
		share := float64(len(reading.Tasks)+reading.LeftOut) / float64(measured)
		t.total.Run = add(t.total.Run, scale(grown.Run, share))
		t.total.Delay = add(t.total.Delay, scale(grown.Delay, share))
	}
	t.last, t.started = reading, true
	return t.total
}

// scale multiplies d by a factor that is at least 1.
func scale(d time.Duration, factor float64) time.Duration {
	if factor <= 1 {
		return d // a float64 would round it
	}
	scaled := math.Round(float64(d) * factor)
	if scaled >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(scaled)
}

// maxTasks bounds what one reading of a process costs: 256 threads take under
// 2 ms, at 6 µs each.
const maxTasks = 256

// sample returns at most maxTasks of tids. Which ones follows from the ids
// alone and not from their order or number: the next reading takes the same
// threads again, so that there are differences to count. It works in place.
func sample(tids []int) []int {
	for shift := 31; len(tids) > maxTasks && shift >= 0; shift-- {
		kept := tids[:0]
		for _, tid := range tids {
			// Multiplied by 2^32 over the golden ratio (Fibonacci hashing), ids
			// that follow each other spread evenly, so that the bit halves any
			// run of them: of threads created together it takes every other.
			if uint32(tid)*2654435769>>shift&1 == 0 {
				kept = append(kept, tid)
			}
		}
		tids = kept
	}
	return tids
}
