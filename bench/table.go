package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// writeTargets says which targets were met. Those whose families were not
// measured are left out.
func writeTargets(w io.Writer, all, best results) {
	fmt.Fprint(w, "### Targets\n\n| what | target | median | its 95 % interval | by the best rounds | |\n|---|---|---|---|---|---|\n")
	for _, t := range targets() {
		values := measured(t.values(all))
		if len(values) == 0 {
			continue
		}
		m := median(values)
		low, high := interval(values)
		limit, met := "at most "+number(t.atMost), m <= t.atMost
		if t.atLeast > 0 {
			limit, met = "at least "+number(t.atLeast), m >= t.atLeast
		}
		verdict := "met"
		if !met {
			verdict = "**missed**"
		}
		fmt.Fprintf(w, "| %s | %s %s | %s | %s to %s | %s | %s |\n",
			t.what, limit, t.unit, number(m), number(low), number(high), number(median(measured(t.values(best)))), verdict)
	}
	fmt.Fprintln(w)
}

// writeFamily writes the table of one family.
func writeFamily(w io.Writer, f *family, all results) {
	fmt.Fprintf(w, "### %s, in %s\n\n%s\n\n", f.name, f.unit, f.about)
	fmt.Fprint(w, "| | median | minimum | over the floor | of the best peer | of the floor | allocations | bytes |\n|---|---|---|---|---|---|---|---|\n")
	base, bestPeer := f.best(all, floor), f.best(all, peer)
	for _, c := range f.cases {
		s := all[[2]string{f.name, c.name}]
		values := measured(values(f.name, c.name)(all))
		name := c.name
		if c.role == ours {
			name = "**" + name + "**"
		}
		if len(values) == 0 {
			fmt.Fprintf(w, "| %s | not measured: %v |\n", name, s.failed)
			continue
		}
		m := median(values)
		over, ofFloor, ofPeer := "", "", ""
		if base != "" && base != c.name {
			over = signed(median(measured(added(f.name, c.name, base)(all))))
			ofFloor = ratio(share(valuesOf(f, c.name), valuesOf(f, base))(all))
		}
		if bestPeer != "" && c.role == ours {
			ofPeer = ratio(share(valuesOf(f, c.name), valuesOf(f, bestPeer))(all))
		}
		allocs, bytes := "", ""
		if last := s.samples[len(s.samples)-1]; !math.IsNaN(last.allocs) {
			allocs = number(median(measured(allocations(f.name, c.name)(all))))
			bytes = number(median(measured(allocated(f.name, c.name)(all))))
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n",
			name, number(m), number(slices.Min(values)), over, ofPeer, ofFloor, allocs, bytes)
	}
	fmt.Fprintln(w)
}

func valuesOf(f *family, name string) func(results) []float64 { return values(f.name, name) }

// best returns the name of the best case of a role, or nothing. Of the floors it
// is the first, which is the one that the others are built on.
func (f *family) best(all results, of role) (name string) {
	var best float64
	for _, c := range f.cases {
		if c.role != of {
			continue
		}
		values := measured(values(f.name, c.name)(all))
		if len(values) == 0 {
			continue
		}
		m := median(values)
		if of == floor {
			return c.name
		}
		if name == "" || (m > best) == f.moreIsBetter {
			name, best = c.name, m
		}
	}
	return name
}

// measured leaves out the rounds that failed.
func measured(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// interval returns two of the values between which the median of what they are
// drawn from lies with a probability of 95 %, whatever its distribution: the
// values below the median are binomially distributed. Fewer than nine values
// are too few for that, and the interval is all of them.
func interval(values []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := float64(len(sorted))
	outside := max(0, int(math.Floor((n-1.96*math.Sqrt(n))/2)))
	return sorted[outside], sorted[len(sorted)-1-outside]
}

func ratio(values []float64) string {
	values = measured(values)
	if len(values) == 0 {
		return ""
	}
	return number(median(values))
}

// number writes three digits or more, and no decimals that mean nothing.
func number(v float64) string {
	switch size := math.Abs(v); {
	case v == math.Trunc(v) && size < 1000:
		return fmt.Sprintf("%.0f", v)
	case size < 10:
		return strings.TrimRight(fmt.Sprintf("%.3f", v), "0")
	case size < 100:
		return fmt.Sprintf("%.1f", v)
	case size < 1000:
		return fmt.Sprintf("%.0f", v)
	}
	digits := fmt.Sprintf("%.0f", math.Abs(v))
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if v < 0 {
		return "-" + digits
	}
	return digits
}

func signed(v float64) string {
	if v > 0 {
		return "+" + number(v)
	}
	return number(v)
}

// machine describes what this runs on.
func machine() string {
	var system unix.Utsname
	_ = unix.Uname(&system) // then the release is empty
	return fmt.Sprintf("%s, %d CPUs, Linux %s, %s, OpenTelemetry %s",
		cpuModel(), runtime.NumCPU(), unix.ByteSliceToString(system.Release[:]), runtime.Version(), moduleVersion("go.opentelemetry.io/otel"))
}

func cpuModel() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if key, value, found := strings.Cut(lines.Text(), ":"); found && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func moduleVersion(path string) string {
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == path {
				return module.Version
			}
		}
	}
	return "of unknown version"
}

// loadAverage is that of the last minute. A high one makes the times worthless.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	first, _, found := strings.Cut(string(text), " ")
	if err != nil || !found {
		return "unknown"
	}
	return first
}
