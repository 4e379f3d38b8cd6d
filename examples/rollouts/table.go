package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gym-observer/observer"
)

// text is the closing table.
func (m measurement) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.1f rollouts a second, over %d windows after the start.\n\n", m.driver.rollouts, m.driver.windows)

	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "process\tverdict\tin it\tcall out takes\twait for limit\twhat work waits for")
	for _, s := range []stage{m.driver, m.agent, m.model, m.resources} {
		inFlight, out, limit := fmt.Sprintf("%.1f", s.inFlight), "-", "-"
		calls := 0.0
		switch s.role {
		case driverRole:
			inFlight = fmt.Sprintf("%.1f", s.active) // the rollouts that run
			calls = m.agent.responses
		case agentRole:
			calls = m.model.responses + m.resources.responses
		}
		if calls > 0 {
			out = perCall(s.outbound, calls).String()
		}
		if s.admitted > 0 {
			limit = shown(s.waited).String()
		}
		fmt.Fprintf(table, "%s\t%s (%d of %d)\t%s\t%s\t%s\t%s\n", s.role, s.verdict, s.held, s.windows, inFlight, out, limit, s.waiting())
	}
	_ = table.Flush()

	b.WriteString("\nWhere a rollout's time goes:\n")
	for _, p := range m.places() {
		fmt.Fprintf(table, "  %s\t%v\t%.1f rollouts\n", p.name, perCall(p.rollouts, m.driver.rollouts), p.rollouts)
	}
	_ = table.Flush()

	limit := m.limits()
	fmt.Fprintf(&b, "\nWhat limits the throughput: %s. %s\n", limit.stage, sentence(limit.why))
	return b.String()
}

// worthPrinting is the least load that the table mentions.
const worthPrinting = 0.05

// waiting lists the loads, the largest first.
func (s stage) waiting() string {
	var texts []string
	largest := func(a, b observer.Cause) int { return cmp.Or(cmp.Compare(s.loads[b], s.loads[a]), cmp.Compare(a, b)) }
	for _, cause := range slices.SortedFunc(maps.Keys(s.loads), largest) {
		if s.loads[cause] >= worthPrinting {
			texts = append(texts, fmt.Sprintf("%s %.2g", cause, s.loads[cause]))
		}
	}
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, ", ")
}

// perCall is how long each takes of those of which so many are there at once and
// so many a second are done: Little's law.
func perCall(there, perSecond float64) time.Duration {
	if perSecond == 0 {
		return 0
	}
	return shown(time.Duration(there / perSecond * float64(time.Second)))
}

// shown rounds to what is worth showing.
func shown(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// sentence begins a text with a capital letter.
func sentence(text string) string {
	return strings.ToUpper(text[:1]) + text[1:]
}
