package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"strings"
	"text/template"
	"time"
)

// alert is one rule of Prometheus.
type alert struct {
	name     string
	reason   string // why the threshold is where it is
	expr     expression
	held     time.Duration // for which the expression must hold
	severity string
	summary  string // a template of Prometheus
	runbook  string // what to do; where it is empty, the catalogue's advice on the first signal in expr
}

// Severities. A page wakes somebody, a ticket waits for the morning.
const (
	page   = "page"
	ticket = "ticket"
)

// alerts hold for one process each. They read counters by their increase, which
// a restart leaves whole, and gauges over two minutes where a window can go
// unmeasured, so that one missing point does not begin the wait anew. A process
// that has ended has no series: its alerts end, and none is woken by absence.
var alerts = []alert{
	{
		name:   "ObserverLag",
		reason: "In a healthy process only the kernel's timer and neighbours show, 20 ms at most. 100 ms is five times that, is felt in every request, and is the boundary of a bucket, so that no interpolation decides.",
		expr: `histogram_quantile(0.99, sum by (job, instance, le) (rate(<gym.event_loop.lag_ms>_bucket[5m])))
  > 100`,
		held: 5 * time.Minute, severity: ticket,
		summary: `One wake-up in a hundred of {{ $labels.job }} on {{ $labels.instance }} is {{ $value | printf "%.0f" }} ms late or more.`,
	},
	{
		name:   "ObserverSlow",
		reason: "One cause had the verdict for nine tenths of five minutes; the tenth is for scrapes that do not meet the ends of the range. Waiting for another server, or for a limit, is how many programs live, so downstream and admission are left out.",
		expr: expression(`sum by (job, instance, nemo_gym_cause) (rate(<gym.slow_time>{nemo_gym_cause!~"` + information + `"}[5m]))
  > 0.9`),
		severity: ticket,
		summary:  `{{ $labels.job }} on {{ $labels.instance }} has been slow for five minutes because of {{ $labels.nemo_gym_cause }}.`,
		runbook:  "Look {{ $labels.nemo_gym_cause }} up under What to do in docs/DIAGNOSIS.md.",
	},
	{
		name:   "ObserverGCShare",
		reason: "The collector takes a quarter of the processors by design while it works, and more than 0.35 of them is a verdict. Here it is the share of the CPU time that the process used, since the number of processors is no metric. Below half a processor it harms nobody.",
		expr: `sum by (job, instance) (avg_over_time(<gym.load>{nemo_gym_cause="gc"}[5m]))
  / sum by (job, instance) (rate(<process.cpu.time>[5m]))
  > 0.35
and
sum by (job, instance) (avg_over_time(<gym.load>{nemo_gym_cause="gc"}[5m]))
  > 0.5`,
		held: 5 * time.Minute, severity: ticket,
		summary: `The garbage collector takes {{ $value | humanizePercentage }} of the CPU of {{ $labels.job }} on {{ $labels.instance }}.`,
		runbook: "Take an allocation profile and allocate less, or give the collector room: raise GOGC, or GOMEMLIMIT where the heap presses against it.",
	},
	{
		name:   "ObserverThrottled",
		reason: "A quota that is never reached stops nothing, and one that is reached stopped at least 0.48 s per second in every measurement. From 0.1 on it is a verdict.",
		expr: `sum by (job, instance) (rate(<process.cpu.throttled_time>[5m]))
  > 0.1`,
		held: 5 * time.Minute, severity: ticket,
		summary: `The CPU quota stops {{ $labels.job }} on {{ $labels.instance }} for {{ $value | printf "%.2f" }} s per second.`,
	},
	{
		name:   "ObserverDescriptors",
		reason: "At 1 accept and open fail, and 0.9 is a verdict. A leak climbs steadily: 0.8 leaves time.",
		expr: `max by (job, instance) (avg_over_time(<gym.load>{nemo_gym_cause="descriptors"}[2m]))
  > 0.8`,
		held: 5 * time.Minute, severity: page,
		summary: `{{ $labels.job }} on {{ $labels.instance }} uses {{ $value | humanizePercentage }} of the descriptors that it may have open.`,
		runbook: "Find the body or file that nobody closes in a goroutine profile, raise RLIMIT_NOFILE, and restart the process if it is near 1.",
	},
	{
		name:   "ObserverMemory",
		reason: "At 1 the collector never rests or the kernel kills the process, and 0.9 is a verdict. Garbage does not count, so that a healthy process does not come near: 0.8 leaves time.",
		expr: `max by (job, instance) (avg_over_time(<gym.load>{nemo_gym_cause="memory"}[2m]))
  > 0.8`,
		held: 5 * time.Minute, severity: page,
		summary: `{{ $labels.job }} on {{ $labels.instance }} uses {{ $value | humanizePercentage }} of its memory limit.`,
		runbook: "Take a heap profile before the process is killed; raise the limit, or admit less at once.",
	},
	{
		name:   "ObserverRolloutStuck",
		reason: "Twice the longest duration that the driver's histograms tell apart, half an hour. Set it to what your rollouts may take.",
		expr: `max by (job, instance) (<gym.driver.rollouts.oldest_age>)
  > 3600`,
		held: 5 * time.Minute, severity: ticket,
		summary: `A rollout of {{ $labels.job }} on {{ $labels.instance }} has been in flight for {{ $value | humanizeDuration }}.`,
	},
	{
		name:   "ObserverAdmissionBacklog",
		reason: "More rollouts wait for the limit than run, and more than a quarter of an hour ago. A driver that offers all its work at once has a backlog, but one that shrinks.",
		expr: `sum by (job, instance) (<gym.driver.rollouts.resident> - <gym.driver.rollouts.active>)
  > sum by (job, instance) (<gym.driver.rollouts.active>)
and
sum by (job, instance) (<gym.driver.rollouts.resident> - <gym.driver.rollouts.active>)
  > sum by (job, instance) (<gym.driver.rollouts.resident> offset 15m - <gym.driver.rollouts.active> offset 15m)`,
		held: 15 * time.Minute, severity: ticket,
		summary: `{{ $value | printf "%.0f" }} rollouts wait for the limit of {{ $labels.job }} on {{ $labels.instance }}, and they become more.`,
		runbook: "Raise the limit if what is behind it has room, else offer less.",
	},
	{
		name:   "ObserverClientsLeave",
		reason: "One client in twenty does not wait for its response. Streams that a client ends have begun to respond, and do not count. Ten in ten minutes keep a quiet server from waking anybody. A server that answers nobody has no responses, hence the or.",
		expr: `sum by (job, instance) (rate(<gym.server.requests.cancelled_total>{nemo_gym_request_phase="before_response"}[10m]))
  / (
    sum by (job, instance) (rate(<gym.server.requests.cancelled_total>{nemo_gym_request_phase="before_response"}[10m]))
    + (
      sum by (job, instance) (rate(<gym.server.responses_total>[10m]))
      or 0 * sum by (job, instance) (rate(<gym.server.requests.cancelled_total>{nemo_gym_request_phase="before_response"}[10m]))
    )
  )
  > 0.05
and
sum by (job, instance) (increase(<gym.server.requests.cancelled_total>{nemo_gym_request_phase="before_response"}[10m]))
  > 10`,
		held: 5 * time.Minute, severity: ticket,
		summary: `{{ $value | humanizePercentage }} of the clients of {{ $labels.job }} on {{ $labels.instance }} leave before they have a response.`,
	},
	{
		name:   "ObserverUnhandledExceptions",
		reason: "A panic that leaves a handler is a bug, however rare.",
		expr: `sum by (job, instance) (increase(<gym.server.requests.unhandled_exceptions_total>[10m]))
  > 0`,
		severity: ticket,
		summary:  `Handlers of {{ $labels.job }} on {{ $labels.instance }} panicked {{ $value | printf "%.0f" }} times in ten minutes.`,
	},
}

