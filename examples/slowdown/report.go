package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gym-observer/observer"
)

// seconds is a time as JSON has it.
type seconds float64

func (s seconds) String() string {
	d := time.Duration(float64(s) * float64(time.Second))
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// report is what there is to say about one window.
type report struct {
	Cause     observer.Cause             `json:"cause"` // what is injected
	Kind      string                     `json:"kind"`
	Injected  seconds                    `json:"injected_seconds"` // so far
	Window    int                        `json:"window"`
	Diagnosis observer.Diagnosis         `json:"diagnosis"`
	SlowTime  map[observer.Cause]seconds `json:"slow_time_seconds"` // what gym.slow_time stands at
	Requests  latencies                  `json:"requests"`
	Machine   *machineUse                `json:"machine"` // null where it cannot be read
}

// reporter makes a report at the end of each window.
type reporter struct {
	settings  settings
	server    *server
	reader    *sdkmetric.ManualReader
	suffering *suffering

	machine    machineTimes
	machineErr error
}

// begin opens the first window.
func (r *reporter) begin() {
	r.machine, r.machineErr = readMachine()
}

// watch prints each window until ctx ends, and reports whether the cause was
// named. It ends early, without an error, where the injection fails.
func (r *reporter) watch(ctx context.Context, w io.Writer) (wasNamed bool, err error) {
	cause := r.settings.injection.cause
	verdicts := make(map[observer.Cause]int)
	var diagnosis observer.Diagnosis
	windows := 0
	// The library does not tell when a window ends; this looks often enough to
	// miss none.
	for sleep(ctx, r.settings.window/100) == nil {
		if r.suffering.failed() != nil {
			return false, nil // whoever ends it hears why
		}
		latest := observer.Diagnose()
		if latest.At.Equal(diagnosis.At) {
			continue
		}
		diagnosis = latest
		windows++
		verdicts[diagnosis.Verdict]++
		report, err := r.report(windows, diagnosis)
		if err != nil {
			return false, err
		}
		if err := r.print(w, report); err != nil {
			return false, err
		}
	}
	switch {
	case verdicts[cause] == 0 && slices.Contains(diagnosis.Unmeasured, cause):
		return false, fmt.Errorf("%w: %s cannot be measured", errNotPossible, cause)
	case cause == observer.CauseNone && len(verdicts) > 1:
		return false, nil
	}
	return verdicts[cause] > 0, nil
}

func (r *reporter) report(window int, diagnosis observer.Diagnosis) (report, error) {
	slowTime, err := r.slowTime()
	return report{
		Cause:     r.settings.injection.cause,
		Kind:      r.settings.injection.kind,
		Injected:  seconds(r.suffering.soFar().Seconds()),
		Window:    window,
		Diagnosis: diagnosis,
		SlowTime:  slowTime,
		Requests:  r.server.answers.take(),
		Machine:   r.machineUse(),
	}, err
}

// slowTime collects what the exporters would export.
func (r *reporter) slowTime() (map[observer.Cause]seconds, error) {
	var collected metricdata.ResourceMetrics
	if err := r.reader.Collect(context.Background(), &collected); err != nil {
		return nil, err
	}
	stands := make(map[observer.Cause]seconds)
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[float64])
			if !ok || m.Name != observer.SlowTimeInstrument {
				continue
			}
			for _, point := range sum.DataPoints {
				cause, _ := point.Attributes.Value(observer.CauseAttribute)
				stands[observer.Cause(cause.AsString())] = seconds(point.Value)
			}
		}
	}
	return stands, nil
}

// machineUse returns what others did since the last time, or nil.
func (r *reporter) machineUse() *machineUse {
	before, failed := r.machine, r.machineErr
	r.machine, r.machineErr = readMachine()
	if failed != nil || r.machineErr != nil {
		return nil
	}
	use := r.machine.since(before)
	return &use
}

func (r *reporter) print(w io.Writer, report report) error {
	if r.settings.json {
		return json.NewEncoder(w).Encode(report)
	}
	_, err := io.WriteString(w, report.text())
	return err
}

// worthPrinting is the least load that a window's lines mention.
const worthPrinting = 0.05

func (r report) text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "window %d: %s\n  %s\n", r.Window, r.Diagnosis.Verdict, r.Diagnosis.Summary)
	var waiting, shares []string
	for _, finding := range r.Diagnosis.Findings {
		switch share := finding.Cause == observer.CauseDescriptors || finding.Cause == observer.CauseMemory; {
		case finding.Load < worthPrinting:
		case share:
			shares = append(shares, fmt.Sprintf("%s %.0f %%", finding.Cause, 100*finding.Load))
		default:
			waiting = append(waiting, fmt.Sprintf("%s %.2g", finding.Cause, finding.Load))
		}
	}
	printList := func(title string, list []string) {
		if len(list) > 0 {
			fmt.Fprintf(&text, "  %s: %s\n", title, strings.Join(list, ", "))
		}
	}
	printList("waiting", waiting)
	printList("in use", shares)
	var unmeasured []string
	for _, cause := range r.Diagnosis.Unmeasured {
		unmeasured = append(unmeasured, string(cause))
	}
	printList("unmeasured", unmeasured)
	for _, site := range r.Diagnosis.Sites {
		fmt.Fprintf(&text, "  %s %3.0f %% %s %s", site.Kind, 100*site.Share, site.Location, site.Function)
		if site.In != "" {
			fmt.Fprintf(&text, ", in %s", site.In)
		}
		text.WriteByte('\n')
	}
	if r.Requests.Asked > 0 {
		fmt.Fprintf(&text, "  requests: %d asked, %d answered", r.Requests.Asked, r.Requests.Answered)
		if r.Requests.Answered > 0 {
			fmt.Fprintf(&text, ", median %v, slowest %v", r.Requests.Median, r.Requests.Slowest)
		}
		text.WriteByte('\n')
	}
	if r.Machine != nil {
		fmt.Fprintf(&text, "  machine: other processes used %s\n", r.Machine)
	}
	text.WriteByte('\n')
	return text.String()
}
