package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gym-observer/observer"
	"github.com/gym-observer/observer/client"
)

// row is one process of the table.
type row struct {
	address     string // shown where the process does not say its name, or has it in common with others
	report      client.Report
	answered    bool      // at least once; report is the last one
	silentSince time.Time // zero while it answers
	silent      string    // why it does not
	measured    *measured // of a process without a page; the fields above are empty then
}

// The widths of the columns, with one space between them: 79 in all, so that a
// terminal of 80 has them in one line whatever it does at the last column. What a
// wider one has more goes to the name.
const (
	nameWidth    = 14
	pidWidth     = 7
	verdictWidth = 14 // blocked_thread
	ageWidth     = 5
	numberWidth  = 5
	lagWidth     = 6
	cpuWidth     = 4
	tableWidth   = nameWidth + pidWidth + verdictWidth + 2*ageWidth + 3*numberWidth + lagWidth + cpuWidth + 9
	maxNameWidth = 40
)

// table draws the rows, the slow ones first. No line is longer than width, and where
// lines is not zero there are no more of them.
func table(rows []row, now time.Time, width, lines int, colour bool) []string {
	names := nameWidth + min(max(width-1-tableWidth, 0), maxNameWidth-nameWidth)
	head := strings.Join([]string{cell("NAME", names), right("PID", pidWidth), cell("VERDICT", verdictWidth), right("SINCE", ageWidth), right("LOAD", numberWidth),
		right("LAG99", lagWidth), right("INFL", numberWidth), right("REQ/S", numberWidth), right("CPU", cpuWidth), right("OLD", ageWidth)}, " ")
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), -cmp.Compare(a.load(), b.load()), cmp.Compare(a.name(), b.name()), cmp.Compare(a.address, b.address))
	})
	often := make(map[string]int)
	for _, r := range sorted {
		often[ending(r.name(), names)]++
	}
	shown := sorted
	if room := lines - 2; lines > 0 && len(sorted) > lines-1 {
		shown = sorted[:max(room, 0)]
	}
	drawn := []string{cut(head, width)}
	for _, r := range shown {
		named := ending(r.name(), names)
		if often[named] > 1 && r.address != "" {
			named = apart(named, r.address, names)
		}
		drawn = append(drawn, r.draw(named, names, now, width, colour))
	}
	if more := len(sorted) - len(shown); more > 0 && len(drawn) < lines {
		drawn = append(drawn, cut(fmt.Sprintf("… and %d more that are less slow; a taller window has them", more), width))
	}
	return drawn
}

// apart tells processes of one name apart. Of an address the end stays, since its
// port, or the end of a pod's name, is what differs.
func apart(named, from string, width int) string {
	address := []rune(plain(from, nameLength))
	if both := plain(named, nameLength) + " " + string(address); len([]rune(both)) <= width {
		return both
	}
	if more := len(address) - width; more > 0 {
		return "…" + string(address[more+1:])
	}
	return string(address)
}

// ending is the end of a name that is too long for its column and has a slash in it:
// what follows the program, as in rollouts/driver, tells its processes apart.
func ending(named string, width int) string {
	end := strings.LastIndex(named, "/")
	if end <= 0 || utf8.RuneCountInString(plain(named, nameLength)) <= width {
		return named
	}
	return "…" + named[end:]
}

func (r row) name() string {
	if r.measured != nil {
		return cmp.Or(r.measured.job, r.measured.instance)
	}
	return cmp.Or(r.report.Name, r.address)
}

// rank is where a row stands: what is slow, what is silent, what waits for others,
// what is well, and what has no verdict.
func (r row) rank() int {
	switch {
	case r.measured != nil:
		return 5
	case !r.silentSince.IsZero():
		return 1
	case r.report.Slow():
		return 0
	}
	switch r.report.Diagnosis.Verdict {
	case "":
		return 4
	case observer.CauseNone:
		return 3
	}
	return 2
}

func (r row) load() float64 {
	load, _ := r.report.Load()
	return load
}

func (r row) draw(named string, names int, now time.Time, width int, colour bool) string {
	pid := ""
	if r.report.PID != 0 {
		pid = fmt.Sprint(r.report.PID)
	}
	left := []string{cell(named, names), right(cell(pid, min(len(pid), pidWidth)), pidWidth)}
	d := &r.report.Diagnosis
	switch {
	case r.measured != nil:
		m := r.measured
		inFlight, rate := m.inFlight, m.responses
		if !(inFlight > 0) && !math.IsNaN(m.resident) {
			inFlight, rate = m.resident, m.offered
		}
		late := "-"
		if !math.IsNaN(m.lag) {
			late = lag(milliseconds(m.lag))
		}
		return cut(strings.Join(append(left, cell("no verdict", verdictWidth), right("-", ageWidth), right("-", numberWidth), right(late, lagWidth),
			right(number(inFlight), numberWidth), right(number(rate), numberWidth), right("-", cpuWidth), right("-", ageWidth)), " "), width)
	case !r.silentSince.IsZero():
		line := strings.Join(append(left, cell("no answer", verdictWidth), right(age(now.Sub(r.silentSince)), ageWidth), text(r.silent)), " ")
		return paint(cut(line, width), 33, colour)
	case !r.answered:
		return cut(strings.Join(append(left, "asked"), " "), width)
	}
	verdict, since, load, oldest := string(d.Verdict), "-", "-", "-"
	if verdict == "" {
		verdict = "not yet"
	}
	if !r.report.Since.IsZero() {
		since = age(now.Sub(r.report.Since))
	}
	if l, ok := r.report.Load(); ok {
		load = number(l)
	}
	if len(d.Oldest) > 0 {
		oldest = age(d.Oldest[0].Age)
	}
	late, inFlight, rate, cpu := "-", "-", "-", "-"
	if recent := r.report.Recent; recent.Over > 0 {
		late, inFlight, rate = lag(recent.Lag), number(recent.InFlight), number(recent.Responses)
		if recent.Driving && recent.InFlight == 0 {
			inFlight = number(recent.Resident)
		}
	}
	if share := r.report.Recent.CPU / r.report.Recent.Processors; share >= 0 && share < 9.995 {
		cpu = fmt.Sprintf("%.0f%%", 100*share)
	}
	line := strings.Join(append(left, cell(verdict, verdictWidth), right(since, ageWidth), right(load, numberWidth), right(late, lagWidth),
		right(inFlight, numberWidth), right(rate, numberWidth), right(cpu, cpuWidth), right(oldest, ageWidth)), " ")
	return paint(cut(line, width), 31, colour && r.report.Slow())
}

// cut leaves as much of a line as fits.
func cut(line string, width int) string {
	if runes := []rune(line); len(runes) > width {
		return string(runes[:max(width-1, 0)]) + "…"
	}
	return line
}

// paint gives a line one of the terminal's colours.
func paint(line string, colour int, on bool) string {
	if !on {
		return line
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, line)
}
