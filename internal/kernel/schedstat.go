package kernel

import (
	"bytes"
	"fmt"
	"time"
)

// SchedTime is what the scheduler has counted for one thread, or for several.
type SchedTime struct {
	Run    time.Duration // on a processor
	Delay  time.Duration // ready, but waiting for a processor
	Slices int64         // how often it was given a processor
}

// ParseSchedstat reads the text of /proc/self/task/TID/schedstat: nanoseconds on
// a processor, nanoseconds waiting for one, and the number of time slices
// (proc_pid_schedstat in the kernel's fs/proc/base.c). /proc/self/schedstat is
// the main thread's alone, not the process's.
//
// A wait is added when it ends, so that a thread which waits now does not show
// it yet. A thread that the cgroup's quota has stopped may count as waiting, in
// a way that depends on the kernel.
//
// It allocates nothing, as it is called for each thread.
func ParseSchedstat(text []byte) (SchedTime, error) {
	var numbers [3]int64
	line, _, complete := bytes.Cut(text, []byte("\n"))
	if !complete {
		return SchedTime{}, fmt.Errorf("fewer than 3 numbers in %.64q", string(text))
	}
	for i := range numbers {
		field, rest, more := bytes.Cut(line, []byte(" "))
		if !more && i < len(numbers)-1 {
			return SchedTime{}, fmt.Errorf("fewer than 3 numbers in %.64q", string(text))
		}
		number, err := parseCount(field)
		if err != nil {
			return SchedTime{}, fmt.Errorf("%s: %w", schedstatColumns[i], err)
		}
		numbers[i], line = number, rest
	}
	return SchedTime{Run: time.Duration(numbers[0]), Delay: time.Duration(numbers[1]), Slices: numbers[2]}, nil
}

var schedstatColumns = [...]string{"run time", "run delay", "time slices"}

// since returns how much each number grew. One that fell says that the thread is
// another one, which was given the same id: then all of now is new.
func (now SchedTime) since(before SchedTime) SchedTime {
	if now.Run < before.Run || now.Delay < before.Delay || now.Slices < before.Slices {
		return now
	}
	return SchedTime{now.Run - before.Run, now.Delay - before.Delay, now.Slices - before.Slices}
}

// plus returns the sum, which stays at the largest number where it would pass it.
func (now SchedTime) plus(more SchedTime) SchedTime {
	return SchedTime{add(now.Run, more.Run), add(now.Delay, more.Delay), add(now.Slices, more.Slices)}
}
