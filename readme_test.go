package observer

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/catalogue"
)

var update = flag.Bool("update", false, "rewrite what is made: the table of metrics in README.md, the exported names in testdata/api")

const (
	readme     = "README.md"
	tableBegin = "<!-- metrics: made by go test -run TestReadmeTable -update . -->\n"
	tableEnd   = "<!-- end of metrics -->\n"
)

func TestReadmeTable(t *testing.T) {
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), tableBegin)
	require.True(t, found, "%s has the line %s", readme, tableBegin)
	written, after, found := strings.Cut(rest, tableEnd)
	require.True(t, found, "%s has the line %s", readme, tableEnd)

	if *update {
		require.NoError(t, os.WriteFile(readme, []byte(before+tableBegin+metricsTable()+tableEnd+after), 0o644))
		return
	}
	assertSameLines(t, metricsTable(), written, "the catalogue and the table in "+readme+" differ: go test -run TestReadmeTable -update .")
}

func TestReadmeProgramCompiles(t *testing.T) {
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	program := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindSubmatch(text)
	require.NotNil(t, program, "%s has a program", readme)
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, program[1], 0o644))
	output, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput()
	assert.NoError(t, err, "go vet of the program in %s:\n%s", readme, output)
}

// metricsTable is the catalogue in Markdown.
func metricsTable() string {
	var table strings.Builder
	table.WriteString("| metric | what it is | when it rises |\n|---|---|---|\n")
	for _, s := range catalogue.Signals {
		fmt.Fprintf(&table, "| `%s`<br>%s, %s | %s | %s |\n",
			s.Name, s.Kind, s.Unit, cell(s.Description+attributesSentence(s.Attributes)), cell(s.Advice))
	}
	return table.String()
}

func attributesSentence(attributes []string) string {
	if len(attributes) == 0 {
		return ""
	}
	return " By `" + strings.Join(attributes, "`, `") + "`."
}

// cell escapes what would end a cell of the table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
