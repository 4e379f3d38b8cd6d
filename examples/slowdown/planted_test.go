package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer"
)

// plantedMark stands behind the lines that are to be named, with the injections that
// they belong to: "planted: lock/mutex cpu_saturated/*".
const plantedMark = "// planted: "

// withoutLine are the injections for which no line can be named, and why.
var withoutLine = map[string]string{
	"output_write/locked": "the write is a sleep, which no stack shows as one",
	"output_write/hung":   "likewise",
	"memory/stacks":       "stacks are not in the heap's profile",
	"memory/cgroup":       "what is not the heap's is not in its profile",
	"descriptors/*":       "nothing tells who opened them",
	"unknown/*":           "nothing is known of it",
	"none/*":              "there is nothing to name",
}

// planted are the lines of an injection that may come first.
func planted(t *testing.T, i injection) (lines []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for n, line := range strings.Split(string(text), "\n") {
			_, marks, found := strings.Cut(line, plantedMark)
			if found && slices.ContainsFunc(strings.Fields(marks), func(mark string) bool { return matches(mark, i) }) {
				lines = append(lines, fmt.Sprintf("examples/slowdown/%s:%d", file, n+1))
			}
		}
	}
	return lines
}

func matches(pattern string, i injection) bool {
	matched, _ := path.Match(pattern, i.name())
	return matched
}

func TestEveryInjectionHasALineOrAReason(t *testing.T) {
	for _, i := range injections {
		lines := planted(t, i)
		reason := ""
		for pattern, why := range withoutLine {
			if matches(pattern, i) {
				reason = why
			}
		}
		if i.cause == observer.CauseNone {
			continue // some have one, for the sentence
		}
		assert.NotEqual(t, len(lines) == 0, reason == "", "%s: lines %v, or why there is none: %q", i.name(), lines, reason)
	}
}

// place compares what was named with what was planted. Wrong is empty where they
// agree.
func place(lines []string, d observer.Diagnosis) (wrong string) {
	if d.Verdict == observer.CauseNone {
		if slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(d.Summary, line) }) {
			return ""
		}
		return fmt.Sprintf("the sentence has none of %v: %s", lines, d.Summary)
	}
	if len(d.Sites) == 0 {
		return "no site: " + d.Summary
	}
	if !slices.Contains(lines, d.Sites[0].Location) {
		return fmt.Sprintf("%s and not one of %v", d.Sites[0].Location, lines)
	}
	return ""
}
