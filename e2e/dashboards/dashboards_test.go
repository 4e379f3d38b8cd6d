// Package dashboards_test asks a real Prometheus every query of the dashboards
// and of the alerts, about processes in which everything happens.
package dashboards_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	prometheusapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/otlptranslator"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/e2e/internal/backend"
)

func TestMain(m *testing.M) { os.Exit(backend.Main(m)) }

// folder has the dashboards and the alerts.
const folder = "../../dashboards"

// strategies are the translations of names, by what the names of their files end
// in.
var strategies = map[string]otlptranslator.TranslationStrategyOption{
	"":                  otlptranslator.UnderscoreEscapingWithSuffixes,
	"-without-suffixes": otlptranslator.UnderscoreEscapingWithoutSuffixes,
}

// mayBeEmpty are metrics that not every system has. A query of one that the
// process does not export may return nothing.
var mayBeEmpty = map[string]string{
	"process_cpu_throttled_time": "no cgroup whose cpu.stat can be read",
	"process_cpu_run_delay":      "a kernel without schedstat",
}

func TestEveryQueryReturnsData(t *testing.T) {
	program := build(t)
	addresses := make(map[string]string)
	for ending, strategy := range strategies {
		// A limit, so that there is a share of it in use.
		process := backend.Start(t, program, []string{"GOMEMLIMIT=512MiB"}, "-strategy="+string(strategy))
		addresses[ending] = process.WaitForOutput(t, `scrape http://(\S+)/metrics`)[1]
	}
	prometheus := backend.StartPrometheus(t, scraping(t, addresses))
	for ending := range strategies {
		asked := asked{prometheus, jobOf(ending), addresses[ending]}
		// With the first window everything is exported that ever will be.
		asked.hasData(t, fmt.Sprintf("gym_load{job=%q}", asked.job), true)
		t.Run("grafana"+ending, asked.dashboard)
		t.Run("alerts"+ending, asked.alerts)
	}
}

func build(t *testing.T) (program string) {
	program = filepath.Join(t.TempDir(), "process")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./process").CombinedOutput()
	require.NoError(t, err, "%s", output)
	return program
}

func jobOf(ending string) string { return "process" + ending }

// scraping is a configuration with a job and the alerts of each translation.
func scraping(t *testing.T, addresses map[string]string) string {
	here, err := filepath.Abs(folder)
	require.NoError(t, err)
	var rules, jobs strings.Builder
	for ending, address := range addresses {
		fmt.Fprintf(&rules, "  - %q\n", filepath.Join(here, "alerts"+ending+".yaml"))
		fmt.Fprintf(&jobs, "  - job_name: %s\n    static_configs: [{targets: [%q]}]\n", jobOf(ending), address)
	}
	return "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n" +
		"rule_files:\n" + rules.String() + "scrape_configs:\n" + jobs.String()
}

// asked is a Prometheus that is asked about one process.
type asked struct {
	prometheus *backend.Prometheus
	job        string
	instance   string
}

