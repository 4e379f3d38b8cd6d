package observer

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gym-observer/observer/internal/diagnosis"
)

const diagnosisPage = "docs/DIAGNOSIS.md"

// diagnosisTables are made of the rows of the causes, by what stands before each
// in the page. People read them in place of the code.
var diagnosisTables = map[string]func() string{
	"what to do": whatToDoTable,
	"the rules":  rulesTable,
}

func TestDiagnosisTables(t *testing.T) {
	page, err := os.ReadFile(diagnosisPage)
	require.NoError(t, err)
	text := string(page)
	for name, table := range diagnosisTables {
		begin := "<!-- " + name + ": made by go test -run TestDiagnosisTables -update . -->\n"
		end := "<!-- end of " + name + " -->\n"
		before, rest, found := strings.Cut(text, begin)
		require.True(t, found, "%s has the line %s", diagnosisPage, begin)
		written, after, found := strings.Cut(rest, end)
		require.True(t, found, "%s has the line %s", diagnosisPage, end)
		if *update {
			text = before + begin + table() + end + after
			continue
		}
		assertSameLines(t, table(), written, "the rows and "+name+" in "+diagnosisPage+" differ: go test -run TestDiagnosisTables -update .")
	}
	if *update {
		require.NoError(t, os.WriteFile(diagnosisPage, []byte(text), 0o644))
	}
}

func whatToDoTable() string {
	var table strings.Builder
	table.WriteString("| verdict | what it means | look here first | what looks like it and is not |\n|---|---|---|---|\n")
	for cause := range diagnosis.Cause(diagnosis.NumCauses) {
		d := diagnosis.DocumentationOf(cause)
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", cause.Name(), cell(d.Meaning), cell(d.LookFirst), cell(d.NotIt))
	}
	return table.String()
}

func rulesTable() string {
	var table strings.Builder
	table.WriteString("| # | verdict | holds when, over the window | why there |\n|---|---|---|---|\n")
	for cause := diagnosis.None + 1; int(cause) < diagnosis.NumCauses; cause++ {
		fmt.Fprintf(&table, "| %d | `%s` | %s | %s |\n", cause, cause.Name(), cell(cause.Condition()), cell(diagnosis.DocumentationOf(cause).Why))
	}
	return table.String()
}

func TestEveryCauseIsDocumented(t *testing.T) {
	for cause := range diagnosis.Cause(diagnosis.NumCauses) {
		d := diagnosis.DocumentationOf(cause)
		for _, text := range []string{d.Meaning, d.LookFirst, d.NotIt} {
			assert.NotEmpty(t, text, cause.Name())
		}
		assert.Equal(t, cause != diagnosis.None, d.Why != "", cause.Name())
	}
}

// On the page a cause without a colour of its own would be a band that cannot be
// told from another.
func TestEveryCauseHasAColourOnThePage(t *testing.T) {
	text, err := os.ReadFile("internal/page/page.css")
	require.NoError(t, err)
	light, dark, found := strings.Cut(string(text), "@media (prefers-color-scheme: dark)")
	require.True(t, found)
	for name, scheme := range map[string]string{"light": light, "dark": dark} {
		owners := make(map[string]string) // by colour
		for cause := diagnosis.None + 1; int(cause) < diagnosis.NumCauses; cause++ {
			colour := regexp.MustCompile(`--` + cause.Name() + `: (#[0-9a-f]{6});`).FindStringSubmatch(scheme)
			if assert.NotNil(t, colour, "%s, %s: there is --%s: #rrggbb;", name, cause, cause) {
				assert.NotContains(t, owners, colour[1], "%s, %s has a colour of its own", name, cause)
				owners[colour[1]] = cause.Name()
			}
			assert.Contains(t, string(text), ".c-"+cause.Name()+" { --c: var(--"+cause.Name()+"); }")
		}
	}
}
