// Package diagnosis says what slows a process down. It is arithmetic alone: it
// looks at no clock, no file and no state outside of its arguments, so that a
// window that was recorded once can be judged again in a test.
//
// Samples and two readings become a [Window], which holds the load of each
// cause: the mean number of goroutines, threads, requests or rollouts that wait
// for it. The rules turn a window into the causes that hold in it, and a [Judge]
// turns those of one window after the other into a verdict that does not
// flicker. A cause is one row in rows.go, its documentation one in
// documentation.go, and its thresholds stand in thresholds.go.
package diagnosis

import (
	"iter"
	"log/slog"
	"math/bits"
)

// Cause is a thing that work can wait for, or a verdict without one. The values
// are dense, so that an array can hold something for each, and in the order in
// which the rules are asked. They are no names: those stand in metrics and logs.
type Cause int

// The causes, in the order of the rules: each comes before its victims. A full
// run queue while the collector uses half of the processors is the collector's
// doing, and in a throttled cgroup everything is the quota's. Output comes before
// locks, since the usual lock that is waited for in a driver is held over the
// write. Descriptors and memory come before the waits that can last for a
// program's whole life, or a driver that waits for its model would hide until it
// fails that it is about to.
const (
	None Cause = iota // no rule holds
	CPUThrottled
	StopTheWorld
	GC
	CPUContended
	CPUSaturated
	OutputWrite
	Lock
	Descriptors
	Memory
	Downstream
	Admission
	BlockedThread
	Wait
	Unknown // slow, and no rule says why; it has no load

	NumCauses int = iota
)

// All yields the causes that have a load, in the order of the rules.
func All() iter.Seq[Cause] {
	return func(yield func(Cause) bool) {
		for c := None + 1; c < Unknown; c++ {
			if !yield(c) {
				return
			}
		}
	}
}

// Name is the word for the cause in metrics, logs and JSON.
func (c Cause) Name() string { return rows[c].name }

// Condition says in words when the cause's rule holds.
func (c Cause) Condition() string { return rows[c].condition }

// Advice says in a sentence what to do about the cause.
func (c Cause) Advice() string { return rows[c].advice }

// IsShare reports whether the cause is a saturation: its load is the share of a
// limit that is in use.
func (c Cause) IsShare() bool { return rows[c].share }

// Level is that of the log line when the cause becomes the verdict: Info for what
// is normal life in many programs, and then nothing is captured. [Outcome.Level]
// knows more.
func (c Cause) Level() slog.Level { return rows[c].level }

// Set is a set of causes. Its zero value is empty.
type Set uint32

// SetOf is the set of the given causes.
func SetOf(causes ...Cause) (s Set) {
	for _, c := range causes {
		s |= 1 << c
	}
	return s
}

// Without is the set without c.
func (s Set) Without(c Cause) Set { return s &^ (1 << c) }

// Has reports whether c is in the set.
func (s Set) Has(c Cause) bool { return s&(1<<c) != 0 }

// First is the cause to blame first, None in an empty set.
func (s Set) First() Cause {
	if s == 0 {
		return None
	}
	return Cause(bits.TrailingZeros32(uint32(s)))
}

// List returns the causes in the order of the rules, nil for none.
func (s Set) List() (causes []Cause) {
	for ; s != 0; s &= s - 1 {
		causes = append(causes, s.First())
	}
	return causes
}
