package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// machineTimes are what the CPUs have done until a moment.
type machineTimes struct {
	at        time.Time
	busy, own time.Duration // of all processes, of this one
	steal     time.Duration
}

// userHZ is the unit of /proc/stat, a hundredth of a second on every system that
// Go runs on.
const userHZ = time.Second / 100

// readMachine reads /proc/stat. Its first line has the time of all CPUs as user,
// nice, system, idle, iowait, irq, softirq and steal.
func readMachine() (machineTimes, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return machineTimes{}, err
	}
	var columns [8]time.Duration
	if _, err := fmt.Sscanf(string(text), "cpu %d %d %d %d %d %d %d %d", &columns[0], &columns[1], &columns[2],
		&columns[3], &columns[4], &columns[5], &columns[6], &columns[7]); err != nil {
		return machineTimes{}, fmt.Errorf("reading /proc/stat: %w", err)
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return machineTimes{}, err
	}
	return machineTimes{
		at:    time.Now(),
		busy:  userHZ * (columns[0] + columns[1] + columns[2] + columns[5] + columns[6]),
		own:   time.Duration(usage.Utime.Nano() + usage.Stime.Nano()),
		steal: userHZ * columns[7],
	}, nil
}

// since returns the use between two moments.
func (m machineTimes) since(before machineTimes) machineUse {
	length := m.at.Sub(before.at).Seconds()
	others := (m.busy - before.busy) - (m.own - before.own)
	return machineUse{
		CPUs:   runtime.NumCPU(),
		Others: max(0, others.Seconds()/length), // the two are not read at the same moment
		Steal:  (m.steal - before.steal).Seconds() / length,
	}
}
