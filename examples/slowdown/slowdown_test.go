package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

func TestEveryCauseHasAnInjection(t *testing.T) {
	injected := make(map[observer.Cause]bool)
	kinds := make(map[string]bool)
	for _, i := range injections {
		injected[i.cause] = true
		name := string(i.cause) + "/" + i.kind
		assert.False(t, kinds[name], "%s is there twice", name)
		kinds[name] = true
	}
	explained := make(map[observer.Cause]bool)
	for _, c := range causes {
		explained[c.cause] = true
	}
	assert.Equal(t, explained, injected)
}

func TestEveryHealthyWorkloadIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/DIAGNOSIS.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "| `-healthy` |")
	require.True(t, found, "DIAGNOSIS.md has the table of healthy workloads")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, name := range kinds(observer.CauseNone) {
		assert.Contains(t, table, "`"+name+"`", "what it looks like and why it is not")
	}
}

func TestCommandLine(t *testing.T) {
	tests := []struct {
		name      string
		arguments []string
		status    int
		stdout    string // a part of it
		stderr    string
	}{
		{"help", []string{"-help"}, named, "The exit status is 0 if the cause was named", ""},
		{"help names the healthy ones", []string{"-help"}, named, "idle, open, workers", ""},
		{"list", []string{"-list"}, named, "-kind rwmutex", ""},
		{"nothing", nil, misused, "", "which cause?"},
		{"an unknown cause", []string{"-cause", "gremlins"}, misused, "", `"gremlins" is no cause`},
		{"healthy and a cause", []string{"-healthy", "idle", "-cause", "gc"}, misused, "", "in the place of -cause"},
		{"an unknown healthy one", []string{"-healthy", "gremlins"}, misused, "", "only idle, open"},
		{"an unknown kind", []string{"-cause", "gc", "-kind", "gremlins"}, misused, "", "only churn, limit"},
		{"an unknown flag", []string{"-gremlins"}, misused, "", "gremlins"},
		{"a word", []string{"-cause", "gc", "limit"}, misused, "", `"limit" is not a flag`},
		{"a short window", []string{"-cause", "gc", "-window", "10ms"}, misused, "", "shorter than 1s"},
		{"a negative time", []string{"-cause", "gc", "-suffer", "-1s"}, misused, "", "negative"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			assert.Equal(t, test.status, run(test.arguments, &stdout, &stderr), "exit status")
			assert.Contains(t, stdout.String(), test.stdout)
			assert.Contains(t, stderr.String(), test.stderr)
			if test.status == named {
				assert.Empty(t, stderr.String())
			} else {
				assert.Empty(t, stdout.String())
			}
		})
	}
}
