package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
)

// CPUMask says which processors, by their number, a process may run on.
type CPUMask []uint64

// Count returns how many processors the mask has.
func (m CPUMask) Count() int {
	count := 0
	for _, word := range m {
		count += bits.OnesCount64(word)
	}
	return count
}

// Has reports whether the mask has a processor.
func (m CPUMask) Has(processor int) bool {
	word := processor / 64
	return processor >= 0 && word < len(m) && m[word]>>(processor%64)&1 == 1
}

// ProcessorTime is the time of one processor since the machine started, in ticks
// of the kernel's user interface (see [MachineTime]).
type ProcessorTime struct {
	Idle  int64 // with nothing to run, also while somebody waits for a disk
	Steal int64 // in which the hypervisor ran something else
	Total int64 // all ticks; 0 for a processor that is not there
}

// Processors has the time of each processor at one moment, by its number.
type Processors []ProcessorTime

// ParseProcessors returns the time of each processor in the text of /proc/stat.
// It uses the memory of into, which may be nil.
//
// One that is switched off has no line. In a container lxcfs may put a file of
// its own in this place, which numbers that container's processors from 0;
// [Processors.Since] sees that where the numbers do not fit the mask.
func ParseProcessors(text []byte, into Processors) (Processors, error) {
	processors := into[:0]
	for line := range bytes.Lines(text) {
		line, found := bytes.CutPrefix(line, []byte("cpu"))
		if !found {
			if len(processors) > 0 {
				break // behind them come the interrupts, a long line
			}
			continue
		}
		number, rest, _ := bytes.Cut(line, []byte(" "))
		if len(number) == 0 {
			continue // all processors
		}
		processor, err := parseCount(number)
		if err != nil || processor >= maxProcessors {
			return nil, fmt.Errorf("no processor's number in %.64q", string(line))
		}
		times, err := parseTicks(rest)
		if err != nil {
			return nil, fmt.Errorf("processor %d: %w", processor, err)
		}
		for int64(len(processors)) <= processor {
			processors = append(processors, ProcessorTime{})
		}
		processors[processor] = ProcessorTime{
			Idle:  add(times[idleColumn], times[waitColumn]),
			Steal: times[stealColumn],
			Total: total(times),
		}
	}
	if len(processors) == 0 {
		return nil, errors.New("no line of a processor")
	}
	return processors, nil
}

// maxProcessors is as many as Linux can be built for, on any architecture.
const maxProcessors = 8192

// ProcessorShare is how processors spent their time, each a part of 1.
type ProcessorShare struct {
	Idle, Steal float64
}

// Since returns how the processors of mask spent their time between two
// readings. Nobody waits for a processor beside one that is idle and that it may
// use: the mask matters, since on a machine with many processors the others say
// nothing about a process that is kept to two.
//
// known is false where the time did not pass, and where a processor of the mask
// is missing from a reading: it was switched on or off, or the file speaks of
// other processors than the mask.
func (p Processors) Since(before Processors, mask CPUMask) (share ProcessorShare, known bool) {
	var idle, steal, all int64
	counted := 0
	for processor, now := range p {
		if !mask.Has(processor) {
			continue
		}
		if processor >= len(before) || before[processor].Total == 0 || now.Total == 0 {
			return ProcessorShare{}, false
		}
		then := before[processor]
		// The idle time that the kernel gives can go back a little.
		idle = add(idle, max(0, now.Idle-then.Idle))
		steal = add(steal, max(0, now.Steal-then.Steal))
		all = add(all, max(0, now.Total-then.Total))
		counted++
	}
	if counted == 0 || counted != mask.Count() || all == 0 {
		return ProcessorShare{}, false
	}
	return ProcessorShare{
		Idle:  min(1, float64(idle)/float64(all)),
		Steal: min(1, float64(steal)/float64(all)),
	}, true
}