//go:embed alerts.yaml.tmpl
var alertsTemplate string

// alertsFile returns the rules as Prometheus loads them.
func alertsFile(names names) ([]byte, error) {
	parsed, err := template.New("alerts").Parse(alertsTemplate)
	if err != nil {
		return nil, err
	}
	type rule struct{ Name, Reason, Expr, For, Severity, Summary, Runbook string }
	var rules []rule
	for _, a := range alerts {
		expr, err := names.translate(a.expr, "")
		if err != nil {
			return nil, fmt.Errorf("alert %s: %w", a.name, err)
		}
		rules = append(rules, rule{
			Name:     a.name,
			Reason:   wrapped(a.reason, "      # "),
			Expr:     indented(expr, "          "),
			For:      minutes(a.held),
			Severity: a.severity,
			Summary:  a.summary,
			Runbook:  cmp.Or(a.runbook, a.expr.signals()[0].Advice),
		})
	}
	var text bytes.Buffer
	err = parsed.Execute(&text, rules)
	return text.Bytes(), err
}

func minutes(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%dm", int(d.Minutes()))
}

func indented(text, with string) string {
	return with + strings.ReplaceAll(text, "\n", "\n"+with)
}

// wrapped breaks a text into lines of a readable length.
func wrapped(text, begin string) string {
	const width = 90
	var all strings.Builder
	line := begin
	for word := range strings.FieldsSeq(text) {
		if len(line)+len(word) > width {
			all.WriteString(strings.TrimRight(line, " ") + "\n")
			line = begin
		}
		line += word + " "
	}
	return all.String() + strings.TrimRight(line, " ")
}
