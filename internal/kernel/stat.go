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
		line, complete := bytes.CutSuffix(line, []byte("\n"))
		columns := bytes.Fields(line)
		if !complete || len(columns) < sumColumns {
			return MachineTime{}, fmt.Errorf("fewer than %d times in %.128q", sumColumns, line)
		}
		var machine MachineTime
		for i, column := range columns[:sumColumns] {
			ticks, err := parseCount(column)
			if err != nil {
				return MachineTime{}, fmt.Errorf("time %d of all processors: %w", i+1, err)
			}
			machine.Total = add(machine.Total, ticks)
			if i == stealColumn {
				machine.Steal = ticks
			}
		}
		return machine, nil
	}
	return MachineTime{}, errors.New("no line of all processors")
}
