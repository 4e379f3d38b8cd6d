package evidence

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
)

// maxGoroutinesListed is how many goroutines are grouped by stack at most: grouping
// 100,000 took 324 ms.
const maxGoroutinesListed = 20_000

// Goroutines is a file with the goroutines grouped by stack, without their labels,
// which are the application's own text: a user's name, a tenant.
func Goroutines(name string) File {
	return File{name, func(w io.Writer) error {
		if n := runtime.NumGoroutine(); n > maxGoroutinesListed {
			_, err := fmt.Fprintf(w, "%d goroutines are too many to list: it would hold the process up for a while\n", n)
			return err
		}
		var profile bytes.Buffer
		const groupedByStackAndLabels = 1
		if err := pprof.Lookup("goroutine").WriteTo(&profile, groupedByStackAndLabels); err != nil {
			return err
		}
		return writeStacks(w, profile.Bytes())
	}}
}

// stack is one that several goroutines have.
type stack struct {
	goroutines int
	pcs        string // "0x45d0a0 0x45d0b4"
	frames     []byte // a line each
}

// writeStacks writes a profile anew, of which it takes the lines that it knows and
// no others, so that what a later Go adds to a profile is not written unseen.
// Goroutines whose labels alone differ are one stack.
//
// runtime.GoroutineProfile, which has no labels to begin with, cuts a stack off at
// 32 frames: the route's handler is often further out than that.
func writeStacks(w io.Writer, profile []byte) error {
	var stacks []*stack
	byPCs := make(map[string]*stack)
	var open *stack // whose frames come; nil where they are known already
	total := 0
	for line := range bytes.SplitSeq(profile, []byte("\n")) {
		if goroutines, pcs, ok := parseStackLine(line); ok {
			total += goroutines
			known := byPCs[pcs]
			if known == nil {
				open = &stack{pcs: pcs}
				known, byPCs[pcs] = open, open
				stacks = append(stacks, open)
			} else {
				open = nil
			}
			known.goroutines += goroutines
		}
		if open != nil && bytes.HasPrefix(line, []byte("#\t0x")) {
			open.frames = append(append(open.frames, line...), '\n')
		}
	}
	slices.SortStableFunc(stacks, func(a, b *stack) int { return cmp.Compare(b.goroutines, a.goroutines) })
	if _, err := fmt.Fprintf(w, "goroutine profile: total %d\n", total); err != nil {
		return err
	}
	for _, s := range stacks {
		if _, err := fmt.Fprintf(w, "%d @ %s\n%s\n", s.goroutines, s.pcs, s.frames); err != nil {
			return err
		}
	}
	return nil
}

// parseStackLine reads "2 @ 0x45d0a0 0x45d0b4", which begins a stack.
func parseStackLine(line []byte) (goroutines int, pcs string, ok bool) {
	number, addresses, found := bytes.Cut(line, []byte(" @ "))
	goroutines, err := strconv.Atoi(string(number))
	ok = found && err == nil && len(bytes.Trim(addresses, " 0123456789abcdefx")) == 0
	return goroutines, string(addresses), ok
}
