package kernel

import (
	"bytes"
	"errors"
	"fmt"
)

// MachineTime is the time of all processors since the machine started, in ticks
// of the kernel's user interface (USER_HZ, a hundredth of a second nearly
// everywhere). It is meant for shares: the growth of Steal over the growth of
// Total.
type MachineTime struct {
	Steal int64 // ticks in which the hypervisor ran something else
	Total int64 // all ticks, idle and stolen ones included
}

// The columns of the "cpu" line, as show_stat in the kernel's fs/proc/stat.c
// prints them: user, nice, system, idle, iowait, irq, softirq, steal, guest,
// guest_nice. The last two are parts of user and nice, so that a sum over all
// ten would count them twice.
const (
	idleColumn  = 3
	waitColumn  = 4
	stealColumn = 7
	sumColumns  = 8
)

// ParseStat returns the time of all processors in the text of /proc/stat. Idle
// and iowait can go back a little from one reading to the next, so Total can
// too. In a container lxcfs may put a file of its own in this place, which
// covers that container's processors.
func ParseStat(text []byte) (MachineTime, error) {
	for line := range bytes.Lines(text) {
		// The lines of single processors begin with "cpu0", "cpu1" and so on.
		line, found := bytes.CutPrefix(line, []byte("cpu "))
		if !found {
			continue
		}
		times, err := parseTicks(line)
		if err != nil {
			return MachineTime{}, fmt.Errorf("all processors: %w", err)
		}
		return MachineTime{Steal: times[stealColumn], Total: total(times)}, nil
	}
	return MachineTime{}, errors.New("no line of all processors")
}

// parseTicks reads the columns of one line that make up its total.
func parseTicks(line []byte) (times [sumColumns]int64, err error) {
	rest, complete := bytes.CutSuffix(line, []byte("\n"))
	rest = bytes.TrimLeft(rest, " ") // two spaces follow the "cpu" of all
	for i := range times {
		column, more, found := bytes.Cut(rest, []byte(" "))
		if !complete || !found && i < len(times)-1 {
			return times, fmt.Errorf("fewer than %d times in %.128q", sumColumns, string(line))
		}
		if times[i], err = parseCount(column); err != nil {
			return times, fmt.Errorf("time %d: %w", i+1, err)
		}
		rest = more
	}
	return times, nil
}

func total(times [sumColumns]int64) (sum int64) {
	for _, ticks := range times {
		sum = add(sum, ticks)
	}
	return sum
}
