package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/otlptranslator"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const ruleTests = "alerts_test.yaml"

// The same tests hold for the names without suffixes, once translated.
func TestAlertsFireAndKeepSilent(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; Debian's package prometheus has it")
	}
	files, err := generate()
	require.NoError(t, err)
	written, err := os.ReadFile(filepath.Join(directory, ruleTests))
	require.NoError(t, err)
	for strategy, ending := range strategies {
		t.Run(string(strategy), func(t *testing.T) {
			folder := t.TempDir()
			tests := translated(t, string(written), strategy)
			require.NoError(t, os.WriteFile(filepath.Join(folder, "alerts.yaml"), files["alerts"+ending+".yaml"], 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(folder, ruleTests), []byte(tests), 0o600))
			for _, arguments := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", ruleTests}} {
				command := exec.CommandContext(t.Context(), promtool, arguments...)
				command.Dir = folder
				output, err := command.CombinedOutput()
				assert.NoError(t, err, "promtool %s:\n%s", strings.Join(arguments, " "), output)
			}
		})
	}
}

// series is a metric of the observer, but not a label such as nemo_gym_cause.
var series = regexp.MustCompile(`\b(gym|process)_\w+?(_bucket)?\b`)

// translated puts other names into tests that are written with suffixes.
func translated(t *testing.T, tests string, to otlptranslator.TranslationStrategyOption) string {
	written, err := namesAs(otlptranslator.UnderscoreEscapingWithSuffixes)
	require.NoError(t, err)
	wanted, err := namesAs(to)
	require.NoError(t, err)
	other := make(map[string]string)
	for signal, name := range written {
		other[name] = wanted[signal]
	}
	return series.ReplaceAllStringFunc(tests, func(name string) string {
		plain, bucket := strings.CutSuffix(name, "_bucket")
		require.Contains(t, other, plain, "%s tests a metric that is none", ruleTests)
		if bucket {
			return other[plain] + "_bucket"
		}
		return other[plain]
	})
}

func TestEveryAlertHasATestThatFiresItAndOneThatKeepsItSilent(t *testing.T) {
	var written struct {
		Tests []struct {
			Rules []struct {
				Alert string      `yaml:"alertname"`
				Fires []yaml.Node `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	text, err := os.ReadFile(filepath.Join(directory, ruleTests))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &written))
	fired, silent, all := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, test := range written.Tests {
		for _, rule := range test.Rules {
			if len(rule.Fires) > 0 {
				fired[rule.Alert] = true
			} else {
				silent[rule.Alert] = true
			}
		}
	}
	for _, a := range alerts {
		all[a.name] = true
	}
	assert.Equal(t, all, fired)
	assert.Equal(t, all, silent)
	assert.Len(t, all, len(alerts), "two alerts have one name")
}

func TestAlertsHaveWhatTheirReaderNeeds(t *testing.T) {
	files, err := generate()
	require.NoError(t, err)
	for name, text := range files {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		var rules struct {
			Groups []struct {
				Rules []struct {
					Alert, Expr         string
					Labels, Annotations map[string]string
				}
			}
		}
		require.NoError(t, yaml.Unmarshal(text, &rules), name)
		require.Len(t, rules.Groups, 1, name)
		require.Len(t, rules.Groups[0].Rules, len(alerts), name)
		for _, rule := range rules.Groups[0].Rules {
			assert.Contains(t, []string{page, ticket}, rule.Labels["severity"], rule.Alert)
			for _, annotation := range []string{"summary", "runbook"} {
				assert.True(t, strings.HasSuffix(rule.Annotations[annotation], "."), "%s of %s is a sentence", annotation, rule.Alert)
			}
			assert.NotContains(t, rule.Expr, "<gym", rule.Alert)
			assert.NotContains(t, rule.Expr, "absent", "%s: a process that has ended is not slow", rule.Alert)
		}
	}
}