// dashboard asks what Grafana would, once job and instance are chosen.
func (a asked) dashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, strings.Replace(a.job, "process", "grafana", 1)+".json"))
	require.NoError(t, err)
	var board struct {
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
		Panels []struct {
			Title   string
			Targets []struct {
				Expr    string
				Instant bool
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	chosen := map[string]string{"job": a.job, "instance": a.instance}
	for _, variable := range board.Templating.List {
		if variable.Type == "query" {
			a.offers(t, variable.Query, chosen[variable.Name])
		}
	}
	panels := 0
	for _, panel := range board.Panels {
		if len(panel.Targets) == 0 {
			continue // the heading of a row
		}
		panels++
		t.Run(panel.Title, func(t *testing.T) {
			for _, target := range panel.Targets {
				a.hasData(t, a.interpolated(target.Expr), target.Instant)
			}
		})
	}
	assert.NotZero(t, panels)
}

// interpolated replaces the variables as Grafana does: it quotes a value for a
// regular expression, and leaves what is no variable of its.
func (a asked) interpolated(expr string) string {
	quoted := func(value string) string { return strings.ReplaceAll(regexp.QuoteMeta(value), `\`, `\\`) }
	return strings.NewReplacer(
		"$__rate_interval", "4s", // four scrapes
		"$__range", "1m",
		"$job", quoted(a.job),
		"$instance", quoted(a.instance),
	).Replace(expr)
}

// offers requires that a variable of the dashboard has a value to choose.
func (a asked) offers(t *testing.T, query, value string) {
	parts := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(a.interpolated(query))
	require.NotNil(t, parts, query)
	backend.Await(t, func() error {
		values, _, _, err := a.prometheus.LabelValues(context.Background(), parts[2], []string{parts[1]}, time.Now().Add(-time.Minute), time.Now())
		if err == nil && !slices.Contains(values, model.LabelValue(value)) {
			err = fmt.Errorf("%s offers %v, not %s", query, values, value)
		}
		return err
	})
}

// alerts requires data for each metric that an alert reads, that Prometheus
// evaluates all of the rules, and that one fires.
func (a asked) alerts(t *testing.T) {
	file := strings.Replace(a.job, "process", "alerts", 1) + ".yaml"
	var rules []prometheusapi.AlertingRule
	backend.Await(t, func() (err error) {
		rules, err = a.evaluated(file)
		return err
	})
	require.NotEmpty(t, rules)
	for _, rule := range rules {
		t.Run(rule.Name, func(t *testing.T) {
			selectors := metrics.FindAllString(rule.Query, -1)
			require.NotEmpty(t, selectors, rule.Query)
			for _, selector := range selectors {
				a.hasData(t, selector, true)
			}
		})
	}
	t.Run("handlers that panic fire", func(t *testing.T) {
		backend.Await(t, func() error { return a.fires("ObserverUnhandledExceptions") })
	})
}

// metrics finds the metrics in a rule, as Prometheus prints it, with their
// matchers and without a range.
var metrics = regexp.MustCompile(`\b(?:gym|process)_\w+(?:\{[^}]*\})?`)

// evaluated returns the rules of a file, or an error until all are evaluated.
func (a asked) evaluated(file string) (rules []prometheusapi.AlertingRule, err error) {
	answer, err := a.prometheus.Rules(context.Background(), nil)
	if err != nil {
		return nil, err
	}
	for _, group := range answer.Groups {
		if filepath.Base(group.File) != file {
			continue
		}
		for _, rule := range group.Rules {
			rule := rule.(prometheusapi.AlertingRule)
			if rule.Health != prometheusapi.RuleHealthGood {
				return nil, fmt.Errorf("the rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
			rules = append(rules, rule)
		}
	}
	return rules, nil
}

func (a asked) fires(name string) error {
	answer, err := a.prometheus.Alerts(context.Background())
	if err != nil {
		return err
	}
	for _, alert := range answer.Alerts {
		if alert.State == prometheusapi.AlertStateFiring && alert.Labels["alertname"] == model.LabelValue(name) &&
			alert.Labels["job"] == model.LabelValue(a.job) && alert.Labels["instance"] == model.LabelValue(a.instance) {
			return nil
		}
	}
	return fmt.Errorf("%s does not fire for %s; there are %v", name, a.job, answer.Alerts)
}

// hasData waits until a query returns a number, at one time or over a minute.
func (a asked) hasData(t *testing.T, query string, instant bool) {
	for name, reason := range mayBeEmpty {
		if strings.Contains(query, name) && !a.exports(t, name) {
			t.Skipf("%s: %s", name, reason)
		}
	}
	backend.Await(t, func() error {
		now := time.Now()
		var answer model.Value
		var err error
		if instant {
			answer, _, _, err = a.prometheus.Query(context.Background(), query, now)
		} else {
			answer, _, _, err = a.prometheus.QueryRange(context.Background(), query,
				prometheusapi.Range{Start: now.Add(-time.Minute), End: now, Step: time.Second})
		}
		if err == nil && !hasNumber(answer) {
			err = fmt.Errorf("%s has no data", query)
		}
		return err
	})
}

// exports reports whether the process has a metric whose name begins so.
func (a asked) exports(t *testing.T, name string) bool {
	answer, _, _, err := a.prometheus.Query(context.Background(),
		fmt.Sprintf(`count({__name__=~"%s.*", job=%q})`, name, a.job), time.Now())
	require.NoError(t, err)
	return hasNumber(answer)
}

// hasNumber takes no NaN for one: it is the quantile of a histogram that nothing
// was added to, and draws nothing.
func hasNumber(answer model.Value) bool {
	switch answer := answer.(type) {
	case model.Vector:
		return slices.ContainsFunc(answer, func(s *model.Sample) bool { return !math.IsNaN(float64(s.Value)) })
	case model.Matrix:
		return slices.ContainsFunc(answer, func(s *model.SampleStream) bool {
			return slices.ContainsFunc(s.Values, func(p model.SamplePair) bool { return !math.IsNaN(float64(p.Value)) })
		})
	}
	return false
}
